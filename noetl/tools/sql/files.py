"""Databases that are files, DuckDB's and SQLite's: where they may lie, which one no task may open,
and locks that give each to one call at a time."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Final
from weakref import WeakValueDictionary

from noetl.errors import ToolError
from noetl.tools.kit.files import FilePolicy

#: Tables that only the engine's own database has all of.
_ENGINE: Final = ("event", "command", "execution", "loop_run", "dead_letter")
MEMORY: Final = ":memory:"
#: How often a call that waits looks whether it still should, in seconds.
_PAUSE_S: Final = 0.1
#: The same for a lease of another process.
_LOOK_S: Final = 0.01


def refuse_engine_file(path: Path) -> None:
    """Raises ToolError(client_error) where `path` is the engine's own database."""
    # What cannot be read here is explained where it is opened.
    with (
        contextlib.suppress(sqlite3.Error),
        contextlib.closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as connection,
    ):
        refuse_engine(connection, path)


def refuse_engine(connection: sqlite3.Connection, path: Path) -> None:
    """Raises ToolError(client_error) where `connection` to the file `path` sees the engine's own
    database."""
    marks = ", ".join("?" for _ in _ENGINE)
    found = connection.execute(
        f"SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ({marks})",  # noqa: S608
        _ENGINE,
    )
    if found.fetchone()[0] == len(_ENGINE):
        raise ToolError(
            "client_error",
            f"{path} is the database that the engine itself keeps; name another file in `database`.",
            type="EngineDatabase",
        )


def database_path(database: str, policy: FilePolicy) -> Path | None:
    """The database file, None for memory. Raises ToolError(client_error) where it may not be
    named."""
    if not database or database.startswith(MEMORY):
        return None
    return policy.path(database, "`database`")


class DatabaseBusy(Exception):
    """A database is not to be had yet; `who` has it."""

    def __init__(self, path: Path, who: str) -> None:
        super().__init__(who)
        self.path = path
        self.who = who


class FileLocks:
    """One call at a time for each database file, on this machine.

    Within a process one call has it: DuckDB shares an open database there, and with it what its
    settings allow. Among processes one writer has it, or any number of readers. The leases are
    locks on files in `folder`, which the kernel takes back when a process ends, however it does."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._locks: WeakValueDictionary[Path, threading.Lock] = WeakValueDictionary()

    @contextlib.contextmanager
    def hold(self, path: Path | None, wait: LeaseWait) -> Iterator[None]:
        """Raises DatabaseBusy where others have the file for longer than `wait` says."""
        if path is None:
            yield
            return
        with self._mine(path, wait), self._lease(path, wait):
            yield

    @contextlib.contextmanager
    def _mine(self, path: Path, wait: LeaseWait) -> Iterator[None]:
        with self._lock:
            lock = self._locks.setdefault(path, threading.Lock())
        while not lock.acquire(timeout=wait.step(path, "another task of this worker", _PAUSE_S)):
            pass
        try:
            yield
        finally:
            lock.release()

    @contextlib.contextmanager
    def _lease(self, path: Path, wait: LeaseWait) -> Iterator[None]:
        """A call that waits holds a turnstile, and others wait behind it: none is passed by for
        ever."""
        self._folder.mkdir(parents=True, exist_ok=True)
        name = hashlib.sha256(os.fsencode(path)).hexdigest()[:32]
        lease = self._folder / f"{name}.lease"
        with lease.open("a") as held_by, lease.with_suffix(".turn").open("a") as turn:
            _lock_file(turn, fcntl.LOCK_EX, path, wait)
            _lock_file(held_by, fcntl.LOCK_SH if wait.shared else fcntl.LOCK_EX, path, wait)
            fcntl.flock(turn, fcntl.LOCK_UN)
            yield


@dataclass(frozen=True, slots=True)
class LeaseWait:
    """Until when (monotonic seconds) a call waits, for a lease that it shares or not. `go_on`
    raises where it must end."""

    ends: float
    shared: bool
    go_on: Callable[[], None]

    def step(self, path: Path, who: str, pause_s: float) -> float:
        """How long to wait before the next look, in seconds. Raises DatabaseBusy."""
        self.go_on()
        left = self.ends - time.monotonic()
        if left <= 0:
            raise DatabaseBusy(path, who)
        return min(left, pause_s)


def _lock_file(file: IO[str], mode: int, path: Path, wait: LeaseWait) -> None:
    # Looked at again and again: a lock that blocks has no deadline.
    while True:
        try:
            fcntl.flock(file, mode | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(wait.step(path, "another worker", _LOOK_S))
        else:
            return


def database_in_use(path: Path, who: str) -> ToolError:
    """What to raise where `who` has the database for longer than the call may wait."""
    return ToolError(
        "connection",
        f"The database {path} is in use by {who}; try again later, or open it with `read_only` everywhere.",
        retryable=True,
        type="DatabaseLocked",
    )
