"""Operations: begun, looked at and steered. `noetl.usecases.fleet.progress` carries them on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from typing import Final, get_args

from noetl.errors import BadRequest, Conflict, NotFound
from noetl.facts.failures import shape_of
from noetl.facts.json import Json, JsonMap
from noetl.usecases import control, moment
from noetl.usecases.fleet.choosing import PAGE, Chosen
from noetl.usecases.fleet.planning import FleetPlan, FleetRequest, choose_for, plan_chosen
from noetl.usecases.ports import ItemState, OperationItem, OperationRow, OperationStatus, Transaction
from noetl.usecases.retry import RetryRequest
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import draw_ids

#: What an operation keeps of the request for each of its executions.
_NOT_KEPT: Final = ("execution_id", "operation_id", "attempt")

#: Where an operation still begins something, or may.
_STEERED: Final = ("running", "paused")
#: What the audit calls it when an operation is made to be that.
_ASKED: Final = {"cancelling": "cancelled", "paused": "paused", "running": "resumed"}


@dataclass(frozen=True, slots=True)
class Operation:
    """An operation as it is now: its row, and how many of its items are in which state."""

    row: OperationRow
    counts: Mapping[ItemState, int]

    @property
    def total(self) -> int:
        return sum(self.counts.values())

    def as_json(self) -> dict[str, Json]:
        """`{operation_id, kind, status, where, how, concurrency, principal, reason, created_at,
        updated_at, ended_at, items: {total, pending, started, completed, failed, partial,
        cancelled, refused, dropped}}`."""
        row = self.row
        return {
            "operation_id": row.operation_id,
            "kind": row.kind,
            "status": row.status,
            "where": row.chosen_by,
            "how": dict(row.how),
            "concurrency": row.concurrency,
            "principal": row.principal,
            "reason": row.reason,
            "created_at": row.created_at.isoformat(),
            "updated_at": row.updated_at.isoformat(),
            "ended_at": None if row.ended_at is None else row.ended_at.isoformat(),
            "items": {"total": self.total, **{one: self.counts.get(one, 0) for one in get_args(ItemState)}},
        }


def begin(rt: Runtime, request: FleetRequest) -> Operation:
    """Fixes which executions are meant, and records the operation; the sweeper carries it on.

    Raises BadRequest where nothing is meant, and Conflict where calls that may have had effects
    would be made again and the request does not say that they may.
    """
    chosen = choose_for(rt, request)
    if not chosen.rows:
        raise BadRequest(f"No execution is to be retried where {request.where}.{_retried(chosen)}")
    if not request.how.confirmed:
        _check_confirmed(plan_chosen(rt, request, chosen))
    now = rt.clock()
    row = OperationRow(
        operation_id=draw_ids(rt, now, 1)[0],
        kind="retry",
        status="running",
        chosen_by=request.where,
        how=_keep(request.how),
        concurrency=request.concurrency,
        created_at=now,
        updated_at=now,
        reason=request.reason,
        principal=rt.principal,
        request_id=None if rt.caller is None else rt.caller.request_id,
    )
    with rt.store.begin() as tx:
        tx.operations.add(row, [one.execution_id for one in chosen.rows])
        asked: JsonMap = {"where": request.where} | ({"reason": request.reason} if request.reason else {})
        rt.record(tx, "operation.requested", row.operation_id, asked)
    return Operation(row, {"pending": len(chosen.rows)})


def _retried(chosen: Chosen) -> str:
    return f" {chosen.retried} were run again already." if chosen.retried else ""


def _check_confirmed(plan: FleetPlan) -> None:
    if not plan.confirm:
        return
    calls = sorted({call for group in plan.groups for call in group.repeats})
    more = f" and {len(calls) - 5} others" if len(calls) > 5 else ""
    raise Conflict(
        f"Retries of {plan.confirm} executions make calls again that may have had effects: "
        f"{', '.join(calls[:5])}{more}. Look at the plan (--dry-run, ?dry_run=true), and confirm (--yes, "
        "?confirm=true)."
    )


def _keep(how: RetryRequest) -> JsonMap:
    return {name: value for name, value in asdict(how).items() if name not in _NOT_KEPT}


def request_for(row: OperationRow, item: OperationItem) -> RetryRequest:
    """The retry that the operation asks for, of one of its executions."""
    how = {**row.how, "directories": tuple(row.how["directories"])}
    return RetryRequest(execution_id=item.execution_id, operation_id=row.operation_id, **how)


# --- looking --------------------------------------------------------------------------------------


def operation(rt: Runtime, operation_id: str) -> Operation:
    """Raises NotFound."""
    with rt.store.read() as tx:
        row = tx.operations.get(operation_id) if moment.is_id(operation_id) else None
        return _with_counts(tx, _there(row, operation_id))


def operations(
    rt: Runtime, *, principal: str | None = None, before: str | None = None, limit: int = 50
) -> list[Operation]:
    """Newest first, behind the id `before`, those of one principal where it is given. Raises
    BadRequest where that is no id."""
    if before is not None and not moment.is_id(before):
        raise BadRequest(f"{before!r} is no operation id: a decimal number is.")
    with rt.store.read() as tx:
        rows = tx.operations.find(principal=principal, before=before, limit=limit)
        counts = tx.operations.counts([row.operation_id for row in rows])
    return [Operation(row, counts[row.operation_id]) for row in rows]


def items(
    rt: Runtime, operation_id: str, *, state: ItemState | None = None, after: int = -1, limit: int = 100
) -> list[OperationItem]:
    """What becomes of its executions, in their order, behind the position `after`. Raises
    NotFound."""
    operation(rt, operation_id)
    with rt.store.read() as tx:
        return tx.operations.items(operation_id, state=state, after=after, limit=limit)


def _with_counts(tx: Transaction, row: OperationRow) -> Operation:
    return Operation(row, tx.operations.counts([row.operation_id])[row.operation_id])


def _there(row: OperationRow | None, operation_id: str) -> OperationRow:
    if row is None:
        raise NotFound(f"There is no operation {operation_id[:80]!r}; see the list: noetl operation list.")
    return row


def refusals(rt: Runtime, operation_id: str) -> Counter[str]:
    """Why items were refused, without what varies, and how many of them. Raises NotFound."""
    found: Counter[str] = Counter()
    after = -1
    while page := items(rt, operation_id, state="refused", after=after, limit=PAGE):
        found.update(shape_of(item.reason) for item in page)
        after = page[-1].position
    return found


# --- steering -------------------------------------------------------------------------------------


def cancel(rt: Runtime, operation_id: str, reason: str = "") -> Operation:
    """Begins nothing more; what it has begun goes on. Raises NotFound, and Conflict where it has
    ended."""
    return _change(rt, operation_id, "cancelling", reason)


def pause(rt: Runtime, operation_id: str, reason: str = "") -> Operation:
    """Begins nothing more until it is resumed; what it has begun goes on. Raises NotFound, and
    Conflict where it has ended, or is to."""
    return _change(rt, operation_id, "paused", reason)


def resume(rt: Runtime, operation_id: str) -> Operation:
    """Lets one that was paused go on; one that is being cancelled stays that. Raises NotFound, and
    Conflict where it has ended."""
    found = operation(rt, operation_id)
    return found if found.row.status == "cancelling" else _change(rt, operation_id, "running", "")


def _change(rt: Runtime, operation_id: str, status: OperationStatus, reason: str) -> Operation:
    operation(rt, operation_id)
    now = rt.clock()
    with rt.store.begin() as tx:
        row = _there(tx.operations.lock(operation_id), operation_id)
        if row.status not in _STEERED:
            raise Conflict(f"Operation {operation_id} is {row.status}: there is nothing left to steer.")
        if status == "cancelling":
            tx.operations.drop_pending(operation_id)
        row = replace(row, status=status, reason=reason, updated_at=now)
        tx.operations.save_status(row)
        rt.record(tx, f"operation.{_ASKED[status]}", operation_id, {"reason": reason})
        return settle(tx, row, now)


def settle(tx: Transaction, row: OperationRow, now: datetime) -> Operation:
    """Records what it had begun and has ended, and at last itself. Needs the lock."""
    tx.operations.record_ends(row.operation_id)
    found = _with_counts(tx, row)
    if not found.counts.keys() & {"pending", "started"}:
        status: OperationStatus = "cancelled" if row.status == "cancelling" else "completed"
        found = replace(found, row=replace(row, status=status, updated_at=now, ended_at=now))
        tx.operations.save_status(found.row)
    return found


def adopt(rt: Runtime, operation_id: str) -> None:
    """Goes on with what it had begun in a process that has gone: what that had sent went with its
    memory."""
    for item in items(rt, operation_id, state="started", limit=PAGE):
        with suppress(Conflict):  # it has ended
            control.adopt(rt, str(item.begun_id))
