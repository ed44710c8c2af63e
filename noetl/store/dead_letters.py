"""The table of dead letters."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import bindparam, insert, select

from noetl.facts.json import JsonMap
from noetl.store.rules import legible, letter
from noetl.store.schema import dead_letter
from noetl.store.table import SqlTable

_d = dead_letter.c


_bury = insert(dead_letter)
_letters = (
    select(_d.id, _d.source, _d.reason, _d.body, _d.recorded_at)
    .order_by(_d.id.desc())
    .limit(bindparam("limit"))
)


class SqlDeadLetters(SqlTable):
    """`noetl.usecases.ports.DeadLetters`."""

    __slots__ = ()

    def add(self, source: str, reason: str, body: str, now: datetime) -> None:
        values = {
            "source": legible(source),
            "reason": legible(reason),
            "body": legible(body),
            "recorded_at": now,
        }
        self._session.write(_bury, values)

    def newest(self, limit: int = 50) -> list[JsonMap]:
        """Newest first, as `letter` shapes them."""
        return [letter(*found) for found in self._session.read(_letters, {"limit": limit})]
