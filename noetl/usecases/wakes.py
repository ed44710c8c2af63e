"""Messages that leave: commands that are sent, and wakes, which ask for a turn of the scheduler."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime

from noetl.errors import Unavailable
from noetl.usecases.ports import CommandRow, Transaction
from noetl.usecases.runtime import Runtime

log = logging.getLogger(__name__)


def send(rt: Runtime, commands: Sequence[CommandRow]) -> bool:
    """Sends commands that are marked as sent. False where the broker is away: then they are marked
    as unsent, and the sweeper sends them."""
    if not commands:
        return True
    try:
        rt.dispatcher.send(commands)
    except Unavailable as error:
        log.warning("What is due waits: %s", error)
        with rt.store.begin() as tx:
            tx.commands.mark_sent([command.command_id for command in commands], None)
        return False
    return True


def wake(rt: Runtime) -> None:
    """Asks the scheduler for a turn; where the broker is away the sweeper will."""
    try:
        rt.dispatcher.wake()
    except Unavailable:
        return


def wake_after_report(rt: Runtime) -> None:
    """What a worker does after it has reported something that the scheduler waits for."""
    if rt.limits.report_wake:
        wake(rt)


def ask_for_turn(tx: Transaction, execution_id: str, now: datetime) -> None:
    """Makes a running execution owe a turn though nothing was appended.

    Which commands are open and held is not in the log, yet decisions wait for it: a loop for its
    last lane, a pause and a cancellation for running work.
    """
    row = tx.executions.lock(execution_id)
    if row is None or row.is_over:
        return
    tx.executions.save_turn(
        execution_id,
        decided_version=row.decided_version,
        status=row.status,
        next_wake_at=now,
        halt=row.halt,
        now=now,
    )
