"""Reports (T4): what a worker did goes into the log, under the execution's lock, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from typing import TypeVar

from noetl.facts.events import CommandLost, Draft, IterationFailed, ResultDiscarded, StepFailed
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Retention
from noetl.usecases.large_values import hold_draft
from noetl.usecases.log_writer import ReportLog
from noetl.usecases.ports import ENDED, CommandRow, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.wakes import ask_for_turn, wake_after_report
from noetl.usecases.work.leased_tools import LeasedTools, LeaseLost


@dataclass(frozen=True, slots=True)
class LockedRows:
    """The rows as they are under the lock."""

    execution: ExecutionRow
    command: CommandRow


def lock_lease(tx: Transaction, claimed: CommandRow) -> LockedRows | None:
    """Locks the execution and checks the lease by its fencing token and its owner (a crash of
    the database may have lost a claim, and its token with it). None where it is lost."""
    rows = tx.commands.lock(claimed.command_id)
    if rows is None:
        return None
    execution, command = rows
    if (command.state, command.attempt, command.owner) != ("claimed", claimed.attempt, claimed.owner):
        return None
    return LockedRows(execution, command)


def append(rt: Runtime, tx: Transaction, at: LockedRows, drafts: Sequence[Draft]) -> None:
    """Appends behind the head; the lock makes the expected version match."""
    if drafts:
        tx.events.append(at.execution.execution_id, at.execution.head_version, drafts, rt.clock())


def report(rt: Runtime, claimed: CommandRow, drafts: Sequence[Draft], *, close: bool) -> ExecutionRow:
    """Appends `drafts` and, if told so, closes the command, in one transaction.

    Raises LeaseLost where the report no longer counts; after the end of the execution that is
    recorded as `result.discarded`.
    """
    with output_of(rt, claimed) as printed, rt.store.begin() as tx:
        at = lock_lease(tx, claimed)
        if at is None:
            discard(rt, tx, claimed, drafts)
        else:
            append(rt, tx, at, drafts)
            printed.into(tx, claimed.execution_id)
            if close:
                tx.commands.close([claimed.command_id])
    if at is None:
        raise LeaseLost(claimed.command_id)
    return at.execution


_NOTHING = nullcontext(ReportLog())


def output_of(rt: Runtime, claimed: CommandRow) -> AbstractContextManager[ReportLog]:
    """What the command's calls have printed, for the transaction of a report inside of the
    block."""
    return _NOTHING if rt.logs is None else rt.logs.for_report(claimed)


def discard(rt: Runtime, tx: Transaction, claimed: CommandRow, drafts: Sequence[Draft]) -> None:
    """Leaves a trace of a report that no longer counts because the execution has ended."""
    execution = tx.executions.lock(claimed.execution_id)
    if execution is None or execution.status not in ENDED or not drafts:
        return
    key = f"discarded:{claimed.command_id}/{claimed.attempt}"
    if tx.events.recorded(claimed.execution_id, key):
        return
    fact = ResultDiscarded(claimed.command_id, drafts[-1].fact.type, f"the execution {execution.status}")
    draft = Draft(fact, source="worker", step=claimed.step, run_id=claimed.run_id, dedup_key=key)
    tx.events.append(claimed.execution_id, execution.head_version, [draft], rt.clock())


def give_up(rt: Runtime, command: CommandRow) -> None:
    """A cancelled command ends without a report; the scheduler withdraws its step."""
    with output_of(rt, command) as printed, rt.store.begin() as tx:
        if lock_lease(tx, command) is None:
            return
        printed.into(tx, command.execution_id)
        tx.commands.close([command.command_id])
        ask_for_turn(tx, command.execution_id, rt.clock())
    wake_after_report(rt)


def fail_step(command: CommandRow, error: ErrorInfo) -> Draft:
    """The failure of a step whose command was given up."""
    return draft_about(command, StepFailed(error), f"end:{command.run_id}")


def fail_iteration(command: CommandRow, error: ErrorInfo) -> Draft:
    """The failure of an iteration whose command was given up."""
    return draft_about(command, IterationFailed(error), f"iteration:{command.run_id}/{command.iteration}")


def draft_about(command: CommandRow, fact: CommandLost | StepFailed | IterationFailed, key: str) -> Draft:
    """`fact` about the run, or the iteration, that the command was for."""
    return Draft(fact, step=command.step, run_id=command.run_id, iteration=command.iteration, dedup_key=key)


T = TypeVar("T")


@dataclass(slots=True)
class LaneBatch:
    """Drafts that are committed together. `wakes`: the scheduler waits for something that is among
    them."""

    rt: Runtime
    command: CommandRow
    tools: LeasedTools
    drafts: list[Draft] = field(default_factory=list)
    wakes: bool = False

    def add(self, draft: Draft) -> None:
        """Puts `draft` behind the others; what is large in it is kept by reference."""
        self.drafts.append(hold_draft(self.rt, draft, Retention(self.command.execution_id)))

    def commit(self) -> None:
        """Appends what is pending. Raises LeaseLost."""
        self.commit_with(lambda _tx, _at: None)

    def commit_with(
        self,
        then: Callable[[Transaction, LockedRows], T],
        claim: Callable[[Transaction], Draft] | None = None,
    ) -> T:
        """T4: appends what is pending and the draft of a `claim`, does what comes `then` in the
        same transaction, and returns what that yields. Raises LeaseLost."""
        rt, command = self.rt, self.command
        self.tools.check()
        with output_of(rt, command) as printed, rt.store.begin() as tx:
            at = lock_lease(tx, command)
            if at is None:
                discard(rt, tx, command, self.drafts)
            else:
                printed.into(tx, command.execution_id)
                if claim is not None:
                    self.drafts.append(claim(tx))
                append(rt, tx, at, self.drafts)
                found = then(tx, at)
        if at is None:
            raise LeaseLost(command.command_id)
        self.drafts.clear()
        if self.wakes:
            self.wakes = False
            wake_after_report(rt)
        return found

    def ask_for_turn(self, tx: Transaction) -> None:
        """The scheduler waits for the lane to let go, whether or not there is something to
        report."""
        self.wakes = True
        if not self.drafts:
            ask_for_turn(tx, self.command.execution_id, self.rt.clock())
