"""Rows of a transfer into PostgreSQL: by COPY into a temporary table of texts, and from there by the target's types."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.pipeline.model import Call
from noetl.tools.postgres.errors import Faults
from noetl.tools.postgres.ledger import Ledger
from noetl.tools.postgres.write import described
from noetl.tools.sql.rows import Plan, plan, quoted
from noetl.tools.transfer.config import PostgresTarget
from noetl.tools.transfer.duckdb import last_of_each
from noetl.tools.transfer.load import Loader, Mark, Staged, create_table, insert_head, mark_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from psycopg2 import extensions

_CHUNK: Final = "noetl_chunk"
_JSON: Final = ("json", "jsonb")
#: Type of a table → of PostgreSQL; of all others JSON.
_TYPES: Final = {
    "BOOLEAN": "boolean",
    "TINYINT": "smallint",
    "UTINYINT": "smallint",
    "SMALLINT": "smallint",
    "USMALLINT": "integer",
    "INTEGER": "integer",
    "UINTEGER": "bigint",
    "BIGINT": "bigint",
    "UBIGINT": "numeric(20)",
    "FLOAT": "real",
    "DOUBLE": "double precision",
    "VARCHAR": "text",
    "DATE": "date",
    "TIME": "time",
    "TIMESTAMP": "timestamp",
    "TIMESTAMP WITH TIME ZONE": "timestamptz",
    "UUID": "uuid",
    "BLOB": "bytea",
    '"NULL"': "text",
}


class PostgresLoader(Loader):
    """Writes into a table over `connection`; `reader` reads what is written, and puts it into a file in `folder`."""

    def __init__(
        self,
        connection: extensions.connection,
        reader: DuckDBPyConnection,
        folder: Path,
        faults: Faults,
        call: Call,
        target: PostgresTarget,
        staged: Staged,
    ) -> None:
        super().__init__(call, target, staged)
        self._connection = connection
        self._cursor = connection.cursor()
        self._reader = reader
        self._path = folder / "chunk.csv"
        self._faults = faults
        self._ledger = Ledger(self._cursor, call, faults)
        self._plan: Plan | None = None

    def prepare(self) -> None:
        self._ledger.make()
        with self._faults.of(f"The table '{self.write.name}' cannot be prepared"):
            if self.target.create:
                self._cursor.execute(create_table(self, _type))
            known, others = described(self._cursor, self.write)
        self._plan = plan(self.write, known, fold=False, others=others)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._faults.of(f"The rows cannot be written to '{self.write.name}'"):
            self._connection.autocommit = False
            yield
            self._connection.commit()
            self._connection.autocommit = True

    def claim(self, mark: Mark) -> Mark | None:
        is_new, found = self._ledger.claim(mark.text())
        return None if is_new else mark_of(found)

    def empty(self) -> None:
        self._cursor.execute(f"DELETE FROM {self.write.target}")  # noqa: S608 - quoted

    def insert(self, first: int, end: int) -> None:
        assert self._plan is not None  # see `prepare`
        upsert = self.target.mode == "upsert"
        self._export(first, end, self._plan, last_of_each(self) if upsert else "")
        columns = ", ".join(f"c{index} text" for index in range(len(self.staged.names)))
        # Not `ON COMMIT DROP` alone: what is made again in the same transaction would meet the older one.
        self._cursor.execute(f"CREATE TEMP TABLE {_CHUNK} ({columns}) ON COMMIT DROP")
        with self._path.open("rb") as file:
            self._cursor.copy_expert(f"COPY {_CHUNK} FROM STDIN (FORMAT csv)", file)
        values = ", ".join(_value(index, kind) for index, kind in enumerate(self._plan.types))
        extra = self._plan.extra if upsert else ""
        self._cursor.execute(f"{insert_head(self._plan)} SELECT {values} FROM {_CHUNK}{extra}")  # noqa: S608

    def _export(self, first: int, end: int, planned: Plan, clause: str) -> None:
        """The chunk as CSV, in the text forms that PostgreSQL reads."""
        cells = ", ".join(
            _cell(quoted(column.name), column.type, kind)
            for column, kind in zip(self.staged.columns, planned.types, strict=True)
        )
        rows = f"SELECT {cells} FROM {self.staged.source(first, end)} {clause} ORDER BY file_row_number"  # noqa: S608
        path = "'" + str(self._path).replace("'", "''") + "'"
        self._reader.execute(f"COPY ({rows}) TO {path} (FORMAT csv, HEADER false, NULLSTR '')")

    def record(self, mark: Mark) -> None:
        self._ledger.record(mark.text())

    def interrupt(self) -> None:
        import psycopg2  # the driver takes 50 ms

        self._reader.interrupt()
        # A connection that is gone needs no cancelling.
        with contextlib.suppress(psycopg2.Error):
            self._connection.cancel()


def _cell(name: str, kind: str, wanted: str) -> str:
    """SQL of DuckDB for a value as text."""
    if kind == "BLOB":
        return f"'\\x' || lower(hex({name}))"
    is_json = wanted in _JSON or wanted.endswith("[]")
    if kind == "VARCHAR":
        # A text for a document is JSON already: SQLite and CSV have no other form of it.
        return name
    if kind == "JSON":
        return f"CAST({name} AS VARCHAR)" if is_json else f"({name} ->> '$')"
    return f"CAST(to_json({name}) AS VARCHAR)" if is_json else name


def _value(index: int, kind: str) -> str:
    """SQL of PostgreSQL for a value of the target's type."""
    if kind.endswith("[]"):
        return f"(SELECT r.x FROM json_to_record(json_build_object('x', c{index}::json)) AS r(x {kind}))"  # noqa: S608 - of the catalogue
    return f"c{index}::{kind}"


def _type(kind: str) -> str:
    if kind.startswith("DECIMAL"):
        return kind.replace("DECIMAL", "numeric")
    return _TYPES.get(kind, "jsonb")
