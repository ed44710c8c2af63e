"""report: T4. What a worker did goes into the log, under the execution's lock, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime

from noetl.facts.events import Draft, ResultDiscarded
from noetl.usecases.ports import ENDED, CommandRow, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.work.log_writer import ReportLog


class LeaseLost(Exception):
    """The command is closed or another delivery holds it: what this worker did does not count."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The rows as they are under the lock."""

    execution: ExecutionRow
    command: CommandRow


def standing(tx: Transaction, claimed: CommandRow) -> Standing | None:
    """Locks the execution and checks the lease by its fencing token and its owner (a crash of
    the database may have lost a claim, and its token with it). None where it is lost."""
    rows = tx.lock_command(claimed.command_id)
    if rows is None:
        return None
    execution, command = rows
    if (command.state, command.attempt, command.owner) != ("claimed", claimed.attempt, claimed.owner):
        return None
    return Standing(execution, command)


def append(rt: Runtime, tx: Transaction, at: Standing, drafts: Sequence[Draft]) -> None:
    """Appends behind the head; the lock makes the expected version match."""
    if drafts:
        tx.append(at.execution.execution_id, at.execution.head_version, drafts, rt.clock())


def report(rt: Runtime, claimed: CommandRow, drafts: Sequence[Draft], *, close: bool) -> ExecutionRow:
    """Appends `drafts` and, if told so, closes the command, in one transaction.

    Raises LeaseLost where the report no longer counts; after the end of the execution that is recorded
    as `result.discarded`.
    """
    with output_of(rt, claimed) as printed, rt.store.begin() as tx:
        at = standing(tx, claimed)
        if at is None:
            discard(rt, tx, claimed, drafts)
        else:
            append(rt, tx, at, drafts)
            printed.into(tx, claimed.execution_id)
            if close:
                tx.close_commands([claimed.command_id])
    if at is None:
        raise LeaseLost(claimed.command_id)
    return at.execution


_NOTHING = nullcontext(ReportLog())


def output_of(rt: Runtime, claimed: CommandRow) -> AbstractContextManager[ReportLog]:
    """What the command's calls have printed, for the transaction of a report inside of the block."""
    return _NOTHING if rt.logs is None else rt.logs.for_report(claimed)


def ask_for_turn(tx: Transaction, execution_id: str, now: datetime) -> None:
    """Makes a running execution owe a turn though nothing was appended.

    Which commands are open and held is not in the log, yet decisions wait for it: a loop for its last
    lane, a pause and a cancellation for running work.
    """
    row = tx.lock(execution_id)
    if row is None or row.status in ENDED:
        return
    tx.save_turn(
        execution_id,
        decided_version=row.decided_version,
        status=row.status,
        next_wake_at=now,
        halt=row.halt,
        now=now,
    )


def discard(rt: Runtime, tx: Transaction, claimed: CommandRow, drafts: Sequence[Draft]) -> None:
    """Leaves a trace of a report that no longer counts because the execution has ended."""
    execution = tx.lock(claimed.execution_id)
    if execution is None or execution.status not in ENDED or not drafts:
        return
    key = f"discarded:{claimed.command_id}/{claimed.attempt}"
    if tx.recorded(claimed.execution_id, key):
        return
    fact = ResultDiscarded(claimed.command_id, drafts[-1].fact.type, f"the execution {execution.status}")
    draft = Draft(fact, source="worker", step=claimed.step, run_id=claimed.run_id, dedup_key=key)
    tx.append(claimed.execution_id, execution.head_version, [draft], rt.clock())
