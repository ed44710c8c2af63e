"""Reports (T4): what a worker did goes into the log, under the execution's lock, or not at all."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from typing import Final, TypeVar

from noetl.errors import Unavailable
from noetl.facts.events import CommandLost, Draft, IterationFailed, ResultDiscarded, StepDone, StepFailed
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Retention
from noetl.usecases.large_values import hold_draft
from noetl.usecases.log_batches import LogBatch
from noetl.usecases.ports import ENDED, CommandRow, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.wakes import ask_for_turn, wake_after_report
from noetl.usecases.work.cached import CommandCache
from noetl.usecases.work.leased_tools import LeasedTools, LeaseLost


def lock_lease(tx: Transaction, claimed: CommandRow) -> ExecutionRow | None:
    """Locks the execution and checks the lease by its fencing token and its owner (a crash of
    the database may have lost a claim, and its token with it). None where it is lost."""
    rows = tx.commands.lock(claimed.command_id)
    if rows is None:
        return None
    execution, command = rows
    ours = (command.state, command.attempt, command.owner) == ("claimed", claimed.attempt, claimed.owner)
    return execution if ours else None


_NOTHING = nullcontext(None)


def output_of(rt: Runtime, claimed: CommandRow) -> AbstractContextManager[LogBatch | None]:
    """What the command's calls have printed, for the transaction of a report inside of the
    block."""
    return _NOTHING if rt.logs is None else rt.logs.for_report(claimed)


def _discard(rt: Runtime, tx: Transaction, claimed: CommandRow, drafts: Sequence[Draft]) -> None:
    """Leaves a trace of a report that no longer counts because the execution has ended."""
    execution = tx.executions.lock(claimed.execution_id)
    if execution is None or execution.status not in ENDED or not drafts:
        return
    key = f"discarded:{claimed.command_id}/{claimed.attempt}"
    if tx.events.recorded(claimed.execution_id, key):
        return
    ended = f"the execution had ended ({execution.status})"
    fact = ResultDiscarded.by_lateness(claimed.command_id, drafts[-1].fact.type, ended)
    draft = Draft(fact, source="worker", step=claimed.step, run_id=claimed.run_id, dedup_key=key)
    tx.events.append(claimed.execution_id, execution.head_version, [draft], rt.clock())


def give_up(rt: Runtime, command: CommandRow) -> None:
    """A cancelled command ends without a report; the scheduler withdraws its step."""
    with output_of(rt, command) as printed, rt.store.begin() as tx:
        if lock_lease(tx, command) is None:
            return
        if printed is not None:
            printed.into(tx)
        tx.commands.close([command.command_id])
        ask_for_turn(tx, command.execution_id, rt.clock())
    wake_after_report(rt)


def _free_slots(tx: Transaction, command: CommandRow, drafts: Sequence[Draft]) -> None:
    """A run that ends has its slots no more."""
    if "slots" in command.context and any(isinstance(draft.fact, StepDone | StepFailed) for draft in drafts):
        tx.slots.free_run(command.execution_id, command.run_id)


def pass_slot(tx: Transaction, command: CommandRow, suspended: int | None) -> bool:
    """A lane that ends has its slot no more: the iteration that left its worker has it now, where
    one did and has not ended since. Whether there was one."""
    if "slots" not in command.context:
        return False
    execution_id, run_id, part = command.execution_id, command.run_id, command.part
    if suspended is None or tx.events.recorded(execution_id, f"iteration:{run_id}/{suspended}"):
        tx.slots.free_part(execution_id, run_id, part)
    elif part != f"i{suspended}":
        tx.slots.move(execution_id, run_id, part, f"i{suspended}")
    return True


def fail_step(command: CommandRow, error: ErrorInfo) -> Draft:
    """The failure of a step whose command was given up."""
    return draft_about(command, StepFailed(error), f"end:{command.run_id}")


def fail_iteration(command: CommandRow, error: ErrorInfo) -> Draft:
    """The failure of an iteration whose command was given up."""
    return draft_about(command, IterationFailed(error), f"iteration:{command.run_id}/{command.iteration}")


def draft_about(
    command: CommandRow, fact: ResultDiscarded | CommandLost | StepFailed | IterationFailed, key: str
) -> Draft:
    """`fact` about the run, or the iteration, that the command was for."""
    return Draft(fact, step=command.step, run_id=command.run_id, iteration=command.iteration, dedup_key=key)


T = TypeVar("T")

#: Seconds between the tries of a report that the database does not take; for three leases of the
#: usual length, because it may hold up those who would end the lease as well.
AGAIN_S: Final = (0.25, 0.5, 1.0, 2.0, *[5.0] * 17)

log = logging.getLogger(__name__)


@dataclass(slots=True)
class ReportBatch:
    """What a delivery has recorded and not reported yet: drafts that are committed together.
    `wakes`: the scheduler waits for something that is among them."""

    rt: Runtime
    command: CommandRow
    tools: LeasedTools
    cache: CommandCache
    drafts: list[Draft] = field(default_factory=list)
    wakes: bool = False

    def add(self, draft: Draft) -> None:
        """Puts `draft` behind the others; what is large in it is kept by reference."""
        self.drafts.append(hold_draft(self.rt, draft, Retention(self.command.execution_id)))

    def drop_iteration(self, index: int) -> None:
        """What it recorded does not count."""
        self.drafts = [draft for draft in self.drafts if draft.iteration != index]

    def _drop_cancelled(self, tx: Transaction, execution: ExecutionRow) -> None:
        """Iterations that were cancelled one by one have ended: a later result is discarded."""
        if not execution.cancelled_parts:
            return
        for index in sorted({draft.iteration for draft in self.drafts if draft.iteration is not None}):
            end = f"iteration:{self.command.run_id}/{index}"
            if tx.events.recorded(self.command.execution_id, end):
                last = next(draft for draft in reversed(self.drafts) if draft.iteration == index)
                self.drop_iteration(index)
                self.drafts.append(self._discarded(last))

    def _discarded(self, draft: Draft) -> Draft:
        fact = ResultDiscarded.by_lateness(
            self.command.command_id, draft.fact.type, "the iteration was cancelled"
        )
        key = f"discarded:{self.command.command_id}/{self.command.attempt}/{draft.iteration}"
        place = Draft(fact, source="worker", step=draft.step, run_id=draft.run_id, iteration=draft.iteration)
        return replace(place, dedup_key=key)

    def commit(self, *, close: bool = False, waits: bool = True) -> None:
        """Appends what is pending, and closes the command if asked to. Raises LeaseLost. `waits`:
        see `commit_with`."""

        def end(tx: Transaction, _: ExecutionRow) -> None:
            if close:
                tx.commands.close([self.command.command_id])

        self.commit_with(end, waits=waits)

    def commit_with(
        self,
        then: Callable[[Transaction, ExecutionRow], T],
        claim: Callable[[Transaction, ExecutionRow], Draft] | None = None,
        *,
        waits: bool = True,
    ) -> T:
        """T4: appends what is pending and the draft of a `claim`, does what comes `then` in the
        same transaction, with the execution as it was locked, and returns what that yields.

        Where it `waits`, a report that the database does not take is made again: what the calls
        came to would be lost, and they would be made again, once the lease had run out. So both
        functions may be called more than once.

        Raises LeaseLost where the report no longer counts; after the end of the execution that is
        recorded as `result.discarded`.
        """
        done = self._commit_patiently(then, claim) if waits else self._commit(then, claim)
        if self.wakes:
            self.wakes = False
            wake_after_report(self.rt)
        return done

    def _commit_patiently(
        self,
        then: Callable[[Transaction, ExecutionRow], T],
        claim: Callable[[Transaction, ExecutionRow], Draft] | None,
    ) -> T:
        for pause_s in AGAIN_S:
            drafts = list(self.drafts)
            try:
                return self._commit(then, claim)
            except Unavailable as error:
                self.drafts = drafts
                log.warning("Command %s is reported again: %s", self.command.command_id, error)
                self.rt.sleep(pause_s)
                if self._was_committed():
                    # By the transaction whose commit was not heard of: nothing is lost.
                    raise
        return self._commit(then, claim)

    def _was_committed(self) -> bool:
        """Whether what is pending is in the log; as far as can be told."""
        key = next((draft.dedup_key for draft in self.drafts if draft.dedup_key), None)
        if key is None:
            return False
        try:
            with self.rt.store.read() as tx:
                return tx.events.recorded(self.command.execution_id, key)
        except Unavailable:
            return False

    def _commit(
        self,
        then: Callable[[Transaction, ExecutionRow], T],
        claim: Callable[[Transaction, ExecutionRow], Draft] | None,
    ) -> T:
        rt, command = self.rt, self.command
        self.tools.check()
        with output_of(rt, command) as printed, rt.store.begin() as tx:
            execution = lock_lease(tx, command)
            if execution is None:
                _discard(rt, tx, command, self.drafts)
            else:
                if printed is not None:
                    printed.into(tx)
                self._drop_cancelled(tx, execution)
                if claim is not None:
                    self.drafts.append(claim(tx, execution))
                if self.drafts:
                    # The lock makes the expected version match.
                    tx.events.append(command.execution_id, execution.head_version, self.drafts, rt.clock())
                self.cache.into(tx)
                _free_slots(tx, command, self.drafts)
                found = then(tx, execution)
        if execution is None:
            raise LeaseLost(command.command_id)
        self.drafts.clear()
        self.cache.clear()
        return found

    def ask_for_turn(self, tx: Transaction) -> None:
        """The scheduler waits for the lane to let go, whether or not there is something to
        report."""
        self.wakes = True
        if not self.drafts:
            ask_for_turn(tx, self.command.execution_id, self.rt.clock())
