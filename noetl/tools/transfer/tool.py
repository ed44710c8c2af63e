"""The tool `transfer`: rows from one place to another, in chunks that arrive once."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.facts.reference import Column
from noetl.net.model import Spelling
from noetl.pipeline.model import Call, Later, Suspension
from noetl.tools.duckdb.names import AllowedFiles
from noetl.tools.duckdb.open import DatabaseSetup, DuckDbConfig, open_scratch_database
from noetl.tools.duckdb.tables import InputTables, TableFile
from noetl.tools.duckdb.tool import PATIENCE_S, DuckDb
from noetl.tools.http.tool import Http
from noetl.tools.kit import effects
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.calls import RunningCalls
from noetl.tools.kit.declaration import ToolDeclaration
from noetl.tools.kit.large import PARQUET, scratch_folder, shelf_of
from noetl.tools.postgres.tool import Postgres
from noetl.tools.sql.files import DatabaseBusy, FileLocks, LeaseWait, database_in_use, database_path
from noetl.tools.sqlite.driver import LockWaits, connect
from noetl.tools.sqlite.tool import Sqlite
from noetl.tools.transfer.config import (
    FileTarget,
    PostgresTarget,
    ResultTarget,
    TableTarget,
    Target,
    TransferConfig,
)
from noetl.tools.transfer.load import Loader, StagedTable, TransferMark, choose_columns
from noetl.tools.transfer.rounding import refuse_cut_numbers, rounded_numbers
from noetl.tools.transfer.stage import SourceReader, StagedRows, TransferDeadline
from noetl.tools.transfer.targets import DuckDbLoader, PostgresLoader, SqliteLoader, write_file

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_BUSY_S = 30.0
_PAUSE_S = 1.0


class Transfer(Tool):
    """Moves rows from one place to another: exactly once, in bounded memory, however many there
    are.

    `source` has a `kind`, and with it:

    - `postgres`: `auth` (a credential, or its fields), and `query` or `table`;
    - `duckdb`, `sqlite`: `database`, and `query` or `table`;
    - `http`: `url`, `path` to the rows in the answer (`data.items`), `headers`, `auth`;
    - `file`: `file` by [the rule for files](../operations.md#files): Parquet, CSV, NDJSON or
      JSON, by its name or by `format`;
    - `result`: `ref`: a reference, a SQL task's result, or a list of mappings.

    So has `target`:

    - `postgres`: `auth`, `table`, `mode`, `key`, `create`;
    - `duckdb`, `sqlite`: `database`, `table`, `mode`, `key`, `create`;
    - `file`: `file`, `format`: Parquet, CSV or NDJSON; it takes the place of an older
      file when all of it is there;
    - `result`: nothing else: the result has `ref`, a reference to the rows.

    CSV is read as RFC 4180 has it. The first line says what separates fields (`,`, `;`, tab or
    `|`) and how many each line has; `"` alone quotes, and nothing is a comment. A line with more or
    fewer fields, and a value that does not fit its column (by the first 20,480 lines), fail the
    task with line, column and value; `on_bad_line: skip` leaves such lines out, with a warning.
    Numbers that a float would round are exact, or texts. Dates are those that begin with the year;
    others (`05/01/2024`) stay texts, as nobody knows which is the month, and no column of dates
    takes them: `strptime` of DuckDB makes dates of them. Rows of JSON and NDJSON come as they
    stand there: texts stay texts. A name that exists is that file, whatever pattern it makes.

    `mode` is `append` (default), `replace` (all other rows go, with the first chunk) or `upsert`
    (by `key`, the columns of a unique constraint; of rows with one key the last counts). `create:
    true` makes the table where it is missing, with `key` unique.

    The rows of the source first become a table of the result store, from one snapshot. It goes into
    the target in chunks, each in one transaction together with an entry in the target's table
    `noetl_ledger`. A transfer that is cut off, by an error, a deadline or `kill -9`, goes on behind
    its last chunk with the same rows; one that is made again under the same idempotency key does
    nothing. Others see the chunks as they are committed.

    An empty list is no rows, of which nobody knows the columns: `append` and `upsert` leave the
    table as it is, `replace` empties it, and `create` does not make it, with a warning.

    Exact numbers keep their digits, instants their instant (UTC), documents that differ in
    their shape stay what they are. A NaN that neither a type nor JSON has becomes null, with a
    warning that names the column. What a target does not have becomes what is nearest: in
    SQLite booleans are 0 and 1, times, identifiers, documents and exact numbers with more than
    15 digits texts; a column of floats that makes another number of an exact one is a warning
    with its row, as is one that rounds a float; an exact number with more digits behind the
    point than its column has fails the task before a row is written; in PostgreSQL lists and
    structures are `jsonb`, or arrays where the column is one; from SQLite a column with values
    of several types is JSON. From PostgreSQL a document that is `null` stays one, and does not
    become NULL, unless the query yields arrays, intervals or a `numeric` with NaN or more than
    38 digits as well."""

    declaration = ToolDeclaration(
        kind="transfer",
        queue="transfer",
        sections=("duckdb", "pg", "sqlite"),
        effects="external",
        description="Moves rows between databases, files, HTTP services and results and yields {rows, "
        "chunks, bytes, columns}.",
        result="""
            `{rows, row_count, chunks, bytes, columns, source, target}`; `bytes` is the size of the table in
            the store. With the target `result` also `ref`.
        """,
        errors="Those of the source and of the target, as of [postgres](postgres.md#errors) and the others.",
        example="""
            - step: copy
              tool:
                kind: transfer
                source: {kind: result, ref: "{{ workload.rows }}"}
                target:
                  kind: duckdb
                  database: warehouse.duckdb
                  table: readings
                  mode: upsert
                  key: [station, day]
                  create: true
              next: end
            - step: end
              tool: {kind: noop, input: {rows: "{{ copy.rows }}"}}
        """,
        config_model=TransferConfig,
        spellings={
            "source/type": Spelling("source/kind"),
            "target/type": Spelling("target/kind"),
            "source/credential": Spelling("source/auth"),
            "target/credential": Spelling("target/auth"),
            "mapping": Spelling("columns"),
            "target/mapping": Spelling("columns"),
            "chunk_size": Spelling("chunk_rows"),
        },
        required=(("source",), ("target",)),
        suspends=True,
        by_reference=("source",),
        takes_rows=("source",),
        credentials=("source.auth", "target.auth"),
    )

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        source, target = config.get("source"), config.get("target")
        return f"reads {_describe_end(source)}", f"writes {_describe_end(target)}"

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._running = RunningCalls()
        self._files = FileLocks(services.scratch / "leases")
        self._stage = SourceReader(
            services, Postgres(services), DuckDb(services), Sqlite(services), Http(services)
        )

    def run(self, call: Call, config: TransferConfig) -> Outcome | Suspension:
        if self.services.results is None:
            raise ToolError("client_error", "A transfer needs a result store, and this process has none.")
        checkpoint: JsonMap = call.checkpoint or {}
        with self._running.enter(call) as stop:
            deadline = TransferDeadline(self.deadline(call), stop)
            known: str | None = checkpoint.get("staged")
            if known:
                came: StagedRows | Later = StagedRows(
                    json.loads(known), tuple(checkpoint.get("warnings", ())), bool(checkpoint.get("nothing"))
                )
            else:
                inner = replace(call, checkpoint=checkpoint.get("source"))
                came = self._stage.table(inner, config.source, deadline)
            if isinstance(came, Later):
                return Later(came.seconds, {"source": came.checkpoint})
            # As text: references in what a tool is handed are opened.
            again: JsonMap = {
                "staged": json.dumps(came.reference),
                "warnings": list(came.warnings),
                **({"nothing": True} if came.is_nothing else {}),
            }
            if known is None and _rows(came.reference) > config.chunk_rows:
                # What is read is in the log before the first of several chunks is written.
                return Later(0.0, again)
            try:
                return self._write(call, config, came, deadline)
            except DatabaseBusy as busy:
                if deadline.remaining() <= PATIENCE_S:
                    raise database_in_use(busy.path, busy.who) from None
                return Later(_PAUSE_S, again)

    def interrupt(self, call: Call) -> None:
        self._running.interrupt(call)

    def close(self) -> None:
        self._stage.close()

    def _write(
        self, call: Call, config: TransferConfig, came: StagedRows, deadline: TransferDeadline
    ) -> Outcome:
        results, reference, notes = self.services.results, came.reference, set(came.warnings)
        assert results is not None  # see `run`
        with contextlib.ExitStack() as stack:
            folder = Path(stack.enter_context(scratch_folder(shelf_of(call, self.services))))
            path = stack.enter_context(results.file(reference)).resolve()
            reader = stack.enter_context(open_scratch_database(folder))
            staged = _describe(reader, path, came, config)
            done = TransferMark(staged.sha256, staged.rows, staged.rows, 1)
            match config.target:
                case FileTarget() as target:
                    path = self.services.files_of(call).target(target.file, "`target.file`")
                    with deadline.watch(reader.interrupt):
                        write_file(reader, staged, path, target.format)
                case ResultTarget():
                    pass
                case target if came.is_nothing and target.create and target.mode != "replace":
                    pass  # there are no columns to make the table with
                case target:
                    loader = stack.enter_context(self._loader(call, target, staged, reader, folder, deadline))
                    check = partial(refuse_cut_numbers, reader, staged)
                    done = loader.load(config.chunk_rows, deadline, check)
                    notes |= loader.notes | rounded_numbers(reader, staged, loader.plan)
        if came.is_nothing and (left := _left_without_columns(config.target)):
            notes.add(f"No rows came, and nothing says which columns they would have: {left}.")
        result: dict[str, Json] = {
            "rows": done.total,
            "row_count": done.total,
            "chunks": done.chunks,
            "bytes": reference["meta"]["bytes"],
            "columns": list(staged.names),
            "source": config.source.kind,
            "target": config.target.kind,
        }
        if isinstance(config.target, ResultTarget):
            result["ref"] = reference
        return succeeded(result, {"warnings": sorted(notes)} if notes else {})

    @contextlib.contextmanager
    def _loader(
        self,
        call: Call,
        target: TableTarget,
        staged: StagedTable,
        reader: DuckDBPyConnection,
        folder: Path,
        deadline: TransferDeadline,
    ) -> Iterator[Loader]:
        if isinstance(target, PostgresTarget):
            with self._stage.postgres.lend(target.auth, deadline.remaining()) as (connection, faults):
                yield PostgresLoader(connection, reader, folder, faults, call, target, staged)
            return
        policy = self.services.files_of(call)
        path = database_path(target.database, policy)
        if target.kind == "sqlite":
            waits = LockWaits(time.monotonic() + deadline.remaining(), _BUSY_S)
            with connect(path, False, waits) as opened:
                yield SqliteLoader(opened, reader, waits, call, target, staged)
            return
        wait = LeaseWait(time.monotonic() + PATIENCE_S, False, deadline.stop.refuse_cancelled)
        tables = InputTables({}, {"noetl_staged": TableFile(staged.path, PARQUET)})
        database = DatabaseSetup(
            path, DuckDbConfig(query="-"), self.services, tables, folder, policy, AllowedFiles()
        )
        with self._files.hold(path, wait), database.connect(wait) as duckdb:
            yield DuckDbLoader(duckdb, call, target, staged)


def _describe_end(end: Json) -> str:
    """One end of a transfer for `noetl plan`, before it is checked: its kind, place and table."""
    if not isinstance(end, Mapping):
        return effects.one_line(end)
    place = effects.credential(end.get("auth")) or effects.first(end, "database", "url", "file")
    table = f", table {effects.one_line(end['table'])}" if end.get("table") is not None else ""
    named = effects.address(place) if place is not None else ""
    return " ".join(filter(None, (effects.one_line(end.get("kind")), named))) + table


def _left_without_columns(target: Target) -> str:
    """What becomes of a target that needs columns; empty where it has its own."""
    match target:
        case FileTarget() | ResultTarget():
            return "what was written has a column `value` in their place"
        case _:
            return "the table is not made where it is missing" if target.create else ""


def _rows(reference: JsonMap) -> int:
    return int(reference["meta"]["rows"])


def _describe(
    reader: DuckDBPyConnection, path: Path, came: StagedRows, config: TransferConfig
) -> StagedTable:
    sha256 = str(came.reference["meta"]["sha256"])
    if came.is_nothing and isinstance(config.target, TableTarget):
        return StagedTable(path, sha256, 0, (), ())
    described = reader.execute("DESCRIBE SELECT * FROM read_parquet(?)", [str(path)]).fetchall()
    columns, names = choose_columns([Column(str(row[0]), str(row[1])) for row in described], config.columns)
    return StagedTable(path, sha256, _rows(came.reference), columns, names)
