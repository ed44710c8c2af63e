"""Which executions a condition means, where something is to be done to them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from noetl.usecases.fields import names
from noetl.usecases.ports import ENDED, Condition, ExecutionRow, Transaction
from noetl.usecases.ports.conditions import AllOf, Not, Present
from noetl.usecases.runtime import Runtime
from noetl.usecases.where import parse_where

#: Rows that are read at once.
PAGE: Final = 1_000
_BY_ITSELF: Final = Not(Present("parent"))


@dataclass(frozen=True, slots=True)
class Chosen:
    """Executions, oldest first, and how many the condition means besides that were run again
    already. `more`: there are further ones behind the limit."""

    rows: tuple[ExecutionRow, ...]
    retried: int
    more: bool

    @property
    def is_local(self) -> bool:
        """Whether all of them ran in processes of their own (`noetl run`), and none with a
        stack."""
        return bool(self.rows) and all(row.shard for row in self.rows)


def scan(tx: Transaction, where: Condition) -> Iterator[list[ExecutionRow]]:
    """Pages of those that the condition means, newest first. Not the imported ones, and those that
    others called only where it asks for `parent`: they stand and fall with their callers."""
    meant = where if names(where, "parent") else AllOf((where, _BY_ITSELF))
    before: str | None = None
    while rows := tx.executions.find(where=meant, before=before, limit=PAGE):
        yield [row for row in rows if row.imported_at is None]
        before = rows[-1].execution_id


def choose(tx: Transaction, where: Condition, limit: int) -> Chosen:
    """The newest that were not run again yet: for one that was, its retry stands."""
    rows: list[ExecutionRow] = []
    retried = 0
    for page in scan(tx, where):
        again = tx.executions.retries_of([row.execution_id for row in page])
        left = [row for row in page if row.execution_id not in again]
        retried += len(page) - len(left)
        rows += left
        if len(rows) > limit:
            break
    return Chosen(tuple(reversed(rows[:limit])), retried, len(rows) > limit)


def find_open(rt: Runtime, where: str) -> list[ExecutionRow]:
    """All of them that have not ended, oldest first. Raises BadRequest."""
    condition = parse_where(where, rt.clock())
    with rt.store.read() as tx:
        rows = [row for page in scan(tx, condition) for row in page if row.status not in ENDED]
    return rows[::-1]
