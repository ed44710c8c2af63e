"""Where the rows of a transfer go: tables of DuckDB, PostgreSQL and SQLite, and files."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from collections.abc import Iterator
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.atomic import replace_file
from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.values import json_safe, notes_of_columns
from noetl.pipeline.model import Call
from noetl.tools.duckdb import tables as duckdb_tables
from noetl.tools.duckdb.attempt import DuckDbErrors, parse_json_columns
from noetl.tools.duckdb.causes import cause_of
from noetl.tools.kit.large import PARQUET_OPTIONS
from noetl.tools.postgres.attempt import cancel
from noetl.tools.postgres.errors import PostgresErrors
from noetl.tools.postgres.write import WriteLedger, describe_table
from noetl.tools.sql.plan import WritePlan, plan
from noetl.tools.sql.rows import quote, quote_text
from noetl.tools.sqlite import driver as sqlite
from noetl.tools.transfer.config import TableTarget
from noetl.tools.transfer.load import FileLoader, Loader, StagedTable, TransferMark, mark_of
from noetl.tools.transfer.stage import format_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from psycopg2 import extensions

_CHUNK: Final = "noetl_chunk"
_FETCH: Final = 5_000
#: A type of exact numbers, and its digits; and how many a float has.
_DECIMAL: Final = re.compile(r"DECIMAL\(([0-9]+),[0-9]+\)")
_FLOAT_DIGITS: Final = 15
_JSON: Final = ("json", "jsonb")
_WHOLE: Final = ("smallint", "integer", "bigint")
#: Types of whole numbers, too, that are written with a point.
_FRACTIONAL: Final = re.compile(r"FLOAT|DOUBLE|DECIMAL\(.+\)")
#: Type of a table → of PostgreSQL; of all others JSON.
_POSTGRES_TYPES: Final = {
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
_FORMATS: Final = {"parquet": PARQUET_OPTIONS, "csv": "FORMAT csv, HEADER true", "ndjson": "FORMAT json"}


class DuckDbLoader(FileLoader):
    """Into DuckDB, which reads the rows where they are."""

    def explain(self) -> AbstractContextManager[None]:
        return DuckDbErrors().explain()

    def make_plan(self) -> WritePlan:
        return plan(self.write, *duckdb_tables.describe_table(self.connection, self.write), fold=True)

    def insert(self, first: int, end: int) -> None:
        rows = self.select(", ".join(quote(column.name) for column in self.staged.columns), first, end)
        self.execute(f"INSERT INTO {self.plan.into} {rows}{self.plan.extra}")

    def interrupt(self) -> None:
        self.connection.interrupt()

    def type_of(self, kind: str) -> str:
        return "VARCHAR" if kind == '"NULL"' else kind


class SqliteLoader(FileLoader):
    """Into SQLite; `reader` reads what is written."""

    begin = "BEGIN IMMEDIATE"

    def __init__(
        self,
        connection: sqlite3.Connection,
        reader: DuckDBPyConnection,
        waits: sqlite.LockWaits,
        call: Call,
        target: TableTarget,
        staged: StagedTable,
    ) -> None:
        super().__init__(connection, call, target, staged)
        self._reader = reader
        self._waits = waits

    def explain(self) -> AbstractContextManager[None]:
        self._waits.set(self.connection)
        return sqlite.SqliteErrors().explain()

    def make_plan(self) -> WritePlan:
        return plan(self.write, *sqlite.describe_table(self.connection, self.write), fold=True)

    def insert(self, first: int, end: int) -> None:
        self.connection.executemany(self.plan.insert_marks(), self._rows(first, end))

    def _rows(self, first: int, end: int) -> Iterator[list[object]]:
        columns = self.staged.columns
        self._reader.execute(self.select(", ".join(quote(column.name) for column in columns), first, end))
        types = [column.type for column in columns]
        notes: dict[str, set[str]] = {column.name: set() for column in columns}
        while rows := self._reader.fetchmany(_FETCH):
            for row in parse_json_columns(rows, types):
                cells = list(map(_sqlite_value, row, notes.values()))
                yield sqlite.storable_row(cells, self.plan, partial(int, first))
                first += 1
            self.notes |= notes_of_columns(notes)

    def interrupt(self) -> None:
        self.connection.interrupt()
        self._reader.interrupt()

    def type_of(self, kind: str) -> str:
        if kind.endswith("INT") or kind in ("INTEGER", "BOOLEAN"):
            return "INTEGER"
        if kind in ("FLOAT", "DOUBLE"):
            return "REAL"
        if (found := _DECIMAL.fullmatch(kind)) is not None:
            # A number of SQLite is a float, which has so many digits.
            return "NUMERIC" if int(found[1]) <= _FLOAT_DIGITS else "TEXT"
        return "BLOB" if kind == "BLOB" else "TEXT"


def _sqlite_value(cell: object, notes: set[str]) -> Json:
    """A value as SQLite has it."""
    return bytes(cell) if isinstance(cell, bytes | bytearray | memoryview) else json_safe(cell, notes)


class PostgresLoader(Loader):
    """Into PostgreSQL: by COPY into a temporary table of texts, and from there by the target's
    types. `reader` reads what is written, and puts it into a file in `folder`."""

    def __init__(
        self,
        connection: extensions.connection,
        reader: DuckDBPyConnection,
        folder: Path,
        faults: PostgresErrors,
        call: Call,
        target: TableTarget,
        staged: StagedTable,
    ) -> None:
        super().__init__(call, target, staged)
        self._connection = connection
        self._cursor = connection.cursor()
        self._reader = reader
        self._path = folder / "chunk.csv"
        self._faults = faults
        self._ledger = WriteLedger(self._cursor, call, faults)

    def prepare(self) -> None:
        self._ledger.make()
        with self._faults.explain(f"The table '{self.write.name}' cannot be prepared"):
            self.create_table()
            known, others = describe_table(self._cursor, self.write)
        self.plan = plan(self.write, known, others, fold=False)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self._faults.explain(f"The rows cannot be written to '{self.write.name}'"):
            self._connection.autocommit = False
            # A text such as 05/01/2024 is refused, and not taken for a day of May or of January.
            self.execute("SET LOCAL datestyle = 'ISO, YMD'")
            yield
            self._connection.commit()
            self._connection.autocommit = True

    def claim(self, mark: TransferMark) -> TransferMark | None:
        is_new, found = self._ledger.claim(mark.text())
        return None if is_new else mark_of(found)

    def execute(self, statement: str) -> None:
        self._cursor.execute(statement)

    def insert(self, first: int, end: int) -> None:
        types = self.plan.types
        cells = ", ".join(
            _cell(quote(column.name), column.type, kind)
            for column, kind in zip(self.staged.columns, types, strict=True)
        )
        rows = self.select(cells, first, end)
        options = "FORMAT csv, HEADER false, NULLSTR ''"
        self._reader.execute(f"COPY ({rows}) TO {quote_text(self._path)} ({options})")
        columns = ", ".join(f"c{index} text" for index in range(len(types)))
        # One table for each transaction.
        self.execute(f"CREATE TEMP TABLE {_CHUNK} ({columns}) ON COMMIT DROP")
        with self._path.open("rb") as file:
            self._cursor.copy_expert(f"COPY {_CHUNK} FROM STDIN (FORMAT csv)", file)
        values = ", ".join(_value(index, kind) for index, kind in enumerate(types))
        into, extra = self.plan.into, self.plan.extra
        self.execute(f"INSERT INTO {into} SELECT {values} FROM {_CHUNK}{extra}")  # noqa: S608 - quoted

    def record(self, mark: TransferMark) -> None:
        self._ledger.record(mark.text())

    def interrupt(self) -> None:
        self._reader.interrupt()
        cancel(self._connection)

    def type_of(self, kind: str) -> str:
        if kind.startswith("DECIMAL"):
            return kind.replace("DECIMAL", "numeric")
        return _POSTGRES_TYPES.get(kind, "jsonb")


def _cell(name: str, kind: str, wanted: str) -> str:
    """SQL of DuckDB for a value in the text form that PostgreSQL reads."""
    if kind == "BLOB":
        return f"'\\x' || lower(hex({name}))"
    if wanted in _WHOLE and _FRACTIONAL.fullmatch(kind):
        # With a point it would not be read as an integer.
        return f"coalesce(CAST(TRY_CAST({name} AS HUGEINT) AS VARCHAR), CAST({name} AS VARCHAR))"
    is_json = wanted in _JSON or wanted.endswith("[]")
    if kind == "VARCHAR":
        # A text for a document is JSON already: SQLite and CSV have no other form of it.
        return name
    if kind == "JSON":
        whole = f"CAST({name} AS VARCHAR)"
        # To DuckDB a number that is taken out of JSON is a float.
        text = f"CASE WHEN json_type({name}) IN ('VARCHAR', 'NULL') THEN {name} ->> '$' ELSE {whole} END"
        return whole if is_json else text
    return f"CAST(to_json({name}) AS VARCHAR)" if is_json else name


def _value(index: int, kind: str) -> str:
    """SQL of PostgreSQL for a value of the target's type."""
    if kind.endswith("[]"):
        return f"(SELECT r.x FROM json_to_record(json_build_object('x', c{index}::json)) AS r(x {kind}))"  # noqa: S608 - of the catalogue
    return f"c{index}::{kind}"


def write_file(reader: DuckDBPyConnection, staged: StagedTable, path: Path, form: str | None) -> None:
    """Writes the rows to a file, which is there as a whole or not at all. Raises ToolError."""
    import duckdb  # the driver takes 90 ms

    options = _FORMATS.get(format_of(path, form, "target"))
    if options is None:
        raise ToolError(
            "client_error",
            "A transfer writes parquet, csv or ndjson; name the file so.",
            type="UnknownFormat",
        )
    columns = ", ".join(
        f"{quote(column.name)} AS {quote(name)}"
        for column, name in zip(staged.columns, staged.names, strict=True)
    )
    rows = f"SELECT {columns} FROM {staged.source(0, staged.rows)} ORDER BY file_row_number"  # noqa: S608 - quoted
    try:
        with replace_file(path) as draft:
            reader.execute(f"COPY ({rows}) TO {quote_text(draft)} ({options})")
    except (duckdb.Error, OSError) as error:
        raise ToolError(
            "sql", f"The file {path} cannot be written: {cause_of(error)}", type=type(error).__name__
        ) from error
