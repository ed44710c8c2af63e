"""The tool `sqlite`: SQL on a database file, inside of the worker."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Mapping
from typing import ClassVar

from pydantic import BaseModel, Field

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, succeeded
from noetl.facts.values import unique_names
from noetl.pipeline.model import Call
from noetl.tools.kit.base import Services, Tool, ToolConfig
from noetl.tools.kit.calls import Running, Stop
from noetl.tools.kit.large import shelf_of
from noetl.tools.sql import effects as touching
from noetl.tools.sql.config import NAMES, WORK, SqlConfig, WrittenSql
from noetl.tools.sql.files import MEMORY, database_path
from noetl.tools.sql.rows import Write, write_of
from noetl.tools.sql.scripts import SqlScripts
from noetl.tools.sql.syntax import sqlite_fault
from noetl.tools.sql.text import Bound
from noetl.tools.sql.values import Answer, Bounds, Gathered, result_of
from noetl.tools.sqlite.files import Waits, opened
from noetl.tools.sqlite.values import Faults, bindable, first_word
from noetl.tools.sqlite.write import written

#: Seconds that a call may take where `spec.timeout` says nothing.
DEADLINE_S = 300.0
_FETCH = 5_000


class SqliteConfig(SqlConfig):
    """SQL, and the database file that it runs in."""

    database: str = Field(default=MEMORY, description="Database file; in memory for this task by default.")
    read_only: bool = Field(default=False, description="Open the file for reading only; it must be there.")
    busy_timeout: float = Field(
        default=30.0, ge=0, le=86_400, description="Seconds to wait for others that use the file."
    )


class Sqlite(Tool):
    """Runs SQL in an SQLite file, inside of the worker, or writes [rows into a table](../tools.md#rows-into-a-table).

    `params` are those of [postgres](postgres.md). The file is named by [the rule for files](../operations.md#files), from
    the playbook's directory on. It gets a write-ahead log: readers do not wait for the writer. Foreign keys are enforced. Lists and
    mappings are bound as JSON text. `ATTACH`, `VACUUM INTO`, extensions and settings of the whole process are refused, and
    so is the database that the engine itself keeps, wherever it lies.
    """

    kind = "sqlite"
    queue = "sqlite"
    sections = ("sqlite",)
    effects = "internal"
    description = "Runs SQL in an SQLite file and yields {rows, row_count, columns, command_0, ...}."
    result = "As for [postgres](postgres.md#result); `status` is the statement's first word."
    errors = """
        They are of kind `sql`, `connection` or `timeout`; `outcome.sqlite` holds `{code, statement_index, statement}`. A file
        that is in use for too long is a `connection` error and retryable.
    """
    example = """
        - step: count
          tool:
            kind: sqlite
            database: orders.db
            params: {city: "{{ workload.city }}"}
            command: SELECT count(*) AS n FROM orders WHERE city = :city
          next: end
        - step: end
          tool: {kind: noop, input: {n: "{{ count.rows[0].n }}"}}
    """
    config_model: ClassVar[type[ToolConfig]] = SqliteConfig
    written_model: ClassVar[type[BaseModel] | None] = WrittenSql
    required = (WORK,)
    verbatim_with_params = NAMES
    source_files = ("script",)
    by_reference = ("rows",)

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._scripts = SqlScripts(services)
        self._running = Running()

    def run(self, call: Call, config: SqliteConfig) -> Outcome:
        config = self._scripts.read(call, config, call.deadline_s or DEADLINE_S)
        deadline_s = call.deadline_s or DEADLINE_S
        write = write_of(config, self.services.results)
        path = database_path(config.database, self.services.files_of(call))
        waits = Waits(time.monotonic() + deadline_s, config.busy_timeout)
        with self._running.enter(call) as stop, opened(path, config.read_only, waits) as connection:
            bounds = Bounds(self.services.result_limit, set(), shelf_of(call, self.services))
            work = _Work(connection, config, bounds, waits, stop)
            with stop.watch(waits.left(), connection.interrupt):
                try:
                    result = work.run(write)
                except ToolError as error:
                    raise stop.why(error, deadline_s) from error
        warnings = sorted(work.notes) + (write.warnings() if write else [])
        meta: dict[str, Json] = {"warnings": warnings} if warnings else {}
        return succeeded(result, meta, sqlite={"statements": len(work.bound)})

    @classmethod
    def parse(cls, text: str, with_params: bool) -> tuple[int, str] | None:
        return sqlite_fault(text, with_params)

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        database = touching.one_line(config.get("database") or MEMORY)
        place = "SQLite in memory" if database == MEMORY else touching.file("SQLite", database, config)
        return touching.sql(config, place)

    def interrupt(self, call: Call) -> None:
        self._running.interrupt(call)

    def close(self) -> None:
        self._scripts.close()


class _Work:
    """What one call does, and what came of it."""

    def __init__(
        self, connection: sqlite3.Connection, config: SqliteConfig, bounds: Bounds, waits: Waits, stop: Stop
    ) -> None:
        self.bound = config.bound()
        self.notes = bounds.notes
        self._connection = connection
        self._waits = waits
        self._stop = stop
        self._transaction = config.transaction or config.table is not None
        self._faults = Faults(self.bound, config.is_one_text)
        self._bounds = bounds

    def run(self, write: Write | None) -> dict[str, Json]:
        if not self._transaction:
            return self._do(write)
        with self._faults.explained():
            self._patient().execute("BEGIN IMMEDIATE" if write else "BEGIN")
        # What is not committed goes with the connection.
        result = self._do(write)
        with self._faults.explained(len(self.bound) - 1):
            if self._connection.in_transaction:
                self._patient().execute("COMMIT")
        return result

    def _do(self, write: Write | None) -> dict[str, Json]:
        if write is not None:
            return written(self._connection, write, self._faults)
        return result_of([self._answer(index, bound) for index, bound in enumerate(self.bound)])

    def _answer(self, index: int, bound: Bound) -> Answer:
        with self._faults.explained(index):
            cursor = self._patient().execute(bound.dollar(), bindable(bound.values))
            names = unique_names(column[0] for column in cursor.description or ())
            if not names:
                return Answer([], [], max(cursor.rowcount, 0), first_word(bound))
            gathered = Gathered(self._faults.place(index), names, self._bounds)
            with contextlib.closing(gathered):
                while rows := cursor.fetchmany(_FETCH):
                    gathered.add(rows)
                    if self._stop.pulled:
                        raise ToolError("sql", "The statement was interrupted.", type="Interrupted")
                return gathered.answer(first_word(bound))

    def _patient(self) -> sqlite3.Connection:
        """The connection, which waits for others no longer than the call may take: an interrupt does not
        end such a wait."""
        if self._stop.pulled:
            raise ToolError("sql", "The statement was interrupted.", type="Interrupted")
        self._waits.set(self._connection)
        return self._connection
