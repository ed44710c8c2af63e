"""What executions descend from: the log of the one that is run again; and the next attempt that one
waits for."""

from __future__ import annotations

from noetl.engine.retries import DUE, retry_due
from noetl.engine.source import SourceLog
from noetl.facts.events import RetryCancelled
from noetl.facts.lineage import RetryOf
from noetl.usecases import moment
from noetl.usecases.ports import ENDED, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime


def find_source(rt: Runtime, tx: Transaction, retry: RetryOf | None) -> SourceLog | None:
    """What `retry` runs again, as its log tells it; None where there is none, or it is gone. So it
    is where a child has not ended yet that its caller did not wait for any more."""
    if retry is None:
        return None
    found = rt.sources.get(retry)
    row = None if found is not None else tx.executions.get(retry.execution_id)
    if row is not None and row.status in ENDED:
        # Its log does not change any more.
        events = tx.events.read(row.execution_id)
        undone = moment.find_undo(tx, row.execution_id) is not None
        found = SourceLog(rt.plan(tx, row.digest), retry, events, is_undone=undone)
        rt.sources.put(retry, found)
    return found


def call_off(rt: Runtime, tx: Transaction, row: ExecutionRow, reason: str) -> bool:
    """Calls off the next attempt of an execution whose row is locked. Whether one was scheduled."""
    if not row.waits_for_retry or retry_due(moment.look(tx, row).state()) is None:
        return False
    now = rt.clock()
    tx.events.append(row.execution_id, row.head_version, [rt.ask_for(RetryCancelled(reason), DUE)], now)
    # At once: the process that would take the turn may be on its way out.
    tx.executions.save_turn(
        row.execution_id,
        decided_version=row.decided_version,
        status=row.status,
        next_wake_at=None,
        halt=row.halt,
        now=now,
    )
    return True
