"""report: T4. What a worker did goes into the log, under the execution's lock, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

from noetl.facts.events import CommandLost, Draft, IterationFailed, ResultDiscarded, StepFailed
from noetl.facts.outcome import ErrorInfo
from noetl.usecases.log_writer import ReportLog
from noetl.usecases.ports import ENDED, CommandRow, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.wakes import ask_for_turn, wake_after_report


class LeaseLost(Exception):
    """The command is closed or another delivery holds it: what this worker did does not count."""


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
