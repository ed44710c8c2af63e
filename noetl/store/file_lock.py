"""Locks that end with the process that holds them, whatever ends it: `flock` on files of the home.

A process id says nothing of the kind: another process may have it by now.
"""

from __future__ import annotations

import fcntl
import os
import platform
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import Final

#: Seconds for which somebody may look whether a lock is held.
LOOK_S: Final = 0.3


class LockState(Enum):
    """What was known of the lock when it was asked for."""

    #: Nothing is known of an earlier holder: there was none, it let the lock go, or it was on
    #: another machine.
    NEW = "new"
    #: A process of this machine held it, and is gone without having let it go.
    LEFT = "left"
    #: Somebody else holds it.
    BUSY = "busy"


@dataclass(slots=True)
class Lock:
    """A lock that was asked for. With `found` BUSY it is not held."""

    found: LockState
    #: Leave the file behind, as a process that dies does: whoever takes the lock next finds it
    #: LEFT.
    leave: bool = False


@contextmanager
def hold_lock(path: Path) -> Iterator[Lock]:
    """Takes the lock at `path`, if it is free, for as long as the block lasts. Raises OSError where
    no file can be made."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fd, found = _take(path)
    lock = Lock(found)
    try:
        yield lock
    finally:
        if found is not LockState.BUSY and not lock.leave:
            # While it is held: a file that somebody else has just made is not this one.
            with suppress(FileNotFoundError):
                path.unlink()
        if fd is not None:
            os.close(fd)


def is_held(path: Path) -> bool:
    """Whether a process that lives holds the lock at `path`."""
    try:
        fd = os.open(path, os.O_RDWR)
    except FileNotFoundError:
        return False
    try:
        # Shared: those who only look are no holders to one another.
        return not _try_lock(fd, fcntl.LOCK_SH)
    finally:
        os.close(fd)


def _take(path: Path) -> tuple[int | None, LockState]:
    while True:
        fd, found = _open(path)
        if not _wait_for_lock(fd):
            os.close(fd)
            return None, LockState.BUSY
        if _is_at(fd, path):
            break
        # Its holder removed the file between the two: what is locked is no longer there.
        os.close(fd)
    if found is LockState.LEFT and os.pread(fd, 1024, 0).decode(errors="replace") != platform.node():
        found = LockState.NEW
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, platform.node().encode(), 0)
    except OSError as error:
        # Of a descriptor the system does not say which file it is.
        os.close(fd)
        raise OSError(error.errno, error.strerror, str(path)) from error
    return fd, found


def _open(path: Path) -> tuple[int, LockState]:
    while True:
        try:
            return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600), LockState.NEW
        except FileExistsError:
            with suppress(FileNotFoundError):
                return os.open(path, os.O_RDWR), LockState.LEFT


def _wait_for_lock(fd: int) -> bool:
    """Whether the lock is ours. Who only looks (`is_held`) has it for an instant, and is waited
    for."""
    give_up = time.monotonic() + LOOK_S
    while not _try_lock(fd, fcntl.LOCK_EX):
        if time.monotonic() > give_up:
            return False
        time.sleep(0.02)
    return True


def _try_lock(fd: int, kind: int) -> bool:
    try:
        fcntl.flock(fd, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _is_at(fd: int, path: Path) -> bool:
    try:
        there = path.stat()
    except FileNotFoundError:
        return False
    own = os.fstat(fd)
    return (own.st_dev, own.st_ino) == (there.st_dev, there.st_ino)
