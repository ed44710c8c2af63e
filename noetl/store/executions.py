"""The `execution` table: one row for each, its lock, and which of them owe a turn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    FromClause,
    Select,
    and_,
    bindparam,
    func,
    insert,
    or_,
    select,
    union_all,
    update,
)

from noetl.errors import BadRequest, NoetlError
from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.store.rules import missing
from noetl.store.schema import execution
from noetl.store.session import Session, text_or_none, value_or_none
from noetl.usecases.ports import ExecutionRow, ExecutionStatus

_c = execution.c
#: In the order of ExecutionRow's fields.
COLUMNS: Final[Sequence[Column[Any]]] = (
    _c.execution_id,
    _c.path,
    _c.playbook_version,
    _c.digest,
    _c.status,
    _c.head_version,
    _c.decided_version,
    _c.created_at,
    _c.updated_at,
    _c.ended_at,
    _c.next_wake_at,
    _c.halt,
    _c.error,
    _c.shard,
)
WIDTH: Final = len(COLUMNS)
_ERROR: Final = 12

_one = select(*COLUMNS).where(_c.execution_id == bindparam("id"))
#: NO KEY UPDATE: rows that refer to the execution may be inserted meanwhile.
_lock = _one.with_for_update(key_share=True)
#: How many candidates beyond the limit are looked at: those may be locked by other schedulers.
SPARE: Final = 256


def _ahead(table: FromClause) -> ColumnElement[bool]:
    return table.c.head_version > table.c.decided_version


def _woken(table: FromClause) -> ColumnElement[bool]:
    return table.c.next_wake_at <= bindparam("now")


def _candidates(owes: Callable[[FromClause], ColumnElement[bool]], order: str) -> Select[int]:
    """Ids from one partial index. The limit tells PostgreSQL that they are few: it takes a third of all
    rows for ahead of their decision."""
    other = execution.alias()
    mine = other.c.shard == bindparam("shard")
    few = select(other.c.execution_id).where(mine, owes(other)).order_by(other.c[order])
    return select(few.limit(bindparam("limit") + SPARE).subquery().c.execution_id)


#: An OR by itself makes planners walk all of history in the order of ids. It is asked once more, of the
#: locked row, because another scheduler may just have taken its turn.
_owes = and_(
    _c.execution_id.in_(union_all(_candidates(_ahead, "execution_id"), _candidates(_woken, "next_wake_at"))),
    or_(_ahead(execution), _woken(execution)),
)
_owing = select(_c.execution_id).where(_owes).order_by(_c.execution_id).limit(bindparam("limit"))
_lock_owing = (
    select(*COLUMNS)
    .where(_owes)
    .order_by(_c.execution_id)
    .limit(bindparam("limit"))
    .with_for_update(skip_locked=True, key_share=True)
)
_insert = insert(execution)
_halt = update(execution).where(_c.execution_id == bindparam("id")).values(halt=bindparam("new_halt"))
_turn = (
    update(execution)
    .where(_c.execution_id == bindparam("id"))
    .values(
        decided_version=bindparam("decided"),
        status=bindparam("new_status"),
        next_wake_at=bindparam("wake", type_=_c.next_wake_at.type),
        halt=bindparam("new_halt"),
        updated_at=bindparam("now", type_=_c.updated_at.type),
        ended_at=func.coalesce(bindparam("ended", type_=_c.ended_at.type), _c.ended_at),
        error=func.coalesce(bindparam("new_error", type_=_c.error.type), _c.error),
    )
)
_page = select(*COLUMNS).order_by(_c.execution_id.desc()).limit(bindparam("limit"))


def row(columns: Any) -> ExecutionRow:
    """The row of a result that holds `COLUMNS`."""
    values = list(columns)
    values[0] = str(values[0])
    values[_ERROR] = value_or_none(values[_ERROR])
    return ExecutionRow(*values)


class Executions:
    """The methods of `Transaction` on executions."""

    __slots__ = ("_session", "_shard")

    def __init__(self, session: Session, shard: str) -> None:
        self._session = session
        self._shard = shard

    def create_execution(self, row: ExecutionRow) -> None:
        number = codec.number(row.execution_id)
        if number < 0:
            raise BadRequest(f"{row.execution_id!r} is no execution id: a decimal number below 2^63 is.")
        values = {column.name: getattr(row, column.name) for column in COLUMNS}
        values |= {"execution_id": number, "error": text_or_none(row.error), "shard": self._shard}
        self._session.later(_insert, values)

    def execution(self, execution_id: str) -> ExecutionRow | None:
        found = self._session.read(_one, {"id": codec.number(execution_id)}).first()
        return row(found) if found else None

    def executions(
        self,
        *,
        status: str | None = None,
        path: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[ExecutionRow]:
        wanted: dict[str, Any] = {"status": status, "path": path}
        asked = [_c[name] == value for name, value in wanted.items() if value is not None]
        if before is not None:
            asked.append(_c.execution_id < codec.number(before))
        page = _page.where(and_(*asked)) if asked else _page
        return [row(found) for found in self._session.read(page, {"limit": limit})]

    def lock(self, execution_id: str) -> ExecutionRow | None:
        found = self._session.write(_lock, {"id": codec.number(execution_id)}).first()
        return row(found) if found else None

    def lock_owing(self, now: datetime, limit: int) -> list[ExecutionRow]:
        return [row(found) for found in self._session.write(_lock_owing, self._asked(now, limit))]

    def owing(self, now: datetime, limit: int) -> list[str]:
        found = self._session.read(_owing, self._asked(now, limit))
        return [str(number) for number in found.scalars()]

    def _asked(self, now: datetime, limit: int) -> dict[str, Any]:
        return {"now": now, "limit": limit, "shard": self._shard}

    def save_turn(
        self,
        execution_id: str,
        *,
        decided_version: int,
        status: ExecutionStatus,
        next_wake_at: datetime | None,
        halt: str,
        now: datetime,
        ended_at: datetime | None = None,
        error: JsonMap | None = None,
    ) -> None:
        """`ended_at` and `error` that are None leave what is there."""
        values = {
            "id": codec.number(execution_id),
            "decided": decided_version,
            "new_status": status,
            "wake": next_wake_at,
            "new_halt": halt,
            "now": now,
            "ended": ended_at,
            "new_error": text_or_none(error),
        }
        self._session.sure(_turn, values, lambda: self._missing(execution_id))

    def set_halt(self, execution_id: str, halt: str) -> None:
        values = {"id": codec.number(execution_id), "new_halt": halt}
        self._session.sure(_halt, values, lambda: self._missing(execution_id))

    def _missing(self, execution_id: str) -> NoetlError | None:
        return missing(execution_id) if self.execution(execution_id) is None else None
