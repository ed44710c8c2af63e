"""Carries operations on: whoever sweeps does, so that nobody's end stops them.

An item is begun in the transaction that writes the execution which it begins: there is none of
which the operation does not know, and none that it begins twice.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Final, Literal, TypeAlias

from noetl.errors import Conflict, NoetlError, Unavailable, tell_cause
from noetl.usecases import catalog
from noetl.usecases.fleet.operations import request_for, settle
from noetl.usecases.ports import OperationItem, OperationRow, Transaction
from noetl.usecases.retry import write_retry
from noetl.usecases.runtime import Runtime
from noetl.usecases.wakes import wake

log = logging.getLogger(__name__)

#: Items of one operation that one sweep decides on: leases wait for the end of a sweep.
MOST: Final = 50

#: What became of the next item: it was begun, or refused, or is not to be begun now.
_Step: TypeAlias = Literal["begun", "refused", "none"]


def carry_on(rt: Runtime, operation_ids: list[str]) -> int:
    """Records what of these operations has ended, and begins as many of their items as they have
    room for. How many."""
    begun = sum(_carry_on(rt, operation_id) for operation_id in operation_ids)
    if begun:
        wake(rt)
    return begun


def _carry_on(rt: Runtime, operation_id: str) -> int:
    if not _settle(rt, operation_id):
        return 0
    begun = 0
    for _ in range(MOST):
        step = _begin_next(rt, operation_id)
        if step == "none":
            break
        begun += step == "begun"
    return begun


def _settle(rt: Runtime, operation_id: str) -> bool:
    """Records what has ended. Whether there is something to begin."""
    with rt.store.begin() as tx:
        row = tx.operations.lock(operation_id)
        if row is None or row.ended_at is not None:
            return False
        counts = settle(tx, row, rt.clock()).counts
    return counts.get("pending", 0) > 0 and counts.get("started", 0) < row.concurrency


def _begin_next(rt: Runtime, operation_id: str) -> _Step:
    with rt.store.read() as tx:
        waiting = tx.operations.items(operation_id, state="pending", limit=1)
    if not waiting:
        return "none"
    (item,) = waiting
    try:
        with catalog.keeping_nets(rt) as tx:
            row = _lock_for(tx, operation_id, item)
            if row is None:
                return "none"
            _check_first(tx, item)
            made = write_retry(rt.acting_for(row.caller), tx, request_for(row, item))
            started = replace(item, state="started", begun_id=made.execution_id)
            tx.operations.save_item(operation_id, started)
    except Unavailable:
        raise
    except NoetlError as error:
        return _refuse(rt, operation_id, replace(item, state="refused", reason=error.message))
    except Exception as error:
        # An execution whose log or net cannot be read must not end the sweeper, who serves all.
        log.exception("Execution %s cannot be retried", item.execution_id)
        return _refuse(rt, operation_id, replace(item, state="refused", reason=tell_cause(error)))
    return "begun"


def _lock_for(tx: Transaction, operation_id: str, item: OperationItem) -> OperationRow | None:
    """The operation, locked, where it still has room for the item and has not begun it."""
    row = tx.operations.lock(operation_id)
    if row is None or row.status != "running" or not _is_pending(tx, operation_id, item):
        return None
    started = tx.operations.counts([operation_id])[operation_id].get("started", 0)
    return row if started < row.concurrency else None


def _is_pending(tx: Transaction, operation_id: str, item: OperationItem) -> bool:
    found = tx.operations.items(operation_id, after=item.position - 1, limit=1)
    return found == [item]


def _check_first(tx: Transaction, item: OperationItem) -> None:
    """Raises Conflict where somebody else has run the execution again since it was chosen."""
    other = tx.executions.retries_of([item.execution_id]).get(item.execution_id)
    if other is not None:
        raise Conflict(
            f"Execution {item.execution_id} was retried by {other.execution_id} meanwhile ({other.status})."
        )


def _refuse(rt: Runtime, operation_id: str, refused: OperationItem) -> _Step:
    pending = replace(refused, state="pending", reason="")
    with rt.store.begin() as tx:
        if _lock_for(tx, operation_id, pending) is None:
            return "none"
        tx.operations.save_item(operation_id, refused)
    return "refused"
