"""The tool `duckdb`: SQL over files and rows, inside of the worker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome
from noetl.net.model import Effects
from noetl.pipeline.model import Call, Later, Suspension
from noetl.tools.duckdb.attempt import DuckDbAttempt
from noetl.tools.duckdb.names import AllowedFiles, locate_files
from noetl.tools.duckdb.open import DatabaseSetup, DuckDbConfig
from noetl.tools.duckdb.outward import outward
from noetl.tools.duckdb.tables import open_tables
from noetl.tools.kit import effects
from noetl.tools.kit.base import Services
from noetl.tools.kit.declaration import ToolDeclaration
from noetl.tools.kit.large import scratch_folder
from noetl.tools.sql.calls import SqlCall, SqlTool
from noetl.tools.sql.config import NAMES, WORK, WrittenSql, all_texts, describe_file, describe_sql
from noetl.tools.sql.files import MEMORY, DatabaseBusy, FileLocks, LeaseWait, database_in_use, database_path
from noetl.tools.sql.reading import duckdb_reads, duckdb_stays_inside
from noetl.tools.sql.syntax import duckdb_fault

#: How long a call waits in the worker for a database that others have; then it waits outside, at
#: most so long a time.
PATIENCE_S = 1.0
_LONGEST_PAUSE_S = 15.0


class DuckDb(SqlTool):
    """Runs SQL over files and rows, inside of the worker, or writes [rows into a
    table](../tools.md#rows-into-a-table).

    `params` are those of [postgres](postgres.md). Names of files follow [the rule for
    files](../operations.md#files): `read_csv('data/*.csv')` and `COPY ... TO 'out.csv'` start at
    the playbook's directory. A name that exists is that file, and else a pattern. One that SQL
    computes reaches only what lies below the directory, or in `files`. `read_csv` is DuckDB's own:
    it guesses how a file is laid out unless its options say so, and may pass over lines that do not
    fit.

    References in `tables` are views of the objects: Parquet, CSV (as [transfer](transfer.md) reads
    it) and NDJSON are read where they lie, not copied. Rows of a SQL result (`{{ read.rows }}`, or
    the result) have there its `types`; those of other lists follow their values.

    DECIMAL and whole numbers keep their digits, in rows and in parameters; a parameter with more
    than 38 digits is refused. Rows that are written into a column of floats which makes another
    number of an exact one get a warning that names row and column. NaN and infinite numbers are
    null in rows, however many there are, with a warning that names the column; infinite dates and
    instants, and those that Python's years do not reach, are texts (`infinity`, `10000-01-01`) that
    can be written again. Columns that differ by case alone are refused in `tables`.

    A database file is opened for each call and closed after it. One task at a time uses it for
    writing, among all workers of a machine that share `NOETL_HOME`; tasks with `read_only: true`
    share it across processes. The others wait, up to their deadline: for a second in the worker,
    then outside of it, so that they hold none. The lease is a lock of the kernel: a worker that is
    killed holds nothing.

    `attach` opens a `postgres` credential, or an SQLite file (`database`, or a credential that has
    it), for reading unless `read_only` is false. It needs DuckDB's own extensions
    `postgres_scanner` and `sqlite_scanner` on the worker, in the version of its DuckDB, and nothing
    is downloaded while a task runs: the extra `attach` brings them with the DuckDB that they fit,
    as does `INSTALL postgres_scanner` in a DuckDB with a network. Without them the task fails and
    says so; [transfer](transfer.md) needs none."""

    declaration = ToolDeclaration(
        kind="duckdb",
        queue="duckdb",
        sections=("duckdb",),
        effects="external",
        description=(
            "Runs SQL in DuckDB over files and rows and yields {rows, row_count, columns, command_0, ...}."
        ),
        result="""
            As for [postgres](postgres.md#result); a query whose answer turns out large runs a second time,
            and DuckDB writes Parquet by itself.
        """,
        errors="They are of kind `sql`, `connection` or `timeout`; `outcome.duckdb` holds "
        "`{statement_index, statement}`.",
        example="""
            - step: totals
              tool:
                kind: duckdb
                tables: {sales: "{{ workload.sales }}"}
                params: {least: 10}
                command: >-
                  SELECT city, sum(amount) AS amount FROM sales
                  GROUP BY city HAVING sum(amount) >= :least
              next: end
            - step: end
              tool: {kind: noop, input: {rows: "{{ totals.rows }}"}}
        """,
        config_model=DuckDbConfig,
        written_model=WrittenSql,
        required=(WORK,),
        verbatim_with_params=NAMES,
        source_files=("script",),
        suspends=True,
        by_reference=("rows", "tables"),
        takes_rows=("tables",),
        credentials=("attach.*", "attach.*.auth"),
    )

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._files = FileLocks(services.scratch / "leases")

    def run(self, call: Call, config: DuckDbConfig) -> Outcome | Suspension:
        order = self.sql_call(call, config)
        waited_s = float((call.checkpoint or {}).get("waited_s", 0.0))
        ends = time.monotonic() + max(order.deadline_s - waited_s, 0.0)
        try:
            return self._run(order, config, ends)
        except DatabaseBusy as busy:
            pause_s = min(max(waited_s, PATIENCE_S), _LONGEST_PAUSE_S)
            waited_s += PATIENCE_S + pause_s
            if waited_s >= order.deadline_s:
                raise database_in_use(busy.path, busy.who) from None
            # A call that waits longer holds no worker.
            return Later(pause_s, {"waited_s": waited_s})

    def _run(self, order: SqlCall, config: DuckDbConfig, ends: float) -> Outcome:
        policy, grants = self.services.files_of(order.call), AllowedFiles()
        order = replace(
            order, bound=locate_files(order.bound, policy, grants, external=config.allow_external)
        )
        path = database_path(config.database, policy)
        with contextlib.ExitStack() as stack:
            stop = stack.enter_context(self.running.enter(order.call))
            patience = min(time.monotonic() + PATIENCE_S, ends)
            wait = LeaseWait(patience, config.read_only, stop.refuse_cancelled)
            stack.enter_context(self._files.hold(path, wait))
            tables = stack.enter_context(open_tables(config.tables, self.services.results))
            folder = Path(stack.enter_context(scratch_folder(order.bounds.shelf)))
            database = DatabaseSetup(path, config, self.services, tables, folder, policy, grants)
            connection = stack.enter_context(database.connect(wait))
            confine = partial(database.confine, connection) if config.allow_external else None
            attempt = DuckDbAttempt(connection, order, stop, folder, confine, outward(order.bound))
            with stop.watch(ends - time.monotonic(), connection.interrupt):
                try:
                    result = attempt.run()
                except ToolError as error:
                    raise stop.why(error, order.deadline_s) from error
        return order.outcome(result, duckdb={"statements": len(order.bound)})

    @classmethod
    def parse(cls, text: str, with_params: bool) -> tuple[int, str] | None:
        return duckdb_fault(text, with_params)

    @classmethod
    def only_asks(cls, text: str, with_params: bool) -> bool:
        return duckdb_reads(text, with_params)

    @classmethod
    def effects_of(cls, config: Mapping[str, Json]) -> Effects | None:
        # A database in memory goes with its call.
        is_closed = not config.get("attach") and not config.get("allow_external")
        if config.get("database", MEMORY) == MEMORY and is_closed and all_texts(config, duckdb_stays_inside):
            return "none"
        return super().effects_of(config)

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        database = effects.one_line(config.get("database") or MEMORY)
        place = "DuckDB in memory" if database == MEMORY else describe_file("DuckDB", database, config)
        files = [f"files below {effects.one_line(name)}" for name in effects.as_list(config.get("files"))]
        attached = config.get("attach")
        others = (
            [f"attached database {effects.one_line(name)}" for name in attached]
            if isinstance(attached, Mapping)
            else []
        )
        return (*describe_sql(config, place), *files, *others)
