"""The tool `duckdb`: SQL over files and rows, inside of the worker."""

from __future__ import annotations

import contextlib
import json
import re
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Services, Tool, ToolConfig
from noetl.tools.deadline import Watchdog
from noetl.tools.duckdb_files import MEMORY, FileLocks, database_path, held, resolved
from noetl.tools.duckdb_tables import create_tables
from noetl.tools.sql import Bound
from noetl.tools.sql_config import NAMES, SqlConfig
from noetl.tools.sql_values import MAX_ROWS, Answer, as_dicts, result_of, unique_names

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Seconds that a call may take where `spec.timeout` says nothing.
DEADLINE_S = 300.0
_SHOWN = 200
_PAUSE_S = 0.05
_LINE = re.compile(r"^LINE (\d+):", re.MULTILINE)


class DuckDbConfig(SqlConfig):
    """SQL, the database that it runs in, and the files that it may touch."""

    database: str = Field(default=MEMORY, description="Database file; in memory for this task by default.")
    read_only: bool = Field(default=False, description="Open the database file for reading only.")
    files: str | list[str] = Field(
        default_factory=list,
        description="Files and directories that SQL may read and write (`~/...` in SQL is the playbook's directory).",
    )
    allow_external: bool = Field(
        default=False,
        description="Let SQL reach every file, the network and extensions, and change settings.",
    )
    tables: dict[str, Json] = Field(
        default_factory=dict, description="Temporary tables from rows: {name: [{column: value}]}."
    )
    memory_limit: str = Field(
        default="1GB", description="Memory of the database.", pattern=r"^\d+(\.\d+)? ?[KMGkmg]i?[Bb]$"
    )
    threads: int = Field(default=2, ge=1, le=256, description="Threads of the database.")


class DuckDb(Tool):
    """Runs SQL in DuckDB. A database file is opened for each call and closed after it."""

    kind = "duckdb"
    queue = "duckdb"
    effects = "internal"
    description = (
        "Runs SQL in DuckDB over files and rows and yields {rows, row_count, columns, command_0, ...}."
    )
    config_model: ClassVar[type[ToolConfig]] = DuckDbConfig
    required = (NAMES,)
    verbatim_with_params = NAMES

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._files = FileLocks()

    def run(self, call: Call, config: DuckDbConfig) -> Outcome:
        bound = config.bound()
        deadline_s = call.deadline_s or DEADLINE_S
        ends = time.monotonic() + deadline_s
        path = database_path(config.database, self.services.base_dir)
        with self._files.hold(path, deadline_s), _opened(path, config, self.services, ends) as connection:
            work = _Work(connection, bound, config)
            with Watchdog(ends - time.monotonic(), connection.interrupt) as dog:
                try:
                    answers = work.run_all()
                except ToolError as error:
                    raise _late(deadline_s) if dog.fired else error from error
            if dog.fired:
                raise _late(deadline_s)
        meta: dict[str, Json] = {"warnings": sorted(work.notes)} if work.notes else {}
        return succeeded(result_of(answers), meta, duckdb={"statements": len(answers)})


def _late(deadline_s: float) -> ToolError:
    return ToolError(
        "timeout",
        f"The command did not end within {deadline_s:g} s and was interrupted; raise `spec.timeout`.",
        retryable=True,
        type="Interrupted",
    )


@contextlib.contextmanager
def _opened(
    path: Path | None, config: DuckDbConfig, services: Services, ends: float
) -> Iterator[DuckDBPyConnection]:
    import duckdb  # see `_connect`

    connection = _connect(path, config, services, ends)
    try:
        try:
            create_tables(connection, config.tables)
            _confine(connection, config, services.base_dir)
        except duckdb.Error as error:
            why = _first_line(error)
            raise ToolError(
                "sql", f"`tables` or `files` cannot be set up: {why}", type=type(error).__name__
            ) from error
        yield connection
    finally:
        connection.close()


def _connect(path: Path | None, config: DuckDbConfig, services: Services, ends: float) -> DuckDBPyConnection:
    # Imported here: the driver takes 90 ms, and the compiler reads this module without calling it.
    import duckdb

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": config.memory_limit,
        "threads": config.threads,
        "temp_directory": str(services.scratch / "duckdb"),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_persistent_secrets": False,
        # Otherwise SQL can name Python variables of the worker.
        "python_enable_replacements": False,
    }
    while True:
        try:
            return duckdb.connect(
                str(path or MEMORY), read_only=config.read_only and path is not None, config=settings
            )
        except duckdb.IOException as error:
            if path is None or "lock" not in str(error).lower():
                raise _unopened(path, error) from error
            if time.monotonic() + _PAUSE_S >= ends:
                raise held(path, "another process") from error
        except duckdb.Error as error:
            raise _unopened(path, error) from error
        time.sleep(_PAUSE_S)


