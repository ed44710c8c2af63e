"""The first half of a transfer: the rows of a source become a table of the result store.

From there on they do not change, whatever the source does: so they can be counted, and a crash does
not change them."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias, assert_never

from noetl.errors import ToolError
from noetl.facts.durations import compact
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome
from noetl.facts.reference import is_reference
from noetl.pipeline.model import Call, Later
from noetl.tools.duckdb.open import DuckDbConfig, open_scratch_database
from noetl.tools.duckdb.tool import DuckDb
from noetl.tools.http.request import HttpConfig
from noetl.tools.http.tool import Http
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.calls import StopSignal
from noetl.tools.kit.columns import names_alike
from noetl.tools.kit.declaration import ToolConfig
from noetl.tools.kit.large import NEVER_INLINE, PARQUET, RowSpool, TableStore, scratch_folder, shelf_of
from noetl.tools.postgres.tool import Postgres, PostgresConfig
from noetl.tools.sql.calls import refuse_interrupted, refuse_too_large
from noetl.tools.sql.rows import quote_table
from noetl.tools.sqlite.tool import Sqlite, SqliteConfig
from noetl.tools.transfer.config import (
    DuckDbSource,
    FileSource,
    HttpSource,
    PostgresSource,
    ResultSource,
    Source,
    SqliteSource,
)
from noetl.tools.transfer.file_rows import json_rows, write_csv_as_parquet

#: End of a file's name → what the file is.
FORMATS: Final[Mapping[str, str]] = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".ndjson": "ndjson",
    ".jsonl": "ndjson",
    ".json": "json",
}
#: Keys of a source that only CSV has.
_OF_CSV: Final = {"encoding", "on_bad_line"}
#: Stands in a table of which nothing is known, as one has to have a column.
_NO_COLUMN: Final = "value"
#: The call of another tool that yields the rows, and its configuration.
_Work: TypeAlias = tuple[Tool, ToolConfig]


class TransferDeadline:
    """What is left of the time of a call."""

    def __init__(self, seconds: float, stop: StopSignal) -> None:
        self.stop = stop
        self._seconds = seconds
        self._ends = time.monotonic() + seconds

    def remaining(self) -> float:
        return max(self._ends - time.monotonic(), 0.001)

    @contextlib.contextmanager
    def watch(self, interrupt: Callable[[], None]) -> Iterator[None]:
        """Ends the block at the deadline and at a cancellation. Raises ToolError(timeout |
        cancelled)."""
        with self.stop.watch(self.remaining(), interrupt):
            try:
                yield
            except ToolError as error:
                self.stop.refuse_cancelled()
                raise self._late() if self.stop.late else error from error
            if self.stop.late:
                raise self._late()

    def _late(self) -> ToolError:
        return ToolError(
            "timeout",
            f"The transfer did not end within {compact(self._seconds)}; it resumes behind its last chunk "
            "when it is tried again. Raise `spec.timeout`.",
            retryable=True,
            type="Interrupted",
        )


@dataclass(frozen=True, slots=True)
class StagedRows:
    """The reference to a table with the rows of a source, and what was left out of them. With
    `is_nothing` there were no rows, and nothing said which columns they would have had."""

    reference: JsonMap
    warnings: tuple[str, ...] = ()
    is_nothing: bool = False


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Turns sources into tables, with the tools that read them."""

    services: Services
    postgres: Postgres
    duckdb: DuckDb
    sqlite: Sqlite
    http: Http

    def close(self) -> None:
        for tool in (self.postgres, self.duckdb, self.sqlite, self.http):
            tool.close()

    def table(self, call: Call, source: Source, deadline: TransferDeadline) -> StagedRows | Later:
        """The rows as a Parquet table; Later where a database is in use. Raises ToolError."""
        if isinstance(source, ResultSource) and is_parquet(source.ref):
            return StagedRows(source.ref)
        if isinstance(source, ResultSource) and source.ref == []:
            return self._spool(call, [])
        if isinstance(source, FileSource) and (form := self._format(call, source)) != "parquet":
            return self._file(call, source, form, deadline)
        tool, config = self._work(call, source)
        inner = replace(
            call,
            kind=tool.declaration.kind,
            result=replace(call.result, inline_bytes=NEVER_INLINE),
            deadline_s=deadline.remaining(),
        )
        with deadline.stop.watch(deadline.remaining(), lambda: tool.interrupt(inner)):
            came = tool.run(inner, config)
        if isinstance(came, Later):
            return came
        assert isinstance(came, Outcome)  # none of them calls a playbook
        if isinstance(source, HttpSource):
            return self._spool(inner, _rows_at(came.result, source.path))
        rows = came.result["rows"]
        if not is_reference(rows):
            raise repeated_column(came.result["columns"])
        return StagedRows(dict(rows), tuple(came.meta.get("warnings", ())))

    def _work(self, call: Call, source: Source) -> _Work:
        given: dict[str, Any]
        match source:
            case PostgresSource():
                return self.postgres, PostgresConfig(auth=source.auth, query=_query(source))
            case DuckDbSource() | SqliteSource():
                given = {"database": source.database, "query": _query(source), "read_only": True}
                if source.kind == "duckdb":
                    return self.duckdb, DuckDbConfig.model_validate(given)
                return self.sqlite, SqliteConfig.model_validate(given)
            case HttpSource():
                given = {"url": source.url, "headers": source.headers, "as": "json"}
                auth = {"auth": source.auth} if source.auth else {}
                return self.http, HttpConfig.model_validate(given | auth)
            case FileSource():
                path = self._path(call, source)
                query = "SELECT * FROM read_parquet($1)"
                return self.duckdb, DuckDbConfig(query=query, params=[str(path)])
            case ResultSource():
                return self.duckdb, DuckDbConfig(tables={"given": source.ref}, query="FROM given")
            case _:
                assert_never(source)

    def _path(self, call: Call, source: FileSource) -> Path:
        path = self.services.files_of(call).path(source.file, "`source.file`")
        if not path.is_file():
            raise ToolError("client_error", f"There is no file {path}.", type="FileMissing")
        if path.stat().st_size == 0:
            raise ToolError("client_error", f"The file {path} is empty: it has no columns.", type="FileEmpty")
        return path

    def _format(self, call: Call, source: FileSource) -> str:
        form = format_of(self._path(call, source), source.format, "source")
        if form != "csv" and not source.model_fields_set.isdisjoint(_OF_CSV):
            raise ToolError(
                "client_error",
                f"`source.encoding` and `source.on_bad_line` are for CSV, and the file is {form}; take them "
                "away.",
                type="NotCsv",
            )
        return form

    def _file(self, call: Call, source: FileSource, form: str, deadline: TransferDeadline) -> StagedRows:
        path, shelf = self._path(call, source), self._shelf(call)
        go_on = partial(refuse_interrupted, deadline.stop)
        with scratch_folder(shelf) as folder, open_scratch_database(Path(folder)) as connection:
            with deadline.watch(connection.interrupt):
                if form != "csv":
                    return self._spool(call, json_rows(connection, path, form, go_on))
                table, skip = Path(folder, "rows.parquet"), source.on_bad_line == "skip"
                notes = write_csv_as_parquet(connection, path, source.encoding, table, skip=skip)
            refuse_too_large(f"The file {path}", table.stat().st_size, shelf.most_bytes)
            return StagedRows(shelf.put_parquet(table), notes)

    def _spool(self, call: Call, rows: Iterable[Mapping[str, Json]]) -> StagedRows:
        shelf, names, notes = self._shelf(call), dict[str, None](), set[str]()
        is_nothing = True
        with contextlib.closing(RowSpool(shelf, [])) as spool:
            for row in rows:
                is_nothing = False
                for name in row:
                    if name not in names:
                        names[name] = None
                        spool.add_column(name)
                spool.add([[row.get(name) for name in names]], notes)
            if is_nothing:
                spool.add_column(_NO_COLUMN)
            else:
                _check_names(list(names), shelf)
            return StagedRows(spool.store(), tuple(sorted(notes)), is_nothing)

    def _shelf(self, call: Call) -> TableStore:
        shelf = shelf_of(call, self.services)
        assert shelf is not None  # a transfer without a store is refused
        return shelf


