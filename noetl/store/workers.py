"""The table of workers."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from noetl.store import codec
from noetl.store.schema import worker
from noetl.store.table import SqlTable
from noetl.usecases.ports import WorkerRow

_w = worker.c


_alive = (
    select(_w.name, _w.role, _w.queues, _w.started_at, _w.seen_at, _w.skew_s)
    .where(_w.seen_at > bindparam("after"))
    .order_by(_w.name)
)


def _see(dialect: Any) -> Any:
    insert = dialect.insert(worker)
    seen = {name: insert.excluded[name] for name in ("role", "queues", "started_at", "seen_at", "skew_s")}
    return insert.on_conflict_do_update(index_elements=[_w.name], set_=seen)


_sees = {"postgresql": _see(postgresql), "sqlite": _see(sqlite)}


class SqlWorkers(SqlTable):
    """`noetl.usecases.ports.Workers`."""

    __slots__ = ()

    def see(self, row: WorkerRow) -> None:
        values = {
            "name": row.name,
            "role": row.role,
            "queues": codec.dumps(row.queues),
            "started_at": row.started_at,
            "seen_at": row.seen_at,
            "skew_s": row.skew_s,
        }
        self._session.write(_sees[self._session.dialect], values)

    def alive(self, seen_after: datetime) -> list[WorkerRow]:
        """Ordered by name."""
        return [_worker(found) for found in self._session.read(_alive, {"after": seen_after})]


def _worker(columns: Sequence[Any]) -> WorkerRow:
    name, role, queues, started_at, seen_at, skew_s = columns
    return WorkerRow(name, role, tuple(codec.loads(queues)), started_at, seen_at, skew_s)
