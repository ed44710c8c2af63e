"""The tables of operations: one row for each, and one for each of its executions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from sqlalchemy import bindparam, func, insert, select, update

from noetl.errors import NotFound
from noetl.store import codec
from noetl.store.schema.executions import execution
from noetl.store.schema.operations import operation, operation_item
from noetl.store.session import SqlTable, columns_of, lines
from noetl.usecases.ports import ENDED, ItemState, OperationItem, OperationRow

_o = operation.c
_i = operation_item.c
_COLUMNS: Final = columns_of(operation, OperationRow)
_HOW: Final = _COLUMNS.index(_o.how)
_ITEM: Final = columns_of(operation_item, OperationItem)

_one = select(*_COLUMNS).where(_o.operation_id == bindparam("id"))
_lock = _one.with_for_update()
_newest = select(*_COLUMNS).order_by(_o.operation_id.desc()).limit(bindparam("limit"))
_newest_of = _newest.where(_o.principal == bindparam("who"))
_older = _o.operation_id < bindparam("before")
_unfinished = (
    select(_o.operation_id)
    .where(_o.shard == bindparam("shard"), _o.ended_at.is_(None))
    .order_by(_o.operation_id)
)
_items = (
    select(*_ITEM)
    .where(_i.operation_id == bindparam("id"), _i.position > bindparam("after"))
    .order_by(_i.position)
    .limit(bindparam("limit"))
)
_items_in_state = _items.where(_i.state == bindparam("state"))
_counts = (
    select(_i.operation_id, _i.state, func.count())
    .where(_i.operation_id.in_(bindparam("ids", expanding=True)))
    .group_by(_i.operation_id, _i.state)
)
_insert = insert(operation)
_insert_item = insert(operation_item)
_save_item = (
    update(operation_item)
    .where(_i.operation_id == bindparam("id"), _i.position == bindparam("at"))
    .values(state=bindparam("new_state"), begun_id=bindparam("begun"), reason=bindparam("why"))
)
_begun = execution.c.execution_id == _i.begun_id
_ended = execution.c.status.in_(sorted(ENDED))
_record_ends = (
    update(operation_item)
    .where(
        _i.operation_id == bindparam("id"),
        _i.state == "started",
        select(execution.c.execution_id).where(_begun, _ended).exists(),
    )
    .values(state=select(execution.c.status).where(_begun).scalar_subquery())
)
_drop = (
    update(operation_item)
    .where(_i.operation_id == bindparam("id"), _i.state == "pending")
    .values(state="dropped")
)
_save_status = (
    update(operation)
    .where(_o.operation_id == bindparam("id"))
    .values(
        status=bindparam("new_status"),
        reason=bindparam("why"),
        updated_at=bindparam("now", type_=_o.updated_at.type),
        ended_at=bindparam("ended", type_=_o.ended_at.type),
    )
)


def _row(columns: Sequence[Any]) -> OperationRow:
    values = list(columns)
    values[0], values[_HOW] = str(values[0]), codec.loads(values[_HOW])
    return OperationRow(*values)


def _item(columns: Sequence[Any]) -> OperationItem:
    item = OperationItem(*columns)
    begun = None if item.begun_id is None else str(item.begun_id)
    return replace(item, execution_id=str(item.execution_id), begun_id=begun)


class SqlOperations(SqlTable):
    """`noetl.usecases.ports.Operations`."""

    def add(self, row: OperationRow, execution_ids: Sequence[str]) -> None:
        number = codec.number(row.operation_id)
        values = {column.name: getattr(row, column.name) for column in _COLUMNS}
        values |= {"operation_id": number, "how": codec.dumps(row.how), "shard": self._shard}
        self._session.write(_insert, values)
        items = [
            {
                "operation_id": number,
                "position": position,
                "execution_id": codec.number(execution_id),
                "state": "pending",
                "begun_id": None,
                "reason": "",
            }
            for position, execution_id in enumerate(execution_ids)
        ]
        for some in lines(items):
            self._session.later(_insert_item, some)

    def get(self, operation_id: str) -> OperationRow | None:
        found = self._session.read(_one, {"id": codec.number(operation_id)}).first()
        return _row(found) if found else None

    def find(
        self, *, principal: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[OperationRow]:
        statement = _newest if principal is None else _newest_of
        values: dict[str, Any] = {"limit": limit} | ({} if principal is None else {"who": principal})
        if before is not None:
            statement = statement.where(_older)
            values["before"] = codec.number(before)
        return [_row(found) for found in self._session.read_once(statement, values)]

    def lock(self, operation_id: str) -> OperationRow | None:
        found = self._session.write(_lock, {"id": codec.number(operation_id)}).first()
        return _row(found) if found else None

    def unfinished(self) -> list[str]:
        return [str(number) for number in self._session.read(_unfinished, {"shard": self._shard}).scalars()]

    def items(
        self, operation_id: str, *, state: ItemState | None = None, after: int = -1, limit: int = 100
    ) -> list[OperationItem]:
        values: dict[str, Any] = {"id": codec.number(operation_id), "after": after, "limit": limit}
        if state is None:
            return [_item(found) for found in self._session.read(_items, values)]
        return [_item(found) for found in self._session.read(_items_in_state, {**values, "state": state})]

    def counts(self, operation_ids: Sequence[str]) -> Mapping[str, Mapping[ItemState, int]]:
        found: dict[str, dict[ItemState, int]] = {one: {} for one in operation_ids}
        for ids in lines(operation_ids):
            for number, state, count in self._session.read(_counts, {"ids": list(map(codec.number, ids))}):
                found[str(number)][state] = count
        return found

    def save_item(self, operation_id: str, item: OperationItem) -> None:
        values = {
            "id": codec.number(operation_id),
            "at": item.position,
            "new_state": item.state,
            "begun": None if item.begun_id is None else codec.number(item.begun_id),
            "why": item.reason,
        }
        self._session.sure(_save_item, values, lambda: _missing(operation_id))

    def record_ends(self, operation_id: str) -> int:
        return self._session.write(_record_ends, {"id": codec.number(operation_id)}).rowcount

    def drop_pending(self, operation_id: str) -> None:
        self._session.write(_drop, {"id": codec.number(operation_id)})

    def save_status(self, row: OperationRow) -> None:
        values = {
            "id": codec.number(row.operation_id),
            "new_status": row.status,
            "why": row.reason,
            "now": row.updated_at,
            "ended": row.ended_at,
        }
        self._session.sure(_save_status, values, lambda: _missing(row.operation_id))


def _missing(operation_id: str) -> NotFound:
    return NotFound(f"Operation {operation_id} does not exist, or has no such item.")