def is_parquet(given: Json) -> bool:
    """Whether `given` is a reference to a Parquet object."""
    return is_reference(given) and (given.get("meta") or {}).get("content_type") == PARQUET


def format_of(path: Path, given: str | None, side: str) -> str:
    """What a file is. Raises ToolError(client_error)."""
    found = given or FORMATS.get(path.suffix.lower())
    if found is None:
        raise ToolError(
            "client_error",
            f"`{side}.file` '{path.name}' does not tell what it is; give `format`: parquet, csv or ndjson.",
            type="UnknownFormat",
        )
    return found


def _check_names(names: Sequence[str], shelf: TableStore) -> None:
    if not names or "" in names:
        raise ToolError(
            "client_error", "The rows that came have no columns, or one without a name.", type="BadRows"
        )
    if not shelf.takes(names):
        raise repeated_column(names)


def _query(source: PostgresSource | DuckDbSource | SqliteSource) -> str:
    if source.query is not None:
        return source.query
    return f"SELECT * FROM {quote_table(source.table or '')}"  # noqa: S608 - quoted


def repeated_column(names: Sequence[str]) -> ToolError:
    """What to raise for columns that no table tells apart."""
    alike = " and ".join(map(repr, names_alike(names) or ()))
    return ToolError(
        "client_error",
        f"The rows cannot be transferred: their columns {alike} have the same name but for its case; rename "
        "one.",
        type="RepeatedColumn",
    )


def _rows_at(answer: Json, path: str) -> Sequence[Mapping[str, Json]]:
    found = answer["data"]
    for part in filter(None, path.split(".")):
        found = found.get(part) if isinstance(found, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(row, Mapping) for row in found):
        raise ToolError(
            "client_error",
            f"`source.path` '{path}' leads to no list of mappings in the answer; name where the rows are.",
            type="BadRows",
        )
    return found
