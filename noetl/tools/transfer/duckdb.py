"""Rows of a transfer into DuckDB, which reads them where they are."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

from noetl.errors import ToolError
from noetl.pipeline.model import Call
from noetl.tools.duckdb.open import first_line
from noetl.tools.sql.rows import WritePlan, plan, quote
from noetl.tools.transfer.config import DuckDbTarget
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


class DuckDbLoader(Loader):
    """Writes into a table of the database of `connection`."""

    def __init__(
        self, connection: DuckDBPyConnection, call: Call, target: DuckDbTarget, staged: StagedTable
    ) -> None:
        super().__init__(call, target, staged)
        self._connection = connection
        self._plan: WritePlan | None = None

    def prepare(self) -> None:
        with self._explain_errors("The table cannot be prepared"):
            self._connection.execute(MAKE_LEDGER)
            if self.target.create:
                self._connection.execute(create_table(self, _type))
            self._plan = plan(self.write, self._known_types(), fold=True, others=self._others())

    def _known_types(self) -> dict[str, str]:
        import duckdb  # the driver takes 90 ms

        try:
            described = self._connection.execute(f"DESCRIBE {self.write.target}").fetchall()
        except duckdb.CatalogException:
            return {}
        return {str(row[0]): str(row[1]) for row in described}

    def _others(self) -> list[str]:
        return [
            str(row[0])
            for row in self._connection.execute("SELECT table_name FROM duckdb_tables()").fetchall()
        ]

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._explain_errors("The rows cannot be written"):
            self._connection.execute("BEGIN")
            try:
                yield
                self._connection.execute("COMMIT")
            except BaseException:
                # An error may have ended it already, and what interrupts the call ends the
                # connection.
                with contextlib.suppress(Exception):
                    self._connection.execute("ROLLBACK")
                raise

    def claim(self, mark: TransferMark) -> TransferMark | None:
        where, key = self.call.where, self.call.idempotency_key
        found = self._connection.execute(
            f"SELECT result FROM {LEDGER} WHERE idempotency_key = ?",  # noqa: S608
            [key],
        ).fetchone()
        if found is not None:
            return mark_of(str(found[0]))
        self._connection.execute(
            f"INSERT INTO {LEDGER} "  # noqa: S608 - a constant
            "(idempotency_key, result, execution_id, step, task) VALUES (?, ?, ?, ?, ?)",
            [key, mark.text(), where.execution_id, where.step, self.call.task],
        )
        return None

    def empty(self) -> None:
        self._connection.execute(f"DELETE FROM {self.write.target}")  # noqa: S608 - quoted

    def insert(self, first: int, end: int) -> None:
        assert self._plan is not None  # see `prepare`
        columns = ", ".join(quote(column.name) for column in self.staged.columns)
        rows = self.staged.source(first, end)
        last = f" {last_of_each(self)}" if self.target.keys and self.target.mode == "upsert" else ""
        extra = self._plan.extra if self.target.mode == "upsert" else ""
        self._connection.execute(
            f"{insert_head(self._plan)} SELECT {columns} FROM {rows}{last} ORDER BY file_row_number{extra}"  # noqa: S608
        )

    def record(self, mark: TransferMark) -> None:
        self._connection.execute(
            f"UPDATE {LEDGER} SET result = ? WHERE idempotency_key = ?",  # noqa: S608
            [mark.text(), self.call.idempotency_key],
        )

    def interrupt(self) -> None:
        self._connection.interrupt()

    @contextlib.contextmanager
    def _explain_errors(self, what: str) -> Iterator[None]:
        import duckdb  # the driver takes 90 ms

        try:
            yield
        except duckdb.Error as error:
            raise ToolError("sql", f"{what}: {first_line(error)}", type=type(error).__name__) from error


def last_of_each(loader: Loader) -> str:
    """A clause that keeps the last row of each key: a statement must not change a row twice."""
    sources = dict(zip(loader.staged.names, loader.staged.columns, strict=True))
    key = ", ".join(quote(sources[name].name) for name in loader.target.keys)
    return f"QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY file_row_number DESC) = 1"


def _type(kind: str) -> str:
    return "VARCHAR" if kind == '"NULL"' else kind
