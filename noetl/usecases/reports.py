"""report: T4. What a worker did goes into the log, under the execution's lock, or not at all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from noetl.facts.events import Draft, ResultDiscarded
from noetl.usecases.ports import ENDED, CommandRow, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime


class LeaseLost(Exception):
    """The command is closed or another delivery holds it: what this worker did does not count."""


@dataclass(frozen=True, slots=True)
class Standing:
    """The rows as they are under the lock."""

    execution: ExecutionRow
    command: CommandRow


def standing(tx: Transaction, claimed: CommandRow) -> Standing:
    """Locks the execution and checks the lease by its fencing token. Raises LeaseLost."""
    rows = tx.lock_command(claimed.command_id)
    if rows is None:
        raise LeaseLost(claimed.command_id)
    execution, command = rows
    if command.state != "claimed" or command.attempt != claimed.attempt:
        raise LeaseLost(claimed.command_id)
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
    with rt.store.begin() as tx:
        try:
            at = standing(tx, claimed)
        except LeaseLost:
            if not _discard(rt, tx, claimed, drafts):
                raise
        else:
            append(rt, tx, at, drafts)
            if close:
                tx.close_commands([claimed.command_id])
            return at.execution
    raise LeaseLost(claimed.command_id)


def _discard(rt: Runtime, tx: Transaction, claimed: CommandRow, drafts: Sequence[Draft]) -> bool:
    """Whether the execution has ended, so that the late report leaves a trace."""
    execution = tx.lock(claimed.execution_id)
    if execution is None or execution.status not in ENDED or not drafts:
        return False
    key = f"discarded:{claimed.command_id}/{claimed.attempt}"
    if tx.recorded(claimed.execution_id, key):
        return False
    fact = ResultDiscarded(claimed.command_id, drafts[-1].fact.type, f"the execution {execution.status}")
    draft = Draft(fact, source="worker", step=claimed.step, run_id=claimed.run_id, dedup_key=key)
    tx.append(claimed.execution_id, execution.head_version, [draft], rt.clock())
    return True
