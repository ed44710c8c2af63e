"""sweep: what messages lost, found again from the tables alone.

A healthy run never needs it. Any number of sweepers may run; the same code serves every transport.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from noetl.errors import Unavailable, UnknownPurpose
from noetl.facts.events import CommandLost, Draft, ResultDiscarded
from noetl.facts.outcome import ErrorInfo
from noetl.usecases.fleet.progress import carry_on
from noetl.usecases.ports import CommandRow, ExecutionRow, Transaction
from noetl.usecases.purposes import find_purpose
from noetl.usecases.runtime import Runtime
from noetl.usecases.signals import hand_on
from noetl.usecases.slots import wake_waiters
from noetl.usecases.wakes import ask_for_turn, send
from noetl.usecases.work.reports import draft_about

log = logging.getLogger(__name__)

#: Rows looked at in one sweep of each kind.
BATCH = 500
#: What `halt` says of an execution that will not go on.
_ENDING = ("cancel", "fail")


@dataclass(frozen=True, slots=True)
class SweepReport:
    """What one sweep did. `resent` counts commands that had been sent before, `begun` executions
    that operations began."""

    sent: int = 0
    resent: int = 0
    expired: int = 0
    woken: int = 0
    begun: int = 0


def sweep(rt: Runtime) -> SweepReport:
    """Sends what is due and unsent, sends again what was not claimed, ends expired leases, wakes
    executions that owe a turn, hands signals to those that wait for what they are about, forgets
    the credentials and loops of those that have ended and what has expired, and carries operations
    on."""
    now = rt.clock()
    expired = _end_leases(rt, now, now)
    with rt.store.read() as tx:
        due = tx.commands.unsent(now, BATCH)
        silent = tx.commands.unclaimed(now - timedelta(seconds=rt.limits.resend_s), BATCH)
        owing = tx.executions.owing(now, BATCH)
        holders = tx.credentials.execution_ids()
        looped = tx.loops.left_behind(BATCH)
        operations = tx.operations.unfinished()
        stale = tx.cached.has_expired(now)
        kept = tx.correlations.matches(BATCH)
        is_forgotten = tx.correlations.has_expired(now)
        is_over = tx.slots.has_expired(now)
        waits_for_slots = bool(tx.slots.waiting_keys())
    _forget_credentials(rt, holders)
    _forget_loops(rt, looped)
    if stale:
        with rt.store.begin() as tx:
            tx.cached.remove_expired(now)
    if is_forgotten:
        with rt.store.begin() as tx:
            tx.correlations.remove_expired(now)
    if is_over:
        with rt.store.begin() as tx:
            tx.slots.remove_expired(now)
    if waits_for_slots:
        wake_waiters(rt)
    handed_on = sum(len(hand_on(rt, signal)) for signal in kept)
    silent = _find_lost(rt, silent, now)
    if silent:
        log.warning("%d commands were never claimed and are sent again", len(silent))
    waiting = [*due, *silent]
    if waiting:
        with rt.store.begin() as tx:
            tx.commands.mark_sent([row.command_id for row in waiting], now)
    sent = send(rt, waiting)
    woken = _wake(rt, owing if owing or not handed_on else [""])
    begun = carry_on(rt, operations)
    return SweepReport(len(due) if sent else 0, len(silent) if sent else 0, expired, woken, begun)


def _forget_credentials(rt: Runtime, executions: list[str]) -> None:
    for execution_id in executions:
        with rt.store.begin() as tx:
            row = tx.executions.get(execution_id)
            if row is None or (row.ended_at is not None and not tx.commands.open_of(execution_id)):
                tx.credentials.delete_of(execution_id)


def _forget_loops(rt: Runtime, executions: list[str]) -> None:
    if executions:
        with rt.store.begin() as tx:
            for execution_id in executions:
                tx.loops.delete_of(execution_id)


#: Later than any instant in the tables.
LATEST: Final = datetime.max.replace(tzinfo=UTC)
#: A command that waits so many times longer than `resend_s` is sent again whatever its queue holds.
PATIENCE = 10


def _find_lost(rt: Runtime, silent: list[CommandRow], now: datetime) -> list[CommandRow]:
    """Those of the unclaimed whose messages are gone. Where messages still wait in the queue theirs
    may be among them: a long backlog is no loss, and would only grow by sending again."""
    if not silent:
        return []
    longest = now - timedelta(seconds=PATIENCE * rt.limits.resend_s)
    try:
        busy = {queue for queue in {row.queue for row in silent} if rt.dispatcher.waiting(queue)}
    except Unavailable as error:
        log.warning("What is due waits: %s", error)
        return []
    return [
        row for row in silent if row.queue not in busy or (row.sent_at is not None and row.sent_at < longest)
    ]


def _wake(rt: Runtime, owing: list[str]) -> int:
    if not owing:
        return 0
    try:
        rt.dispatcher.wake()
    except Unavailable as error:
        log.warning("What is due waits: %s", error)
        return 0
    return len(owing)


# --- T6: leases that ran out ----------------------------------------------------------------------


def end_leases(rt: Runtime) -> int:
    """Ends the leases of all commands that this process may run: their workers are known to be
    gone. How many."""
    return _end_leases(rt, rt.clock(), LATEST)


def _end_leases(rt: Runtime, now: datetime, until: datetime) -> int:
    """Ends the leases that end `until` then. How many there were."""
    with rt.store.read() as tx:
        expired = tx.commands.expired(until, BATCH)
    for row in expired:
        try:
            _end_lease(rt, row, now, until)
        except UnknownPurpose as error:
            log.error("A command whose workers were lost is not given up: %s", error)  # noqa: TRY400
    return len(expired)


def _end_lease(rt: Runtime, seen: CommandRow, now: datetime, until: datetime) -> None:
    """Gives the command back for another delivery, or gives it up, if its lease ends `until`
    then."""
    with rt.store.begin() as tx:
        rows = tx.commands.lock(seen.command_id)
        if rows is None:
            return
        execution, command = rows
        lease = command.lease_until
        if command.state != "claimed" or command.attempt != seen.attempt or lease is None or lease > until:
            return
        about = {"execution": command.execution_id, "command": command.command_id, "step": command.step}
        log.warning("Worker %s lost command %s", command.owner, command.command_id, extra=about)
        if execution.halt in _ENDING:
            # It is not tried again: the scheduler withdraws its step once no worker holds it.
            tx.commands.close([command.command_id])
            ask_for_turn(tx, execution.execution_id, now)
        elif command.attempt < rt.limits.max_deliveries:
            tx.commands.reopen(command.command_id, command.attempt)
            tx.events.append(execution.execution_id, execution.head_version, [_lose(command)], now)
        else:
            tx.commands.close([command.command_id])
            _give_up(tx, execution, command, now)


def _lose(command: CommandRow) -> Draft:
    """What its worker did no longer counts, and another delivery follows."""
    lost = ResultDiscarded.by_loss(command.command_id, command.attempt, command.owner or "")
    key = f"delivery:{command.command_id}/{command.attempt}"
    return replace(draft_about(command, lost, key), attempt=command.attempt)


def _give_up(tx: Transaction, execution: ExecutionRow, command: CommandRow, now: datetime) -> None:
    """`command.lost`, and the failure of what it was to do. A lane's iterations are missed by its
    loop."""
    reason = f"{command.attempt} workers took it and none reported"
    lost = CommandLost(command.command_id, command.attempt, reason)
    drafts = [draft_about(command, lost, f"lost:{command.command_id}")]
    message = f"Step {command.step!r} was given up: {reason}."
    error = ErrorInfo("internal", message, type="WorkerLost", step=command.step, iteration=command.iteration)
    fail = find_purpose(command).failure
    if fail is not None:
        failure = fail(command, error)
        if not tx.events.recorded(command.execution_id, failure.dedup_key or ""):
            drafts.append(failure)
            # A lane that was lost is issued again, and has its slot until then.
            tx.slots.free_part(command.execution_id, command.run_id, command.part)
    tx.events.append(execution.execution_id, execution.head_version, drafts, now)
