"""run_lane: the work of a loop.

A lane takes indices in the transaction that reports its previous ones, runs each iteration's pipeline,
and yields its worker after a slice. One lane runs one iteration at a time, and there are never more
lanes than `max_in_flight`. A lane whose iteration suspends ends: the iteration keeps its slot, and the
command that resumes it goes on as a lane.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import assert_never, cast

from noetl.engine.context import loop_mode
from noetl.engine.evolve import patched
from noetl.engine.loops import too_many
from noetl.engine.plan import Plan
from noetl.errors import NoetlError
from noetl.facts.events import (
    CtxPatched,
    Draft,
    IterationDone,
    IterationFailed,
    IterationResumed,
    IterationStarted,
    IterationSuspended,
    LoopClaimed,
)
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Keep, loaded
from noetl.net.model import Loop
from noetl.pipeline.fold import replay as replay_pipeline
from noetl.pipeline.interpreter import run
from noetl.pipeline.model import (
    Call,
    Completed,
    Ending,
    Failed,
    Finished,
    Names,
    Progress,
    Recorded,
    Sleep,
    Suspend,
)
from noetl.pipeline.patches import extend
from noetl.usecases.large_values import hold_draft
from noetl.usecases.ports import CommandRow, LoopRow, Transaction
from noetl.usecases.work import shares
from noetl.usecases.work.claims import Claim, Claimer, Frame
from noetl.usecases.work.deliveries import Delivery, End, refusal
from noetl.usecases.work.log_context import set_claim
from noetl.usecases.work.reports import (
    LeaseLost,
    Standing,
    append,
    ask_for_turn,
    discard,
    output_of,
    standing,
)
from noetl.usecases.work.run import (
    Watched,
    Worker,
    claim,
    due_at,
    give_up,
    hands,
    names,
    program,
    spanning,
    wake_after_report,
)

#: Before anything began.
EPOCH = datetime.fromtimestamp(0, UTC)


def run_lane(worker: Worker, command_id: str) -> Delivery:
    """One slice of a lane; also of the one that goes on with a suspended iteration and then takes more."""
    rt = worker.rt
    with rt.store.begin_async_commit() as tx:
        command = claim(rt, tx, worker.name, command_id)
        row = tx.loop(command.execution_id, command.run_id) if command else None
        if command is None or row is None:
            return refusal(tx, command_id)
        set_claim(command)
        plan = rt.plan(tx, command.context["digest"])
        taken, recorded = shares.first(tx, command, plan, row)
        patches = shares.own_patches(tx, command, plan)
    watched = Watched(rt, command)
    lane = _Lane(worker, command, plan, row, watched, recorded=recorded, patches=patches)
    if (cursor := lane.loop.cursor) is not None:
        lane.claimer = Claimer(worker, command, plan, watched, cursor)
    with worker.leases.hold(command, watched.end, lane.alive):
        try:
            end = lane.slice(taken)
        except LeaseLost:
            if watched.cancelled:
                give_up(rt, command)
                return Delivery(End.CANCELLED)
            # A turn that found all iterations ended does not wait for a lane that came back for more.
            with rt.store.read() as tx:
                return refusal(tx, command_id, command.attempt)
    return Delivery(end, lane.error, lane.failures)


def names_of_iteration(
    worker: Worker, tx: Transaction, plan: Plan, command: CommandRow, iteration: int
) -> Names:
    """What the templates of an iteration see that no lane runs any more."""
    row = tx.loop(command.execution_id, command.run_id)
    if row is None:
        raise NoetlError(f"The loop of step {command.step!r} is gone.")
    lane = _Lane(worker, command, plan, row, Watched(worker.rt, command))
    return lane.names(iteration)


@dataclass(slots=True)
class _Lane:
    """One delivery of a lane."""

    worker: Worker
    command: CommandRow
    plan: Plan
    row: LoopRow
    watched: Watched
    recorded: dict[int, list[Draft]] = field(default_factory=dict)
    pending: list[Draft] = field(default_factory=list)
    failed: bool = False
    #: Of this delivery: iterations that failed, and why the last one did.
    failures: int = 0
    error: ErrorInfo | None = None
    suspended: bool = False
    woken: bool = False
    patches: JsonMap = field(default_factory=dict)
    items: Sequence[Json] | None = None
    #: Of a loop over a cursor: the rows at hand, and what claims more.
    frame: Frame = field(default_factory=Frame)
    claimer: Claimer | None = None
    claim_failed: bool = False
    #: Seconds that an iteration took lately; decides how many are taken at once.
    pace: float = 1.0
    #: When the current iteration began, and whether that is in the log.
    started: datetime = EPOCH
    begun: bool = False

    @property
    def keep(self) -> Keep:
        return Keep(self.command.execution_id)

    @property
    def loop(self) -> Loop:
        loop = self.plan.step(self.command.step).loop
        if loop is None:
            raise ValueError(f"step {self.command.step} has no loop")
        return loop

    def slice(self, taken: tuple[int, ...]) -> End:
        """Runs iterations until none are left, one suspends, or the slice is over."""
        begun = time.monotonic()
        while True:
            if not taken:
                taken, end = self._take()
                if end is not None:
                    return end
            self._run(taken)
            if self._stopped() or self.suspended:
                return self._finish(close=True)
            if time.monotonic() - begun >= self.worker.rt.limits.slice_s:
                return self._finish(release=True)
            taken = ()

    def _take(self) -> tuple[tuple[int, ...], End | None]:
        """The next indices, or how the lane ended. What is pending is committed with it. A cursor is asked for rows
        where none are left."""
        taken, end = self.commit(take=self._share())
        while not taken and end is None:
            taken, end = self.commit(take=self._share(), claim=self._claim())
        return taken, end

    def _claim(self) -> Claim:
        if self.claimer is None:
            raise ValueError(f"step {self.command.step} has no cursor")
        return self.claimer.claim(self._ctx())

    def _finish(self, *, close: bool = False, release: bool = False) -> End:
        return self.commit(close=close, release=release)[1] or End.DONE

    def _run(self, taken: tuple[int, ...]) -> None:
        """The last one's end is committed by the caller, together with what follows it."""
        committed = time.monotonic()
        for index in taken:
            started = time.monotonic()
            self.iterate(index)
            now = time.monotonic()
            self.pace = (self.pace + now - started) / 2 if self.pace < 1 else now - started
            if self._stopped() or self.suspended:
                return
            if index != taken[-1] and (self._each() or now - committed >= self.worker.rt.limits.commit_s):
                self.commit()
                committed = now

    def _stopped(self) -> bool:
        return self.claim_failed or (self.failed and self.loop.failure.mode == "fail_fast")

    def _each(self) -> bool:
        loop = self.loop
        if loop.commit is not None:
            return loop.commit == "each"
        step = self.plan.step(self.command.step)
        if loop_mode(self.command.context, step) == "sequential":
            return True
        kinds, tasks = self.worker.rt.kinds, step.tasks
        return any(kinds[task.kind].effects == "external" for task in tasks if task.kind in kinds)

    def _may_suspend(self) -> bool:
        """Whether an iteration may leave its worker half-way."""
        kinds, tasks = self.worker.rt.kinds, self.plan.step(self.command.step).tasks
        return any(
            (task.kind in kinds and kinds[task.kind].suspends)
            or any(rule.then.do == "retry" for rule in task.rules or ())
            for task in tasks
        )

    def _share(self) -> int:
        """How many iterations to take: what one commit interval holds, and never more than a fair part."""
        limits = self.worker.rt.limits
        if self._each() or self._may_suspend():
            # A lane whose iteration suspends ends: it may hold no others.
            return 1
        fair = max(1, self.row.size // (4 * (self.command.chord_size or 1)))
        return max(1, min(limits.commit_iterations, fair, int(limits.commit_s / max(self.pace, 1e-4))))

    # --- one iteration -----------------------------------------------------------------------------

    def iterate(self, index: int) -> None:
        """Runs the pipeline of one iteration; what it recorded last waits in `pending`."""
        rt, command = self.worker.rt, self.command
        prog = program(self.plan, command, index)
        earlier = self.recorded.get(index, [])
        progress = replay_pipeline(prog, earlier)
        self.started = rt.clock()
        self.begun = any(not isinstance(draft.fact, LoopClaimed) for draft in earlier)
        if index == command.iteration:
            self._resume(index, earlier)
        for move in run(
            prog, self.names(index), progress, hands(rt, command, self.watched, self.watched.log)
        ):
            match move:
                case Recorded():
                    self._begin(index)
                    self._extend(move.drafts)
                    self.commit()
                case Sleep():
                    self.commit()
                    time.sleep(move.seconds)
                case Suspend():
                    self._extend(move.drafts)
                    self._suspend(index, move)
                case Finished():
                    self._extend(move.drafts)
                    self._end(index, move.ending, move.progress)
                case _:
                    assert_never(move)

    def names(self, index: int) -> Names:
        """What the templates of an iteration see."""
        scope = names(self.worker.rt, self.plan, self.command, self._scope(index))
        return replace(scope, ctx=self._ctx())

    def _begin(self, index: int) -> None:
        """An iteration that is open at a report has its start recorded."""
        if not self.begun:
            # Before what else it recorded, should that still be pending.
            self._add(IterationStarted(self.started.isoformat()), index, "started")
            self.begun = True

    def alive(self) -> None:
        """Called from the heartbeat's thread: a long task shows in the log while it runs."""
        self.watched.announce(self._announce)

    def _announce(self, call: Call, draft: Draft) -> None:
        if call.where.iteration is not None:
            self._begin(call.where.iteration)
        self.pending.append(draft)
        self.commit()

    def _ctx(self) -> JsonMap:
        return patched(self.command.context["ctx"], self.patches)

    def _scope(self, index: int) -> JsonMap:
        item = self._item(index)
        return {self.loop.iterator: item, "index": index, "parent": self._around()}

    def _around(self) -> Json:
        """The iteration of several steps that this one is a part of, or that of the playbook's caller."""
        context = self.command.context
        return spanning(self.worker.rt, context) or context.get("caller")

    def _item(self, index: int) -> Json:
        if self.loop.cursor is not None:
            return self.frame.row(self.worker, self.command, index)
        if self.items is None:
            self.items = cast("Sequence[Json]", loaded(self.row.items, self.worker.rt.load))
        return self.items[index] if self.items else None

    def _extend(self, drafts: tuple[Draft, ...]) -> None:
        for draft in drafts:
            if isinstance(draft.fact, CtxPatched):
                self.patches = extend(self.patches, draft.fact.patch)
            self.pending.append(hold_draft(self.worker.rt, draft, self.keep))

    def _add(
        self,
        fact: IterationStarted | IterationDone | IterationFailed | IterationSuspended | IterationResumed,
        index: int,
        key: str,
        duration_ms: float | None = None,
    ) -> None:
        draft = Draft(
            fact,
            source="worker",
            step=self.command.step,
            run_id=self.command.run_id,
            iteration=index,
            duration_ms=duration_ms,
            dedup_key=f"{key}:{self.command.run_id}/{index}",
        )
        self.pending.append(hold_draft(self.worker.rt, draft, self.keep))

    def _resume(self, index: int, earlier: list[Draft]) -> None:
        key = f"resumed/{self.command.issue}"
        if f"{key}:{self.command.run_id}/{index}" not in {draft.dedup_key for draft in earlier}:
            self._add(IterationResumed(self.worker.name), index, key)

    def _suspend(self, index: int, move: Suspend) -> None:
        child = move.child
        if child is not None and child.iter is None:
            child = replace(child, iter=self._scope(index))
        fact = IterationSuspended(move.task, move.reason, due_at(self.worker.rt, move), child)
        self._add(fact, index, f"suspended/{self.command.issue}/{self.command.part}")
        self.suspended = self.woken = True

    def _end(self, index: int, ending: Ending, progress: Progress) -> None:
        spent = round((self.worker.rt.clock() - self.started).total_seconds() * 1000, 3)
        match ending:
            case Completed():
                writes = tuple(
                    (name, self.worker.rt.hold(value, self.keep)) for name, value in progress.writes
                )
                self._add(IterationDone(ending.task, writes), index, "iteration", spent)
            case Failed():
                self._add(IterationFailed(ending.error), index, "iteration", spent)
                self.failed = self.woken = True
                self.failures, self.error = self.failures + 1, ending.error
            case _:
                assert_never(ending)

    # --- reporting --------------------------------------------------------------------------------

    def commit(
        self, *, close: bool = False, take: int = 0, release: bool = False, claim: Claim | None = None
    ) -> tuple[tuple[int, ...], End | None]:
        """T4: appends what is pending, and the rows of a claim. In the same transaction it takes the next indices, or
        gives the lease back after a slice, or closes the lane: when told so, and when nothing is left to take. Then
        there is an end; there is none either where a cursor has to be asked first."""
        rt, command = self.worker.rt, self.command
        self.watched.check()
        with output_of(rt, command) as printed, rt.store.begin() as tx:
            at = standing(tx, command)
            if at is None:
                discard(rt, tx, command, self.pending)
            else:
                printed.into(tx, command.execution_id)
                if claim is not None:
                    self._add_claim(tx, claim, take)
                append(rt, tx, at, self.pending)
                taken, end = self._next(
                    tx, at, close=close, take=take, release=release, asked=claim is not None
                )
        if at is None:
            raise LeaseLost(command.command_id)
        self.pending.clear()
        if claim is not None and self.claimer is not None:
            self.claimer.recorded()
        if self.woken:
            self.woken = False
            wake_after_report(rt)
        return taken, end

    def _add_claim(self, tx: Transaction, claim: Claim, share: int) -> None:
        """Puts the rows of a claim behind those that the loop has, and into the log."""
        command, claimer = self.command, self.claimer
        assert claimer is not None, "it has just made the claim"
        row = claimer.extended(tx, claim)
        error = claim.error
        if row.count > self.worker.rt.limits.max_items:
            error = too_many(self.plan.step(command.step), row.count, self.worker.rt.limits.max_items)
        waiting = max(0, row.size - row.next_index - share)
        draft = Draft(
            LoopClaimed(command.part, claim.count, claim.items, waiting, error, claim.meta),
            source="worker",
            step=command.step,
            run_id=command.run_id,
            iteration=row.count - claim.count if claim.count else None,
            duration_ms=claim.meta.get("duration_ms"),
            dedup_key=claimer.key(),
        )
        self.pending.append(draft)
        self.row, self.claim_failed = row, error is not None
        # Rows bring lanes, and an error ends the loop.
        self.woken = self.woken or claim.count > 0 or self.claim_failed

    def _may_claim(self, tx: Transaction) -> bool:
        if self.loop.cursor is None:
            return False
        row = tx.loop(self.command.execution_id, self.command.run_id)
        return row is not None and row.open

    def _next(
        self, tx: Transaction, at: Standing, *, close: bool, take: int, release: bool, asked: bool
    ) -> tuple[tuple[int, ...], End | None]:
        command, now = self.command, self.worker.rt.clock()
        if self._stopped():
            tx.close_loop(command.execution_id, command.run_id)
        if at.execution.halt and (take or release):
            # The lane keeps its place: it is delivered again when the execution goes on.
            tx.release(command.command_id, command.attempt, now)
            self._ask(tx)
            return (), End.REFUSED if at.execution.halt == "pause" else End.CANCELLED
        if release:
            tx.release(command.command_id, command.attempt, now)
            return (), End.AGAIN
        taken: tuple[int, ...] = ()
        if take:
            taken, self.recorded = shares.take(tx, command, take)
            if taken or (not asked and self._may_claim(tx)):
                return taken, None
        if close or (take and not taken):
            tx.close_commands([command.command_id])
            if self._is_last(tx):
                self._ask(tx)
        return taken, End.DONE

    def _ask(self, tx: Transaction) -> None:
        """The scheduler waits for this lane to let go, whether or not it has something to report."""
        self.woken = True
        if not self.pending:
            ask_for_turn(tx, self.command.execution_id, self.worker.rt.clock())

    def _is_last(self, tx: Transaction) -> bool:
        rows = tx.open_commands(self.command.execution_id)
        return not any(row.run_id == self.command.run_id for row in rows)
