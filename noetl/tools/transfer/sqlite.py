"""Rows of a transfer into SQLite."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Final

from noetl.facts.values import json_safe
from noetl.pipeline.model import Call
from noetl.tools.duckdb.attempt import parse_json_columns
from noetl.tools.sql.rows import WritePlan, plan, quote
from noetl.tools.sqlite.files import LockWaits
from noetl.tools.sqlite.values import SqliteErrors, scalar
from noetl.tools.sqlite.write import describe_table
from noetl.tools.transfer.config import SqliteTarget
from noetl.tools.transfer.load import (
    LEDGER,
    MAKE_LEDGER,
    Loader,
    StagedTable,
    TransferMark,
    create_table,
    insert_head,
    mark_of,
)

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FETCH: Final = 5_000
_INT64: Final = 1 << 63


class SqliteLoader(Loader):
    """Writes into a table of the database of `connection`; `reader` reads what is written."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        reader: DuckDBPyConnection,
        waits: LockWaits,
        call: Call,
        target: SqliteTarget,
        staged: StagedTable,
    ) -> None:
        super().__init__(call, target, staged)
        self._connection = connection
        self._reader = reader
        self._waits = waits
        self._faults = SqliteErrors([], has_lines=False)
        self._plan: WritePlan | None = None

    def prepare(self) -> None:
        self._waits.set(self._connection)
        with self._faults.explain():
            self._connection.execute(MAKE_LEDGER)
            if self.target.create:
                self._connection.execute(create_table(self, _type))
            known, others = describe_table(self._connection, self.write)
        self._plan = plan(self.write, known, fold=True, others=others)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        self._waits.set(self._connection)
        with self._faults.explain():
            self._connection.execute("BEGIN IMMEDIATE")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                if self._connection.in_transaction:
                    self._connection.execute("ROLLBACK")
                raise

    def claim(self, mark: TransferMark) -> TransferMark | None:
        where, key = self.call.where, self.call.idempotency_key
        found = self._connection.execute(
            f"SELECT result FROM {LEDGER} WHERE idempotency_key = ?",  # noqa: S608
            (key,),
        ).fetchone()
        if found is not None:
            return mark_of(str(found[0]))
        self._connection.execute(
            f"INSERT INTO {LEDGER} "  # noqa: S608 - a constant
            "(idempotency_key, result, execution_id, step, task) VALUES (?, ?, ?, ?, ?)",
            (key, mark.text(), where.execution_id, where.step, self.call.task),
        )
        return None

    def empty(self) -> None:
        self._connection.execute(f"DELETE FROM {self.write.target}")  # noqa: S608 - quoted

    def insert(self, first: int, end: int) -> None:
        assert self._plan is not None  # see `prepare`
        marks = ", ".join("?" for _ in self._plan.names)
        extra = self._plan.extra if self.target.mode == "upsert" else ""
        self._connection.executemany(
            f"{insert_head(self._plan)} VALUES ({marks}){extra}", self._rows(first, end)
        )

    def _rows(self, first: int, end: int) -> Iterator[list[object]]:
        columns = ", ".join(quote(column.name) for column in self.staged.columns)
        types = [column.type for column in self.staged.columns]
        self._reader.execute(
            f"SELECT {columns} FROM {self.staged.source(first, end)} ORDER BY file_row_number"  # noqa: S608
        )
        while rows := self._reader.fetchmany(_FETCH):
            for row in parse_json_columns(rows, types):
                yield [_value(cell) for cell in row]

    def record(self, mark: TransferMark) -> None:
        self._connection.execute(
            f"UPDATE {LEDGER} SET result = ? WHERE idempotency_key = ?",  # noqa: S608
            (mark.text(), self.call.idempotency_key),
        )

    def interrupt(self) -> None:
        self._connection.interrupt()
        self._reader.interrupt()


def _value(cell: object) -> object:
    """A value as SQLite has it: exact numbers and long ones as text, which a column of numbers
    makes numbers again."""
    if isinstance(cell, Decimal) or (isinstance(cell, int) and not -_INT64 <= cell < _INT64):
        return str(cell)
    if isinstance(cell, bytes | bytearray | memoryview):
        return bytes(cell)
    return scalar(json_safe(cell))


def _type(kind: str) -> str:
    if kind.endswith("INT") or kind in ("INTEGER", "BOOLEAN"):
        return "INTEGER"
    if kind in ("FLOAT", "DOUBLE"):
        return "REAL"
    if kind.startswith("DECIMAL"):
        return "NUMERIC"
    return "BLOB" if kind == "BLOB" else "TEXT"
