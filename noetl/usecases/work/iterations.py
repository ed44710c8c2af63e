"""The iterations of a lane, run one at a time."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Final, assert_never

from noetl.facts.events import (
    CommandIssued,
    CtxPatched,
    Draft,
    IterationDone,
    IterationFailed,
    IterationResumed,
    IterationStarted,
    IterationSuspended,
    LoopClaimed,
    LoopGrown,
)
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Retention
from noetl.pipeline.fold import replay as replay_pipeline
from noetl.pipeline.interpreter import run
from noetl.pipeline.model import (
    Call,
    Completed,
    Ending,
    Failed,
    Finished,
    Move,
    PipelineProgress,
    Recorded,
    Sleep,
    Suspend,
)
from noetl.pipeline.patches import extend
from noetl.usecases.ports import CommandRow
from noetl.usecases.work.leased_tools import IterationDropped, LeasedTools
from noetl.usecases.work.leases import Worker
from noetl.usecases.work.pipelines import begin_wait, pipeline_ports, program, resume_at
from noetl.usecases.work.reports import ReportBatch
from noetl.usecases.work.shares import LoopItems

#: Before anything began.
EPOCH = datetime.fromtimestamp(0, UTC)


#: What the log may hold of an iteration that has not begun.
_BEFORE_ITS_START: Final = (LoopClaimed, LoopGrown, CommandIssued)


@dataclass(slots=True)
class Iterations:
    """Runs the pipelines of iterations; what they record waits in the batch until it is
    committed."""

    worker: Worker
    command: CommandRow
    items: LoopItems
    tools: LeasedTools
    batch: ReportBatch
    #: What earlier deliveries recorded, by index.
    recorded: dict[int, list[Draft]] = field(default_factory=dict)
    #: Of this delivery: how many iterations failed, why the last one did, and which one has left
    #: its worker.
    failures: int = 0
    error: ErrorInfo | None = None
    suspended: int | None = None
    #: When the current iteration began, and whether that is in the log.
    _started: datetime = EPOCH
    _begun: bool = False

    def run(self, index: int) -> None:
        """Runs the pipeline of one iteration; what it recorded last waits in the batch. Raises
        LeaseLost."""
        rt, command = self.worker.rt, self.command
        prog = program(self.items.plan, command, index)
        earlier = self.recorded.get(index, [])
        progress = replay_pipeline(prog, earlier)
        self._started = rt.clock()
        self._begun = any(not isinstance(draft.fact, _BEFORE_ITS_START) for draft in earlier)
        if index == command.iteration and not (self.items.loop.paced and command.issue == 1):
            self._resume(index, earlier)
        ports = pipeline_ports(rt, command, self.tools, self.tools.log, self.batch.cache)
        try:
            for move in run(prog, self.items.names(index), progress, ports):
                self._follow(index, move)
        except IterationDropped:
            self.batch.drop_iteration(index)

    def _follow(self, index: int, move: Move) -> None:
        match move:
            case Recorded():
                self._begin(index)
                self._extend(move.drafts)
                self.batch.commit()
            case Sleep():
                self.batch.commit()
                self.worker.rt.sleep(move.seconds)
            case Suspend():
                self._extend(move.drafts)
                self._suspend(index, move)
            case Finished():
                self._extend(move.drafts)
                self._end(index, move.ending, move.progress)
            case _:
                assert_never(move)

    def show_alive(self) -> None:
        """Called from the heartbeat's thread: a long task shows in the log while it runs."""
        self.tools.announce(self._announce)

    def _announce(self, call: Call, draft: Draft) -> None:
        if call.where.iteration is not None:
            self._begin(call.where.iteration)
        self.batch.add(draft)
        self.batch.commit(waits=False)

    def _begin(self, index: int) -> None:
        """An iteration that is open at a report has its start recorded."""
        if not self._begun:
            # Before what else it recorded, should that still be pending.
            self._add(IterationStarted(self._started.isoformat()), index, "started")
            self._begun = True

    def _resume(self, index: int, earlier: list[Draft]) -> None:
        key = f"resumed/{self.command.issue}"
        if self._key(key, index) not in {draft.dedup_key for draft in earlier}:
            self._add(IterationResumed(self.worker.name), index, key)

    def _suspend(self, index: int, move: Suspend) -> None:
        child = move.child
        if child is not None and child.iter is None:
            child = replace(child, iter=self.items.scope(index))
        fact = IterationSuspended(
            move.task, move.reason, resume_at(self.worker.rt, move), child, begin_wait(self.worker.rt, move)
        )
        self._add(fact, index, f"suspended/{self.command.issue}/{self.command.part}")
        self.suspended, self.batch.wakes = index, True

    def _end(self, index: int, ending: Ending, progress: PipelineProgress) -> None:
        rt, keep = self.worker.rt, Retention(self.command.execution_id)
        spent = round((rt.clock() - self._started).total_seconds() * 1000, 3)
        match ending:
            case Completed():
                writes = tuple((name, rt.hold(value, keep)) for name, value in progress.writes)
                self._add(IterationDone(ending.task, writes), index, "iteration", spent)
                self.batch.wakes = self.batch.wakes or self.items.loop.asks
            case Failed():
                self._add(IterationFailed(ending.error), index, "iteration", spent)
                self.batch.wakes = True
                self.failures, self.error = self.failures + 1, ending.error
            case _:
                assert_never(ending)

    def _extend(self, drafts: tuple[Draft, ...]) -> None:
        for draft in drafts:
            if isinstance(draft.fact, CtxPatched):
                self.items.patches = extend(self.items.patches, draft.fact.patch)
            self.batch.add(draft)

    def _add(
        self,
        fact: IterationStarted | IterationDone | IterationFailed | IterationSuspended | IterationResumed,
        index: int,
        key: str,
        duration_ms: float | None = None,
    ) -> None:
        self.batch.add(
            Draft(
                fact,
                source="worker",
                step=self.command.step,
                run_id=self.command.run_id,
                iteration=index,
                duration_ms=duration_ms,
                dedup_key=self._key(key, index),
            )
        )

    def _key(self, key: str, index: int) -> str:
        return f"{key}:{self.command.run_id}/{index}"
