"""run_lane: the work of a loop.

A lane takes indices in the transaction that reports its previous ones, runs each iteration's
pipeline, and yields its worker after a slice. One lane runs one iteration at a time, and there are
never more lanes than `max_in_flight`. A lane whose iteration suspends ends: the iteration keeps its
slot, and the command that resumes it goes on as a lane.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from noetl.facts.events import Draft
from noetl.usecases.log_context import set_claim
from noetl.usecases.ports import CommandRow, ExecutionRow, Transaction
from noetl.usecases.work import shares
from noetl.usecases.work.cached import cache_of
from noetl.usecases.work.claims import Claimer
from noetl.usecases.work.iterations import Iterations
from noetl.usecases.work.leased_tools import LeasedTools, LeaseLost
from noetl.usecases.work.leases import Delivery, End, HeldCommand, Worker, claim, refusal
from noetl.usecases.work.reports import ReportBatch, give_up, pass_slot
from noetl.usecases.work.shares import LanePolicy, LoopItems

T = TypeVar("T")


def run_lane(worker: Worker, command_id: str) -> Delivery:
    """One slice of a lane; also of the one that goes on with a suspended iteration and then takes
    more."""
    rt = worker.rt
    with rt.store.begin_async_commit() as tx:
        command = claim(rt, tx, worker.name, command_id)
        row = tx.loops.get(command.execution_id, command.run_id) if command else None
        if command is None or row is None:
            return refusal(tx, command_id)
        set_claim(command)
        plan = rt.plan(tx, command.context["digest"])
        taken, recorded = shares.first(tx, command, plan, row)
        patches = shares.own_patches(tx, command, plan)
        tools = LeasedTools(rt, command)
        claimer = Claimer.of(tx, worker, command, plan, tools)
    lane = _lane(worker, command, LoopItems(worker, command, plan, row, patches), tools, claimer)
    iterations = lane.iterations
    iterations.recorded = recorded
    held = HeldCommand(command, tools.end, iterations.show_alive, tools.iteration, tools.drop_iteration)
    with worker.leases.hold(held):
        try:
            end = lane.run_slice(taken)
        except LeaseLost:
            if tools.cancelled:
                give_up(rt, command)
                return Delivery(End.CANCELLED)
            # A turn that found all iterations ended does not wait for a lane that came back for
            # more.
            with rt.store.read() as tx:
                return refusal(tx, command_id, command.attempt)
    return Delivery(end, iterations.error, iterations.failures)


def _lane(
    worker: Worker, command: CommandRow, items: LoopItems, tools: LeasedTools, claimer: Claimer | None
) -> _Lane:
    batch = ReportBatch(worker.rt, command, tools, cache_of(worker.rt, items.plan, command))
    return _Lane(
        worker,
        command,
        LanePolicy.of(items.plan, command, worker.rt.kinds),
        items,
        batch,
        Iterations(worker, command, items, tools, batch),
        claimer,
    )


@dataclass(slots=True)
class _Lane:
    """One delivery of a lane: which iterations it runs, and when it yields its worker or ends."""

    worker: Worker
    command: CommandRow
    policy: LanePolicy
    items: LoopItems
    batch: ReportBatch
    iterations: Iterations
    #: Of a loop over a cursor: what claims more rows.
    claimer: Claimer | None
    #: Seconds that an iteration took lately; decides how many are taken at once.
    pace: float = 1.0
    #: Whether it has ended, or will have with the transaction that is under way.
    closed: bool = False

    def run_slice(self, taken: tuple[int, ...]) -> End:
        """Runs iterations until none are left, one suspends, or the slice is over."""
        ends = time.monotonic() + self.worker.rt.limits.slice_s
        self._ask_for_unheard()
        while not self._has_failed():
            if not taken and not self.policy.paced:
                taken, end = self._take()
                if end is not None:
                    return end
            self._run(taken)
            if self.policy.paced or self._has_failed() or self.iterations.suspended is not None:
                return self.batch.commit_with(lambda tx, _: self._close(tx))
            if time.monotonic() >= ends:
                return self.batch.commit_with(self._yield)
            taken = ()
        return self.batch.commit_with(lambda tx, _: self._close(tx))

    def _run(self, taken: tuple[int, ...]) -> None:
        """The last one's end is committed by the caller, together with what follows it."""
        committed = time.monotonic()
        for index in taken:
            began = time.monotonic()
            self.iterations.run(index)
            now = time.monotonic()
            self.pace = (self.pace + now - began) / 2 if self.pace < 1 else now - began
            if self._has_failed() or self.iterations.suspended is not None:
                return
            due = self.policy.commits_each or now - committed >= self.worker.rt.limits.commit_s
            if due and index != taken[-1]:
                self.batch.commit()
                committed = now

    def _has_failed(self) -> bool:
        claim_failed = self.claimer is not None and self.claimer.failed
        return claim_failed or (self.iterations.failures > 0 and self.policy.fails_fast)

    # --- taking -----------------------------------------------------------------------------------

    def _take(self) -> tuple[tuple[int, ...], End | None]:
        """The next indices, or how the lane ended. What is pending is committed with it. A cursor
        is asked for rows where none are left."""
        share = self._share()
        taken, end = self.batch.commit_with(
            lambda tx, execution: self._next(tx, execution, share, may_claim=True)
        )
        while not taken and end is None:
            taken, end = self._claim()
        return taken, end

    def _share(self) -> int:
        lanes = self.command.chord_size or 1
        return self.policy.share(self.worker.rt.limits, self.items.row.size, lanes, self.pace)

    def _ask_for_unheard(self) -> None:
        """Asks for rows of which nobody has heard, before any that others may claim, and before an
        iteration begins."""
        claimer, halted = self.claimer, False
        while claimer is not None and claimer.owes and not (halted or claimer.failed):
            halted = self._make_claim(claimer, 0, lambda _, execution: bool(execution.halt))

    def _claim(self) -> tuple[tuple[int, ...], End | None]:
        if self.claimer is None:
            raise ValueError(f"step {self.command.step} has no cursor")
        share = self._share()
        return self._make_claim(
            self.claimer, share, lambda tx, execution: self._next(tx, execution, share, may_claim=False)
        )

    def _make_claim(self, claimer: Claimer, share: int, then: Callable[[Transaction, ExecutionRow], T]) -> T:
        """Asks for rows, and reports them with what comes `then` in the same transaction: what is
        recorded of the claim says whether the lane ended with it."""
        claim, found = claimer.claim(self.items.ctx()), list[T]()

        def record(tx: Transaction, execution: ExecutionRow) -> Draft:
            self.closed = False
            self.items.row, fact = claimer.record(tx, claim, share)
            # Rows bring lanes, and an error ends the loop.
            self.batch.wakes = self.batch.wakes or claim.count > 0 or claimer.failed
            found[:] = [then(tx, execution)]
            return claimer.draft(replace(fact, last=self.closed), self.items.row)

        self.batch.commit_with(lambda *_: None, record)
        claimer.recorded()
        return found[0]

    def _next(
        self, tx: Transaction, execution: ExecutionRow, share: int, *, may_claim: bool
    ) -> tuple[tuple[int, ...], End | None]:
        """The next indices, or the end of the lane where none are left. Neither, where a cursor may
        have more."""
        if execution.halt:
            return (), self._leave(tx, execution)
        if self._has_failed():
            return (), self._close(tx)
        taken, self.iterations.recorded = shares.take(
            tx, self.command, share, some_cancelled=execution.cancelled_parts > 0
        )
        if taken or (may_claim and self._cursor_is_open(tx)):
            return taken, None
        return (), self._close(tx)

    def _cursor_is_open(self, tx: Transaction) -> bool:
        if self.claimer is None:
            return False
        row = tx.loops.get(self.command.execution_id, self.command.run_id)
        return row is not None and row.open

    # --- ending -----------------------------------------------------------------------------------

    def _yield(self, tx: Transaction, execution: ExecutionRow) -> End:
        if execution.halt:
            return self._leave(tx, execution)
        tx.commands.release(self.command.command_id, self.command.attempt, self.worker.rt.clock())
        return End.AGAIN

    def _leave(self, tx: Transaction, execution: ExecutionRow) -> End:
        """The lane keeps its place: it is delivered again when the execution goes on."""
        self._close_failed_loop(tx)
        tx.commands.release(self.command.command_id, self.command.attempt, self.worker.rt.clock())
        self.batch.ask_for_turn(tx)
        return End.REFUSED if execution.halt == "pause" else End.CANCELLED

    def _close(self, tx: Transaction) -> End:
        self.closed = True
        self._close_failed_loop(tx)
        tx.commands.close([self.command.command_id])
        is_limited = pass_slot(tx, self.command, self.iterations.suspended)
        if is_limited or not tx.commands.has_open(self.command.execution_id, self.command.run_id):
            self.batch.ask_for_turn(tx)
        return End.DONE

    def _close_failed_loop(self, tx: Transaction) -> None:
        if self._has_failed():
            tx.loops.close(self.command.execution_id, self.command.run_id)
