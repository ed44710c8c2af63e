"""run_step: claim a pipeline's command, run it, report (T3, T4)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import assert_never

from noetl.engine.plan import Plan
from noetl.facts.events import (
    CtxPatched,
    Draft,
    StepDone,
    StepFailed,
    StepResumed,
    StepStarted,
    StepSuspended,
)
from noetl.facts.outcome import ErrorInfo
from noetl.pipeline.fold import replay as replay_pipeline
from noetl.pipeline.interpreter import run
from noetl.pipeline.model import Completed, Ending, Failed, Finished, Recorded, Sleep, Suspend
from noetl.usecases.log_context import set_claim
from noetl.usecases.ports import CommandRow
from noetl.usecases.work.cached import cache_of
from noetl.usecases.work.leased_tools import LeasedTools, LeaseLost
from noetl.usecases.work.leases import Delivery, End, HeldCommand, Worker, claim, refusal
from noetl.usecases.work.pipelines import begin_wait, names, pipeline_ports, program, resume_at, scope_around
from noetl.usecases.work.reports import ReportBatch, give_up


def run_step(worker: Worker, command_id: str) -> Delivery:
    """Runs the pipeline of one command to its end or its suspension."""
    rt = worker.rt
    with rt.store.begin_async_commit() as tx:
        command = claim(rt, tx, worker.name, command_id)
        if command is None:
            return refusal(tx, command_id)
        set_claim(command)
        plan = rt.plan(tx, command.context["digest"])
        first = command.attempt == 1 and command.issue == 1 and "copied" not in command.context
        recorded = [] if first else tx.events.of_run(command.execution_id, command.run_id, None)
    tools = LeasedTools(rt, command)
    job = _Job(
        worker,
        command,
        plan,
        rt.clock(),
        tools,
        ReportBatch(rt, command, tools, cache_of(rt, plan, command)),
    )
    with worker.leases.hold(HeldCommand(command, tools.end, job.alive)):
        try:
            job.run([event.draft for event in recorded])
        except LeaseLost:
            if tools.cancelled:
                give_up(rt, command)
            return Delivery(End.CANCELLED if tools.cancelled else End.REFUSED)
    return Delivery(End.DONE, job.error, failed=0 if job.error is None else 1)


@dataclass(slots=True)
class _Job:
    worker: Worker
    command: CommandRow
    plan: Plan
    started: datetime
    tools: LeasedTools
    batch: ReportBatch
    begun: bool = False
    #: Why the step failed.
    error: ErrorInfo | None = None

    def run(self, recorded: list[Draft]) -> None:
        rt, command = self.worker.rt, self.command
        prog = program(self.plan, command, None)
        progress = replay_pipeline(prog, recorded)
        self.begun = self._begin().dedup_key in {draft.dedup_key for draft in recorded}
        ports = pipeline_ports(rt, command, self.tools, self.tools.log, self.batch.cache)
        for move in run(prog, names(rt, self.plan, command), progress, ports):
            match move:
                case Recorded():
                    self._report(move.drafts, close=False)
                case Sleep():
                    rt.sleep(move.seconds)
                case Suspend():
                    self._report([*move.drafts, self._suspend(move)], close=True)
                case Finished():
                    self._report([*move.drafts, self._end(move.ending)], close=True)
                case _:
                    assert_never(move)

    def alive(self) -> None:
        """Called from the heartbeat's thread: a long task shows in the log while it runs."""
        self.tools.announce(lambda _, draft: self._report([draft], close=False, waits=False))

    def _report(self, drafts: Iterable[Draft], *, close: bool, waits: bool = True) -> None:
        if not self.begun:
            self.batch.add(self._begin())
            self.begun = True
        for draft in drafts:
            self.batch.add(draft)
            self.batch.wakes = self.batch.wakes or isinstance(draft.fact, CtxPatched)
        self.batch.wakes = self.batch.wakes or close
        self.batch.commit(close=close, waits=waits)

    def _draft(
        self, fact: StepStarted | StepResumed | StepSuspended | StepDone | StepFailed, key: str
    ) -> Draft:
        spent = (self.worker.rt.clock() - self.started).total_seconds() * 1000
        ends = isinstance(fact, StepDone | StepFailed)
        return Draft(
            fact,
            source="worker",
            step=self.command.step,
            run_id=self.command.run_id,
            duration_ms=round(spent, 3) if ends else None,
            dedup_key=key,
        )

    def _begin(self) -> Draft:
        run_id, issue = self.command.run_id, self.command.issue
        if issue > 1:
            return self._draft(StepResumed(self.worker.name), f"resumed:{run_id}/{issue}")
        fact = StepStarted(self.worker.name, self.started.isoformat())
        return self._draft(fact, f"started:{run_id}")

    def _suspend(self, move: Suspend) -> Draft:
        child = move.child
        if child is not None and child.iter is None:
            # A playbook sees as its caller's iteration the one that the step is a part of.
            child = replace(child, iter=scope_around(self.worker.rt, self.command.context))
        fact = StepSuspended(
            move.task, move.reason, resume_at(self.worker.rt, move), child, begin_wait(self.worker.rt, move)
        )
        return self._draft(fact, f"suspended:{self.command.run_id}/{self.command.issue}")

    def _end(self, ending: Ending) -> Draft:
        key = f"end:{self.command.run_id}"
        match ending:
            case Completed():
                return self._draft(StepDone(ending.task), key)
            case Failed():
                self.error = ending.error
                return self._draft(StepFailed(ending.error), key)
            case _:
                assert_never(ending)
