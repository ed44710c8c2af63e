"""The tool `sqlite`: SQL on a database file, inside of the worker."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Mapping

from pydantic import Field

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome
from noetl.facts.values import unique_names
from noetl.net.model import Effects
from noetl.pipeline.model import Call
from noetl.tools.kit import effects
from noetl.tools.kit.calls import StopSignal
from noetl.tools.kit.declaration import DurationOrZero, ToolDeclaration
from noetl.tools.sql.calls import (
    RowCollector,
    SqlCall,
    SqlTool,
    StatementResult,
    refuse_interrupted,
    result_of,
)
from noetl.tools.sql.config import NAMES, WORK, SqlConfig, WrittenSql, describe_file, describe_sql
from noetl.tools.sql.files import MEMORY, database_path
from noetl.tools.sql.reading import sqlite_reads
from noetl.tools.sql.syntax import sqlite_fault
from noetl.tools.sql.text import BoundStatement
from noetl.tools.sqlite.driver import LockWaits, SqliteErrors, bindable, connect, write_rows

_FETCH = 5_000


class SqliteConfig(SqlConfig):
    """SQL, and the database file that it runs in."""

    database: str = Field(default=MEMORY, description="Database file; in memory for this task by default.")
    read_only: bool = Field(default=False, description="Open the file for reading only; it must be there.")
    busy_timeout: DurationOrZero = Field(
        default=30.0, le=86_400, description="How long to wait for others that use the file."
    )


class Sqlite(SqlTool):
    """Runs SQL in an SQLite file, inside of the worker, or writes [rows into a
    table](../tools.md#rows-into-a-table).

    `params` are those of [postgres](postgres.md). The file is named by [the rule for
    files](../operations.md#files), from the playbook's directory on. It gets a write-ahead log:
    readers do not wait for the writer. Foreign keys are enforced. Lists and mappings are bound as
    JSON text. Exact numbers that no float is go into columns of text with all digits; a column of
    numbers, which would make another number of one, is an error that names the row. `ATTACH`,
    `VACUUM INTO`, extensions and settings of the whole process are refused, and so is the database
    that the engine itself keeps, wherever it lies."""

    declaration = ToolDeclaration(
        kind="sqlite",
        queue="sqlite",
        sections=("sqlite",),
        effects="external",
        description="Runs SQL in an SQLite file and yields {rows, row_count, columns, command_0, ...}.",
        result="As for [postgres](postgres.md#result); `status` is the statement's first word.",
        errors="""
            They are of kind `sql`, `connection` or `timeout`; `outcome.sqlite` holds `{code, statement_index,
            statement}`. A file that is in use for too long is a `connection` error and retryable.
        """,
        example="""
            - step: count
              tool:
                kind: sqlite
                database: orders.db
                params: {city: "{{ workload.city }}"}
                command: SELECT count(*) AS n FROM orders WHERE city = :city
              next: end
            - step: end
              tool: {kind: noop, input: {n: "{{ count.rows[0].n }}"}}
        """,
        config_model=SqliteConfig,
        written_model=WrittenSql,
        required=(WORK,),
        verbatim_with_params=NAMES,
        source_files=("script",),
        by_reference=("rows",),
    )

    def run(self, call: Call, config: SqliteConfig) -> Outcome:
        order = self.sql_call(call, config)
        path = database_path(config.database, self.services.files_of(call))
        waits = LockWaits(time.monotonic() + order.deadline_s, config.busy_timeout)
        with self.running.enter(call) as stop, connect(path, config.read_only, waits) as connection:
            run = _Run(connection, order, waits, stop)
            with stop.watch(waits.remaining(), connection.interrupt):
                try:
                    result = run.run()
                except ToolError as error:
                    raise stop.why(error, order.deadline_s) from error
        return order.outcome(result, sqlite={"statements": len(order.bound)})

    @classmethod
    def parse(cls, text: str, with_params: bool) -> tuple[int, str] | None:
        return sqlite_fault(text, with_params)

    @classmethod
    def only_asks(cls, text: str, with_params: bool) -> bool:
        return sqlite_reads(text, with_params)

    @classmethod
    def effects_of(cls, config: Mapping[str, Json]) -> Effects | None:
        # A database in memory goes with its call, and nothing reaches out of a file.
        if config.get("database", MEMORY) == MEMORY or config.get("read_only") is True:
            return "none"
        return super().effects_of(config)

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        database = effects.one_line(config.get("database") or MEMORY)
        place = "SQLite in memory" if database == MEMORY else describe_file("SQLite", database, config)
        return describe_sql(config, place)


class _Run:
    """One call on its connection."""

    def __init__(
        self, connection: sqlite3.Connection, order: SqlCall, waits: LockWaits, stop: StopSignal
    ) -> None:
        self._connection = connection
        self._order = order
        self._waits = waits
        self._stop = stop
        self._errors = SqliteErrors(order.bound, order.has_lines)

    def run(self) -> dict[str, Json]:
        """The result. Raises ToolError; what is not committed by then goes with the connection."""
        if not self._order.transaction:
            return self._do()
        with self._errors.explain():
            self._execute("BEGIN IMMEDIATE" if self._order.write else "BEGIN")
        result = self._do()
        with self._errors.explain(self._order.last):
            if self._connection.in_transaction:
                self._execute("COMMIT")
        return result

    def _do(self) -> dict[str, Json]:
        if self._order.write is None:
            return result_of([self._answer(*each) for each in enumerate(self._order.bound)])
        with self._errors.explain():
            return write_rows(self._connection, self._order.write)

    def _answer(self, index: int, bound: BoundStatement) -> StatementResult:
        status = bound.statement.words[0].upper() if bound.statement.words else ""
        with self._errors.explain(index):
            values = {name: bindable(value) for name, value in bound.values.items()}
            cursor = self._execute(bound.dollar(), values)
            names = unique_names(column[0] for column in cursor.description or ())
            if not names:
                return StatementResult([], [], max(cursor.rowcount, 0), status)
            rows = RowCollector(self._errors.place(index), names, self._order.bounds)
            with contextlib.closing(rows):
                while block := cursor.fetchmany(_FETCH):
                    rows.add(block)
                    refuse_interrupted(self._stop)
                return rows.answer(status)

    def _execute(self, sql: str, values: Mapping[str, object] | None = None) -> sqlite3.Cursor:
        """Waits for others no longer than the call may take: an interrupt does not end such a
        wait."""
        refuse_interrupted(self._stop)
        self._waits.set(self._connection)
        return self._connection.execute(sql, values or {})