def _unopened(path: Path | None, error: Exception) -> ToolError:
    return ToolError(
        "sql",
        f"The database {path or MEMORY} cannot be opened: {_first_line(error)}",
        type=type(error).__name__,
    )


def _confine(connection: DuckDBPyConnection, config: DuckDbConfig, base_dir: Path | None) -> None:
    """Lets SQL touch what `files` names and nothing else, for good.

    `~` in SQL is the playbook's directory: other relative names start from wherever the worker runs.
    """
    if config.allow_external:
        return
    connection.execute(f"SET home_directory = {_quoted(str((base_dir or Path.cwd()).resolve()))}")
    names = [config.files] if isinstance(config.files, str) else config.files
    paths = [resolved(name, base_dir, "`files`") for name in names]
    folders = [path for path, name in zip(paths, names, strict=True) if path.is_dir() or name.endswith("/")]
    single = [path for path in paths if path not in folders]
    # DuckDB writes a file under a `tmp_` name beside it first.
    single += [path.with_name(f"tmp_{path.name}") for path in single]
    for setting, allowed in (("allowed_directories", folders), ("allowed_paths", single)):
        if allowed:
            connection.execute(f"SET {setting} = [{', '.join(_quoted(str(path)) for path in allowed)}]")
    connection.execute("SET enable_external_access = false")
    connection.execute("SET lock_configuration = true")


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


class _Work:
    """The statements of one call, and what came of them."""

    def __init__(self, connection: DuckDBPyConnection, bound: Sequence[Bound], config: DuckDbConfig) -> None:
        self.notes: set[str] = set()
        self._connection = connection
        self._bound = bound
        self._has_lines = config.is_one_text

    def run_all(self) -> list[Answer]:
        import duckdb  # see `_connect`

        answers: list[Answer] = []
        for index, bound in enumerate(self._bound):
            try:
                answers.append(self._run(bound, index))
            except duckdb.Error as error:
                raise self._error(error, index) from error
        return answers

    def _run(self, bound: Bound, index: int) -> Answer:
        # From the first word on: DuckDB counts lines of errors in two ways where a comment stands before it.
        text = bound.dollar()[bound.statement.lead :]
        kind, yields = self._kind(text)
        cursor = self._connection.execute(text, dict(bound.values) or None)
        described = cursor.description or []
        rows = cursor.fetchmany(MAX_ROWS + 1) if described else []
        if len(rows) > MAX_ROWS:
            raise ToolError(
                "limit",
                f"{self._place(index)} returned more than {MAX_ROWS} rows; add a LIMIT.",
                type="TooManyRows",
            )
        if not yields and [column[0] for column in described] in ([], ["Count"]):
            return Answer([], [], int(rows[0][0]) if rows else 0, kind)
        names = unique_names(column[0] for column in described)
        dicts = as_dicts(names, rows, self.notes)
        for name, column in zip(names, described, strict=True):
            if str(column[1]) == "JSON":
                _parse(dicts, name)
        return Answer(names, dicts, len(dicts), kind)

    def _kind(self, text: str) -> tuple[str, bool]:
        """The statement's type (`SELECT`), and whether rows are all that it yields."""
        import duckdb  # see `_connect`

        parsed = self._connection.extract_statements(text)
        if not parsed:
            return "", False
        results = list(parsed[-1].expected_result_type)
        return parsed[-1].type.name, results == [duckdb.ExpectedResultType.QUERY_RESULT]

    def _error(self, error: Exception, index: int) -> ToolError:
        bound = self._bound[index]
        line = bound.statement.line
        if told := _LINE.search(str(error)):
            line += int(told[1]) - 1
        name = type(error).__name__
        kind = "limit" if name == "OutOfMemoryException" else "sql"
        hint = ""
        if name == "PermissionException":
            hint = " (only what `files` names can be reached, by absolute path or as `~/...` from the playbook's "
            hint += "directory; `allow_external: true` lifts that)"
        return ToolError(
            kind,
            f"{self._place(index)} failed at line {line}: {_first_line(error)}{hint}",
            retryable=name == "TransactionException",
            type=name,
            line=line if self._has_lines else None,
            extras={"duckdb": {"statement_index": index, "statement": bound.statement.text[:_SHOWN]}},
        )

    def _place(self, index: int) -> str:
        return f"Statement {index + 1} of {len(self._bound)}" if len(self._bound) > 1 else "The statement"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]


def _parse(rows: Sequence[dict[str, Json]], name: str) -> None:
    """A JSON column comes as text."""
    for row in rows:
        if isinstance(row[name], str):
            with contextlib.suppress(ValueError, RecursionError):
                row[name] = json.loads(row[name])
