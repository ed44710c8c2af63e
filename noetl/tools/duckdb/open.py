"""Opening a database of DuckDB, and what SQL may reach from there."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.tools.duckdb.attach import attach
from noetl.tools.duckdb.config import DuckDbConfig
from noetl.tools.duckdb.errors import first_line
from noetl.tools.duckdb.names import Grants
from noetl.tools.duckdb.tables import Tables, create_tables
from noetl.tools.kit.base import Services
from noetl.tools.kit.files import FilePolicy
from noetl.tools.sql.files import MEMORY, Wait

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_PAUSE_S: Final = 0.05


@dataclass(frozen=True, slots=True)
class Database:
    """What a call opens: a file (None: memory), with `tables` in it. `folder` is the call's own,
    `grants` is what its SQL names."""

    path: Path | None
    config: DuckDbConfig
    services: Services
    tables: Tables
    folder: Path
    policy: FilePolicy
    grants: Grants

    @contextlib.contextmanager
    def opened(self, wait: Wait) -> Iterator[DuckDBPyConnection]:
        """A connection that is confined to what the configuration names; with `allow_external` whoever uses it calls
        `confine`. Raises ToolError, and Busy where somebody without a lease has the file."""
        import duckdb  # see `_connected`

        connection = self._connected(wait)
        try:
            try:
                create_tables(connection, self.tables)
                attach(connection, self.config.attach, self.services, self.policy)
                if not self.config.allow_external:
                    self.confine(connection)
            except duckdb.Error as error:
                why = first_line(error)
                raise ToolError(
                    "sql", f"`tables` or `files` cannot be set up: {why}", type=type(error).__name__
                ) from error
            yield connection
        finally:
            connection.close()

    def _connected(self, wait: Wait) -> DuckDBPyConnection:
        # Imported here: the driver takes 90 ms, and the compiler reads this module without calling it.
        import duckdb

        path = self.path
        settings = self._settings()
        read_only = self.config.read_only and path is not None
        while True:
            try:
                return duckdb.connect(str(path or MEMORY), read_only=read_only, config=settings)
            except duckdb.IOException as error:
                if path is None or "lock" not in str(error).lower():
                    raise _unopened(path, error) from error
            except duckdb.Error as error:
                raise _unopened(path, error) from error
            time.sleep(wait.step(path, "another program", _PAUSE_S))

    def _settings(self) -> dict[str, str | bool | int | float | list[str]]:
        return {
            "memory_limit": self.config.memory_limit,
            "threads": self.config.threads,
            "temp_directory": str(self.services.scratch / "duckdb"),
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            # Nobody's secrets are found, and none stay. Forbidding them altogether breaks `attach` of PostgreSQL.
            "secret_directory": str(self.folder / "secrets"),
            # Otherwise SQL can name Python variables of the worker.
            "python_enable_replacements": False,
        }

    def confine(self, connection: DuckDBPyConnection) -> None:
        """Lets SQL touch what its names were granted, what `files` names, the directories that relative names start from,
        the objects behind `tables` and the call's own folder, and nothing else."""
        if self.policy.start is not None:
            connection.execute(f"SET home_directory = {_quoted(str(self.policy.start.resolve()))}")
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
        connection.execute(f"SET {setting} = [{', '.join(_quoted(str(path)) for path in paths)}]")


def _unopened(path: Path | None, error: Exception) -> ToolError:
    return ToolError(
        "sql",
        f"The database {path or MEMORY} cannot be opened: {first_line(error)}",
        type=type(error).__name__,
    )


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
