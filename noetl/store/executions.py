"""The `execution` table: one row for each, its lock, and which of them owe a turn."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import islice
from typing import Any, Final

from sqlalchemy import (
    Column,
    ColumnElement,
    Select,
    bindparam,
    func,
    insert,
    or_,
    select,
    union,
    update,
)

from noetl.errors import BadRequest, NoetlError
from noetl.facts.json import JsonMap
from noetl.store import codec
from noetl.store.conditions import is_exact, narrow
from noetl.store.runs import COUNT_OPEN, COUNT_VERSIONS, NEWEST_OF, run
from noetl.store.schema.executions import execution
from noetl.store.schema.work import log
from noetl.store.session import SqlTable, columns_of, lines, missing, text_or_none, value_or_none
from noetl.store.tallies import TallyBounds, TallyScale, count_in, find_ends, no_executions, tally_rows
from noetl.usecases.fields import holds
from noetl.usecases.ports import DueExecutions, ExecutionRow, ExecutionStatus, Mark, RunRow, Tally
from noetl.usecases.ports.conditions import Condition

_c = execution.c
COLUMNS: Final = columns_of(execution, ExecutionRow)
WIDTH: Final = len(COLUMNS)
_ERROR: Final = COLUMNS.index(_c.error)
_OTHERS: Final = tuple(COLUMNS.index(_c[name]) for name in ("parent_id", "source_id", "operation_id"))

_one = select(*COLUMNS).where(_c.execution_id == bindparam("id"))
#: NO KEY UPDATE: rows that refer to the execution may be inserted meanwhile.
_lock = _one.with_for_update(key_share=True)
#: How many candidates beyond the limit are looked at: those may be locked by other schedulers.
SPARE: Final = 256

_ahead = _c.head_version > _c.decided_version
_woken = _c.next_wake_at <= bindparam("now", type_=_c.next_wake_at.type)


def _first(owes: ColumnElement[bool], order: Column[Any]) -> Select[int]:
    """Ids from one partial index. Together they would be a walk through all of history: no planner
    takes an OR apart."""
    few = select(_c.execution_id).where(_c.shard == bindparam("shard"), owes).order_by(order)
    return select(few.limit(bindparam("limit")).subquery().c.execution_id)


_due = union(_first(_ahead, _c.execution_id), _first(_woken, _c.next_wake_at)).cte("due")
_owing = select(_due.c.execution_id).order_by(_due.c.execution_id)
#: Asked once more, of the locked row: another scheduler may just have taken its turn.
_locked = (
    select(*COLUMNS)
    .where(_c.execution_id.in_(select(_due.c.execution_id)), or_(_ahead, _woken))
    .order_by(_c.execution_id)
    .limit(bindparam("rows"))
    .with_for_update(skip_locked=True, key_share=True)
    .cte("locked")
)
_lock_owing = (
    select(_due.c.execution_id, *_locked.c)
    .join_from(_due, _locked, _locked.c.execution_id == _due.c.execution_id, isouter=True)
    .order_by(_due.c.execution_id)
)
_printed = select(func.max(log.c.seq)).where(log.c.execution_id == _c.execution_id).scalar_subquery()
_marks = select(_c.execution_id, _c.head_version, _c.decided_version, _c.status, _printed).where(
    _c.execution_id.in_(bindparam("ids", expanding=True))
)
#: The newest one last.
_retries = (
    select(*COLUMNS)
    .where(
        _c.source_id.in_(bindparam("ids", expanding=True)),
        _c.descent.in_(("retry", "migration")),
        _c.status != "cancelled",
    )
    .order_by(_c.execution_id)
)
_asking = select(*COLUMNS).where(_c.approvals > 0).order_by(_c.execution_id)
#: Rows that a filter looks at with one statement, at least.
PAGE: Final = 500
_insert = insert(execution)
_add_cancelled = (
    update(execution)
    .where(_c.execution_id == bindparam("id"))
    .values(cancelled_parts=_c.cancelled_parts + bindparam("more"))
)
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
        errors_passed_over=func.coalesce(
            bindparam("passed", type_=_c.errors_passed_over.type), _c.errors_passed_over
        ),
        warnings_count=func.coalesce(bindparam("warnings", type_=_c.warnings_count.type), _c.warnings_count),
        waiting_for=bindparam("waits", type_=_c.waiting_for.type),
        approvals=func.coalesce(bindparam("asking", type_=_c.approvals.type), _c.approvals),
    )
)
_filters: Final = {
    "status": _c.status == bindparam("status"),
    "path": _c.path == bindparam("path"),
    "parent": _c.parent_id == bindparam("parent"),
    "source": _c.source_id == bindparam("source"),
    "key": _c.key == bindparam("key"),
    "before": _c.execution_id < bindparam("before"),
}


@cache
def _page(asked: tuple[str, ...]) -> Select[Any]:
    """One statement for each combination of filters: connections prepare what they meet and keep
    it."""
    page = select(*COLUMNS).order_by(_c.execution_id.desc()).limit(bindparam("limit"))
    return page.where(*(_filters[name] for name in asked))


def row(columns: Any) -> ExecutionRow:
    """The row of a result that holds `COLUMNS`."""
    values = list(columns)
    values[0] = str(values[0])
    values[_ERROR] = value_or_none(values[_ERROR])
    for other in _OTHERS:
        values[other] = None if values[other] is None else str(values[other])
    return ExecutionRow(*values)


class SqlExecutions(SqlTable):
    """`noetl.usecases.ports.Executions`."""

    def create(self, row: ExecutionRow) -> None:
        number = codec.number(row.execution_id)
        if number < 0:
            raise BadRequest(f"{row.execution_id!r} is no execution id: a decimal number below 2^63 is.")
        values = {column.name: getattr(row, column.name) for column in COLUMNS}
        values |= {"execution_id": number, "error": text_or_none(row.error), "shard": self._shard}
        for name in ("parent_id", "source_id", "operation_id"):
            values[name] = None if values[name] is None else codec.number(values[name])
        self._session.later(_insert, values)

    def get(self, execution_id: str) -> ExecutionRow | None:
        found = self._session.read(_one, {"id": codec.number(execution_id)}).first()
        return row(found) if found else None

    def find(
        self,
        *,
        status: str | None = None,
        path: str | None = None,
        parent: str | None = None,
        source: str | None = None,
        key: str | None = None,
        where: Condition | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[ExecutionRow]:
        others = {"parent": parent, "source": source, "before": before}
        ids = {name: None if one is None else codec.number(one) for name, one in others.items()}
        given = {"status": status, "path": path, "key": key, **ids}
        asked = {name: value for name, value in given.items() if value is not None}
        if where is not None:
            return list(islice(self._filter(where, asked, max(limit, PAGE)), limit))
        page = self._session.read(_page(tuple(asked)), {**asked, "limit": limit})
        return [row(found) for found in page]

    def _filter(self, where: Condition, asked: Mapping[str, Any], size: int) -> Iterator[ExecutionRow]:
        """The database narrows, and what it cannot say is asked of each row."""
        return (one for one in self._narrow(where, asked, size) if holds(where, one))

    def _narrow(self, where: Condition, asked: Mapping[str, Any], size: int) -> Iterator[ExecutionRow]:
        """All that the condition may mean, newest first."""
        narrowed = narrow(where)
        given = {**asked, "limit": size}
        while True:
            page = [row(one) for one in self._session.read_once(_page(tuple(asked)).where(narrowed), given)]
            yield from page
            if len(page) < size:
                return
            given["before"] = codec.number(page[-1].execution_id)
            asked = {**asked, "before": given["before"]}

    def tally(
        self,
        where: Condition | None,
        *,
        spans: int = 60,
        most: int = 20_000,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Tally:
        bounds = TallyBounds(spans, since, until)
        meant = bounds.narrow(where)
        if meant is None or is_exact(meant):
            return self._count(bounds, meant)
        rows = list(islice(self._narrow(meant, {}, PAGE), most + 1))
        found = [one for one in rows[:most] if holds(meant, one)]
        return tally_rows(bounds, found, is_whole=len(rows) <= most)

    def _count(self, bounds: TallyBounds, meant: Condition | None) -> Tally:
        oldest, newest = self._session.read_once(find_ends(meant)).one()
        if oldest is None or newest is None:
            return no_executions()
        scale = TallyScale.fit(bounds, oldest, newest)
        return scale.sum_up(self._session.read_once(count_in(scale, meant)))

    def newest_of(self, paths: Sequence[str], each: int) -> Mapping[str, list[RunRow]]:
        found: dict[str, list[RunRow]] = {}
        statement = NEWEST_OF[self._session.dialect]
        for few in lines(paths):
            for one in map(run, self._session.read(statement, {"paths": few, "each": each})):
                found.setdefault(one.path, []).append(one)
        return found

    def count_open(self) -> Mapping[str, int]:
        return dict(self._session.read(COUNT_OPEN))

    def count_versions(self, path: str, most: int) -> Mapping[int, int]:
        return dict(self._session.read(COUNT_VERSIONS, {"path": path, "most": most}))

    def asking(self, among: Condition | None, after: str | None, limit: int) -> list[ExecutionRow]:
        return list(islice(self._find_asking(among, after, max(limit, PAGE)), limit))

    def _find_asking(self, among: Condition | None, after: str | None, size: int) -> Iterator[ExecutionRow]:
        asking, first = _asking.limit(size), -1 if after is None else codec.number(after)
        asking = asking if among is None else asking.where(narrow(among))
        while True:
            page = [row(one) for one in self._session.read_once(asking.where(_c.execution_id >= first))]
            yield from (one for one in page if among is None or holds(among, one))
            if len(page) < size:
                return
            first = codec.number(page[-1].execution_id) + 1

    def retries_of(self, execution_ids: Sequence[str]) -> Mapping[str, ExecutionRow]:
        found: dict[str, ExecutionRow] = {}
        for ids in lines(execution_ids):
            retries = map(row, self._session.read(_retries, {"ids": [codec.number(one) for one in ids]}))
            found |= {str(retry.source_id): retry for retry in retries}
        return found

    def lock(self, execution_id: str) -> ExecutionRow | None:
        found = self._session.write(_lock, {"id": codec.number(execution_id)}).first()
        return row(found) if found else None

    def lock_owing(self, now: datetime, limit: int) -> DueExecutions:
        values = {"now": now, "limit": limit + SPARE, "rows": limit, "shard": self._shard}
        found = list(self._session.write(_lock_owing, values))
        rows = [row(columns) for _, *columns in found if columns[0] is not None]
        return DueExecutions(rows, [str(number) for number, *columns in found if columns[0] is None])

    def owing(self, now: datetime, limit: int) -> list[str]:
        values = {"now": now, "limit": limit, "shard": self._shard}
        numbers = list(self._session.read(_owing, values).scalars())
        return [str(number) for number in numbers[:limit]]

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
        errors_passed_over: int | None = None,
        warnings_count: int | None = None,
        waiting_for: str | None = None,
        approvals: int | None = None,
    ) -> None:
        """`ended_at`, `error` and counts that are None leave what is there."""
        values = {
            "id": codec.number(execution_id),
            "decided": decided_version,
            "new_status": status,
            "wake": next_wake_at,
            "new_halt": halt,
            "now": now,
            "ended": ended_at,
            "new_error": text_or_none(error),
            "passed": errors_passed_over,
            "warnings": warnings_count,
            "waits": waiting_for,
            "asking": approvals,
        }
        self._session.sure(_turn, values, lambda: self._missing(execution_id))
        self._session.notify(execution_id)

    def marks(self, execution_ids: Sequence[str]) -> Mapping[str, Mark]:
        found: dict[str, Mark] = {}
        for ids in lines(execution_ids):
            values = {"ids": [codec.number(one) for one in ids]}
            found |= {str(number): tuple(mark) for number, *mark in self._session.read(_marks, values)}
        return found

    def set_halt(self, execution_id: str, halt: str) -> None:
        values = {"id": codec.number(execution_id), "new_halt": halt}
        self._session.sure(_halt, values, lambda: self._missing(execution_id))

    def add_cancelled_parts(self, execution_id: str, count: int) -> None:
        values = {"id": codec.number(execution_id), "more": count}
        self._session.sure(_add_cancelled, values, lambda: self._missing(execution_id))

    def _missing(self, execution_id: str) -> NoetlError | None:
        return missing(execution_id) if self.get(execution_id) is None else None
