"""The `log` table: what user code prints."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache
from typing import Any, Final

from sqlalchemy import BindParameter, Select, bindparam, delete, func, insert, select, text

from noetl.facts.logs import LogChunk, LogFilter, LogPosition, LogRow
from noetl.store import codec
from noetl.store.schema.work import log
from noetl.store.session import SqlTable, lines, text_or_none, value_or_none

_c = log.c
_columns: Final = (
    _c.seq,
    _c.last_seq,
    _c.step,
    _c.step_run_id,
    _c.iteration,
    _c.task,
    _c.attempt,
    _c.delivery,
    _c.stream,
    _c.offset,
    _c.text,
    _c.ref,
    _c.recorded_at,
)
_its = _c.execution_id == bindparam("id")
_insert = insert(log)
#: The last chunk of all is never part of a block (see `Logs.fold`).
_head = select(func.coalesce(func.max(_c.seq), 0)).where(_its)
_remove = delete(log).where(_its, _c.seq.in_(bindparam("seqs", expanding=True)))
_remove_all = delete(log).where(_its)
_filters: Final = {
    "step": _c.step == bindparam("step"),
    "iteration": _c.iteration == bindparam("iteration"),
    "attempt": _c.attempt == bindparam("attempt"),
    "run_id": _c.step_run_id == bindparam("run_id"),
}
#: From one execution to the next by its index, however many rows each has.
_logged = text(
    "WITH RECURSIVE ids (id) AS (SELECT min(execution_id) FROM log WHERE execution_id > :after"
    " UNION ALL SELECT (SELECT min(execution_id) FROM log WHERE execution_id > ids.id) FROM ids"
    " WHERE ids.id IS NOT NULL) SELECT id FROM ids WHERE id IS NOT NULL LIMIT :limit"
)


@cache
def _behind(asked: tuple[str, ...]) -> Select[Any]:
    page = select(*_columns).where(_its, _c.seq > bindparam("after")).order_by(_c.seq)
    return page.where(*(_filters[name] for name in asked)).limit(bindparam("limit"))


@cache
def _around(asked: tuple[str, ...]) -> Select[Any]:
    """Blocks that begin at or before `after`, and end behind it."""
    after: BindParameter[int] = bindparam("after")
    page = select(*_columns).where(_its, _c.ref.is_not(None), _c.seq <= after, _c.last_seq > after)
    return page.where(*(_filters[name] for name in asked)).order_by(_c.seq)


@cache
def _end(asked: tuple[str, ...]) -> Select[Any]:
    page = select(*_columns).where(_its, *(_filters[name] for name in asked))
    return page.order_by(_c.seq.desc()).limit(bindparam("limit"))


@cache
def _before(asked: tuple[str, ...]) -> Select[Any]:
    return _end(asked).where(_c.seq < bindparam("before"))


class SqlLogs(SqlTable):
    """`noetl.usecases.ports.Logs`."""

    def add(self, execution_id: str, chunks: Sequence[LogChunk]) -> list[int]:
        first = self.head(execution_id) + 1
        seqs = list(range(first, first + len(chunks)))
        rows = [_values(LogRow(chunk, seq), seq) for seq, chunk in zip(seqs, chunks, strict=True)]
        self._session.later(_insert, rows)
        self._session.notify(execution_id)
        return seqs

    def fold(self, execution_id: str, seqs: Sequence[int], row: LogRow) -> None:
        number = codec.number(execution_id)
        for some in lines(seqs):
            self._session.write(_remove, {"id": number, "seqs": list(some)})
        self._session.later(_insert, [_values(row, row.seq)])

    def read(self, execution_id: str, where: LogFilter, after: int, limit: int) -> list[LogRow]:
        asked = _filter_values(where)
        values = {"id": codec.number(execution_id), "after": after, **asked}
        around = self._session.read(_around(tuple(asked)), values) if after else ()
        behind = self._session.read(_behind(tuple(asked)), {**values, "limit": limit})
        return list(_rows(execution_id, [*around, *behind]))

    def tail(
        self, execution_id: str, where: LogFilter, limit: int, before: int | None = None
    ) -> list[LogRow]:
        asked = _filter_values(where)
        values = {"id": codec.number(execution_id), **asked, "limit": limit}
        statement = _end(tuple(asked))
        if before is not None:
            statement, values = _before(tuple(asked)), {**values, "before": before}
        return list(_rows(execution_id, reversed(list(self._session.read(statement, values)))))

    def head(self, execution_id: str) -> int:
        return int(self._session.read(_head, {"id": codec.number(execution_id)}).scalar())

    def execution_ids(self, after: str | None, limit: int) -> list[str]:
        values = {"after": -1 if after is None else codec.number(after), "limit": limit}
        return [str(number) for number in self._session.read(_logged, values).scalars()]

    def delete(self, execution_id: str) -> int:
        return self._session.write(_remove_all, {"id": codec.number(execution_id)}).rowcount


def _filter_values(where: LogFilter) -> dict[str, Any]:
    given = {name: getattr(where, name) for name in _filters}
    return {name: value for name, value in given.items() if value is not None}


def _values(row: LogRow, seq: int) -> dict[str, Any]:
    chunk, place = row.chunk, row.chunk.place
    return {
        "execution_id": codec.number(place.execution_id),
        "seq": seq,
        "last_seq": row.last_seq,
        "step": place.step,
        "step_run_id": place.run_id,
        "iteration": place.iteration,
        "task": place.task,
        "attempt": place.attempt,
        "delivery": place.delivery,
        "stream": chunk.stream,
        "offset": chunk.offset,
        "text": chunk.text,
        "ref": text_or_none(row.ref),
        "recorded_at": chunk.recorded_at,
    }


def _rows(execution_id: str, found: Any) -> Iterator[LogRow]:
    for seq, last, step, run_id, iteration, task, attempt, delivery, stream, offset, said, ref, at in found:
        place = LogPosition(execution_id, step, run_id, iteration, task, attempt, delivery)
        yield LogRow(LogChunk(place, stream, offset, said, at, seq), last, value_or_none(ref))
