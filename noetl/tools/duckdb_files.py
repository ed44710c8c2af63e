"""The files of DuckDB's databases: where they may lie, and that one call at a time has each."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from noetl.errors import ToolError

MEMORY: Final = ":memory:"
#: How often a call that waits looks whether it still should, in seconds.
_PAUSE_S: Final = 0.1


def database_path(database: str, base_dir: Path | None) -> Path | None:
    """The database file, None for memory. A relative name stays below the playbook's directory."""
    if not database or database.startswith(MEMORY):
        return None
    return resolved(database, base_dir, "`database`")


def resolved(name: str, base_dir: Path | None, place: str) -> Path:
    """`name` as an absolute path without links. Raises ToolError(client_error) where it leaves its root."""
    root = (base_dir or Path.cwd()).resolve()
    try:
        path = (root / name.removeprefix("~/")).resolve()
    except (ValueError, OSError, RuntimeError) as error:
        raise ToolError("client_error", f"{place} names no usable file: {error}.", type="BadPath") from error
    if not Path(name).is_absolute() and not path.is_relative_to(root):
        raise ToolError(
            "client_error",
            f"{place} '{name[:200]}' leads out of the playbook's directory; name it by its absolute path.",
            type="BadPath",
        )
    return path


class FileLocks:
    """One call at a time for each database file: within a process DuckDB shares an open database, and with
    it what its settings allow."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._locks: dict[Path, tuple[threading.Lock, int]] = {}

    @contextlib.contextmanager
    def hold(self, path: Path | None, timeout_s: float, go_on: Callable[[], None]) -> Iterator[None]:
        """Raises ToolError(connection) where another call has the file for so long. `go_on` is called now and
        then while it waits, and raises where the call must end."""
        if path is None:
            yield
            return
        with self._lock:
            lock, users = self._locks.get(path, (threading.Lock(), 0))
            self._locks[path] = (lock, users + 1)
        mine = False
        try:
            ends = time.monotonic() + timeout_s
            while not mine:
                go_on()
                left = ends - time.monotonic()
                if left <= 0:
                    raise held(path, "another task of this worker")
                mine = lock.acquire(timeout=min(left, _PAUSE_S))
            yield
        finally:
            if mine:
                lock.release()
            self._leave(path)

    def _leave(self, path: Path) -> None:
        with self._lock:
            lock, users = self._locks[path]
            if users > 1:
                self._locks[path] = (lock, users - 1)
            else:
                del self._locks[path]


def held(path: Path, who: str) -> ToolError:
    """What to raise where `who` has the database for longer than the call may wait."""
    return ToolError(
        "connection",
        f"The database {path} is in use by {who}; try again later, or open it with `read_only` everywhere.",
        retryable=True,
        type="DatabaseLocked",
    )
