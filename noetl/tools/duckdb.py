"""The tool `duckdb`: SQL over files and rows, inside of the worker."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from pydantic import Field

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.outcome import Outcome, succeeded
from noetl.pipeline.model import Call
from noetl.tools.base import Services, Tool, ToolConfig
from noetl.tools.duckdb_attach import attach
from noetl.tools.duckdb_files import MEMORY, FileLocks, database_path, held, resolved
from noetl.tools.duckdb_tables import create_tables
from noetl.tools.duckdb_work import Order, Work, first_line
from noetl.tools.large import scratch_folder, shelf_of
from noetl.tools.sql_calls import Running, Stop
from noetl.tools.sql_config import NAMES, WORK, SqlConfig
from noetl.tools.sql_rows import write_of
from noetl.tools.sql_values import Bounds

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Seconds that a call may take where `spec.timeout` says nothing.
DEADLINE_S = 300.0
_PAUSE_S = 0.05


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
    attach: dict[str, str | dict[str, Json]] = Field(
        default_factory=dict,
        description="Other databases: {alias: credential} or {alias: {type: postgres|sqlite, auth, database, read_only}}.",
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
    required = (WORK,)
    verbatim_with_params = NAMES

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._files = FileLocks()
        self._running = Running()

    def run(self, call: Call, config: DuckDbConfig) -> Outcome:
        bounds = Bounds(self.services.result_limit, set(), shelf_of(call, self.services))
        write = write_of(config)
        statements = config.bound()
        deadline_s = call.deadline_s or DEADLINE_S
        ends = time.monotonic() + deadline_s
        path = database_path(config.database, self.services.base_dir)
        with (
            self._running.enter(call) as stop,
            self._files.hold(path, deadline_s, stop.refuse_cancelled),
            scratch_folder(bounds.shelf) as folder,
            _opened(path, config, self.services, Path(folder), ends, stop) as connection,
        ):
            order = Order(statements, write, config.transaction, config.is_one_text, bounds, Path(folder))
            work = Work(connection, order, stop)
            with stop.watch(ends - time.monotonic(), connection.interrupt):
                try:
                    result = work.run()
                except ToolError as error:
                    stop.refuse_cancelled()
                    raise _late(deadline_s) if stop.late else error from error
        warnings = sorted(bounds.notes) + (write.warnings() if write else [])
        meta: dict[str, Json] = {"warnings": warnings} if warnings else {}
        return succeeded(result, meta, duckdb={"statements": len(statements)})

    def interrupt(self, call: Call) -> None:
        self._running.interrupt(call)


def _late(deadline_s: float) -> ToolError:
    return ToolError(
        "timeout",
        f"The command did not end within {deadline_s:g} s and was interrupted; raise `spec.timeout`.",
        retryable=True,
        type="Interrupted",
    )


@contextlib.contextmanager
def _opened(
    path: Path | None, config: DuckDbConfig, services: Services, folder: Path, ends: float, stop: Stop
) -> Iterator[DuckDBPyConnection]:
    import duckdb  # see `_connect`

    connection = _connect(path, config, services, ends, stop)
    try:
        try:
            create_tables(connection, config.tables)
            attach(connection, config.attach, services)
            _confine(connection, config, services.base_dir, folder)
        except duckdb.Error as error:
            why = first_line(error)
            raise ToolError(
                "sql", f"`tables` or `files` cannot be set up: {why}", type=type(error).__name__
            ) from error
        yield connection
    finally:
        connection.close()


def _connect(
    path: Path | None, config: DuckDbConfig, services: Services, ends: float, stop: Stop
) -> DuckDBPyConnection:
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
        stop.refuse_cancelled()
        time.sleep(_PAUSE_S)


def _unopened(path: Path | None, error: Exception) -> ToolError:
    return ToolError(
        "sql",
        f"The database {path or MEMORY} cannot be opened: {first_line(error)}",
        type=type(error).__name__,
    )


def _confine(connection: DuckDBPyConnection, config: DuckDbConfig, base_dir: Path | None, own: Path) -> None:
    """Lets SQL touch what `files` names, and the folder that is the call's `own`, and nothing else, for good.

    `~` in SQL is the playbook's directory: other relative names start from wherever the worker runs.
    """
    if config.allow_external:
        return
    connection.execute(f"SET home_directory = {_quoted(str((base_dir or Path.cwd()).resolve()))}")
    names = [config.files] if isinstance(config.files, str) else config.files
    paths = [resolved(name, base_dir, "`files`") for name in names]
    folders = [path for path, name in zip(paths, names, strict=True) if path.is_dir() or name.endswith("/")]
    folders.append(own)
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
