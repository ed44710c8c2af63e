"""Opens databases of DuckDB, and confines SQL to what it may reach from there."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from pydantic import Field

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.duckdb.causes import cause_of
from noetl.tools.duckdb.names import AllowedFiles
from noetl.tools.duckdb.outward import attach
from noetl.tools.duckdb.tables import InputTables, create_tables
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy, advise_folder
from noetl.tools.sql.config import SqlConfig
from noetl.tools.sql.files import MEMORY, LeaseWait
from noetl.tools.sql.rows import quote_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
_PAUSE_S: Final = 0.05


class DuckDbConfig(SqlConfig):
    """SQL, the database that it runs in, and the files that it may touch."""

    database: str = Field(default=MEMORY, description="Database file; in memory for this task by default.")
    read_only: bool = Field(default=False, description="Open the database file for reading only.")
    files: str | list[str] = Field(
        default_factory=list,
        description="Files and directories that SQL may reach by names that it computes, and with "
        "`allow_external` hosts; names in its text need none.",
    )
    allow_external: bool = Field(
        default=False,
        description="Let SQL reach the network, extensions and other databases, and change settings.",
    )
    tables: dict[str, Json] = Field(
        default_factory=dict,
        description="Temporary tables from rows: {name: [{column: value}]}, a SQL task's result, or a "
        "reference to a result; Parquet, CSV and NDJSON are read where they lie.",
    )
    attach: dict[str, str | dict[str, Json]] = Field(
        default_factory=dict,
        description="Other databases: {alias: credential} or {alias: {type: postgres|sqlite, auth, database, "
        "read_only}}.",
    )
    memory_limit: str = Field(
        default="1GB", description="Memory of the database.", pattern=r"^\d+(\.\d+)? ?[KMGkmg]i?[Bb]$"
    )
    threads: int = Field(default=2, ge=1, le=256, description="Threads of the database.")


@dataclass(frozen=True, slots=True)
class DatabaseSetup:
    """What a call opens: a file (None: memory), with `tables` in it. `folder` is the call's own,
    `grants` is what its SQL names."""

    path: Path | None
    config: DuckDbConfig
    services: Services
    tables: InputTables
    folder: Path
    policy: FilePolicy
    grants: AllowedFiles

    @contextlib.contextmanager
    def connect(self, wait: LeaseWait) -> Iterator[DuckDBPyConnection]:
        """A connection that is confined to what the configuration names; with `allow_external`
        the caller calls `confine`. Raises ToolError, and DatabaseBusy where a program without a
        lease has the file."""
        import duckdb  # see `_connect`

        connection = self._connect(wait)
        try:
            try:
                create_tables(connection, self.tables)
                attach(connection, self.config.attach, self.services, self.policy)
                if not self.config.allow_external:
                    self.confine(connection)
            except duckdb.Error as error:
                why = cause_of(error)
                raise ToolError(
                    "sql", f"`tables` or `files` cannot be set up: {why}", type=type(error).__name__
                ) from error
            yield connection
        finally:
            connection.close()

    def _connect(self, wait: LeaseWait) -> DuckDBPyConnection:
        # Imported here: the driver takes 90 ms, and the compiler reads this module without calling
        # it.
        import duckdb

        path = self.path
        settings = self._settings()
        read_only = self.config.read_only and path is not None
        while True:
            try:
                return duckdb.connect(str(path or MEMORY), read_only=read_only, config=settings)
            except duckdb.Error as error:
                is_locked = isinstance(error, duckdb.IOException) and "lock" in str(error).lower()
                if path is None or not is_locked:
                    raise ToolError(
                        "sql",
                        f"The database {path or MEMORY} cannot be opened: {cause_of(error)}"
                        + (advise_folder(path) if path is not None else ""),
                        type=type(error).__name__,
                    ) from error
            time.sleep(wait.step(path, "another program", _PAUSE_S))

    def _settings(self) -> dict[str, str | bool | int | float | list[str]]:
        return {
            "memory_limit": self.config.memory_limit,
            "threads": self.config.threads,
            "temp_directory": str(self.services.scratch / "duckdb"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            # No secrets are found there, and none stay. Forbidding them altogether breaks `attach`
            # of PostgreSQL.
            "secret_directory": str(self.folder / "secrets"),
            # Otherwise SQL can name Python variables of the worker.
            "python_enable_replacements": False,
        }

    def confine(self, connection: DuckDBPyConnection) -> None:
        """Lets SQL touch what its names were granted, what `files` names, the directories that
        relative names start from, the objects behind `tables` and the call's own folder, and
        nothing else."""
        if self.policy.start is not None:
            connection.execute(f"SET home_directory = {quote_text(self.policy.start.resolve())}")
        for directory in self.policy.places:
            self.grants.add_directory(directory.resolve(), self.policy)
        self._grant_files()
        _allow(connection, "allowed_directories", [*self.grants.directories, self.folder, *self.grants.hosts])
        _allow(connection, "allowed_paths", [*self.grants.files, *self.tables.paths])
        connection.execute("SET enable_external_access = false")
        if not self.config.allow_external:
            connection.execute("SET lock_configuration = true")

    def _grant_files(self) -> None:
        names = [self.config.files] if isinstance(self.config.files, str) else self.config.files
        for name in names:
            if self.config.allow_external and "://" in name and not name.startswith("file:"):
                self.grants.hosts.append(name)
                continue
            path = self.policy.path(name, "`files`")
            if path.is_dir() or name.endswith("/"):
                self.grants.add_directory(path, self.policy)
            else:
                self.grants.add_file(path)


def _allow(connection: DuckDBPyConnection, setting: str, paths: Sequence[Path | str]) -> None:
    if paths:
        connection.execute(f"SET {setting} = [{', '.join(quote_text(path) for path in paths)}]")


@contextlib.contextmanager
def open_scratch_database(folder: Path) -> Iterator[DuckDBPyConnection]:
    """A database in memory that reads and writes files of ours; what it has no room for lies in
    `folder`."""
    import duckdb  # see `DatabaseSetup`

    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": "256MB",
        "threads": 2,
        "temp_directory": str(folder),
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
    }
    with duckdb.connect(MEMORY, config=settings) as connection:
        # Instants are written as text, with the offset of this zone.
        connection.execute("SET TimeZone = 'UTC'")
        yield connection
