"""SQLite database files: how a call opens one, and what SQL may not do from there."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from noetl.errors import ToolError
from noetl.tools.sql.files import MEMORY, database_in_use, refuse_engine

#: Largest text or blob, in bytes.
_LENGTH: Final = 256 * 1024 * 1024
#: These change the whole process, in which the engine's own SQLite lives too.
_PROCESS_WIDE: Final = frozenset(
    {"soft_heap_limit", "hard_heap_limit", "temp_store_directory", "data_store_directory"}
)
_SHORTEST_S: Final = 0.01


@dataclass(frozen=True, slots=True)
class LockWaits:
    """How long a call may wait for others: until `ends` (monotonic seconds), each time at most
    `each_s`."""

    ends: float
    each_s: float

    def left(self) -> float:
        """Seconds until the call must end."""
        return max(self.ends - time.monotonic(), 0.0)

    def set(self, connection: sqlite3.Connection) -> None:
        seconds = max(min(self.each_s, self.left()), _SHORTEST_S)
        connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


@contextlib.contextmanager
def connect(path: Path | None, read_only: bool, waits: LockWaits) -> Iterator[sqlite3.Connection]:
    """A connection in autocommit mode with a write-ahead log. Raises ToolError where the file
    cannot be used, and for the database of the engine itself."""
    try:
        connection = _connect(path, read_only, waits)
    except (sqlite3.Error, OSError) as error:
        raise _not_opened(path, read_only, error) from error
    try:
        yield connection
    finally:
        connection.close()


def _connect(path: Path | None, read_only: bool, waits: LockWaits) -> sqlite3.Connection:
    connection = sqlite3.connect(
        MEMORY if path is None else f"{path.as_uri()}?mode={'ro' if read_only else 'rwc'}",
        uri=path is not None,
        isolation_level=None,
        check_same_thread=False,  # the deadline interrupts from another thread
    )
    try:
        waits.set(connection)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LENGTH)
        if path is not None:
            refuse_engine(connection, path)
            if not read_only:
                connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.set_authorizer(_authorize)
    except BaseException:
        connection.close()
        raise
    return connection


def _authorize(
    action: int, first: str | None, _two: str | None, _three: str | None, _four: str | None
) -> int:
    # Not ATTACH and not VACUUM INTO: other files are not this task's. VACUUM attaches '', which is
    # none.
    if action == sqlite3.SQLITE_ATTACH and first not in ("", MEMORY):
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PROCESS_WIDE:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _not_opened(path: Path | None, read_only: bool, error: Exception) -> ToolError:
    name = getattr(error, "sqlite_errorname", type(error).__name__)
    if path is not None and name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
        return database_in_use(path, "another connection")
    if path is not None and name == "SQLITE_CANTOPEN" and read_only and not path.exists():
        return ToolError(
            "client_error", f"The database {path} does not exist, and is opened for reading only.", type=name
        )
    return ToolError("sql", f"The database {path or MEMORY} cannot be opened: {error}.", type=name)
