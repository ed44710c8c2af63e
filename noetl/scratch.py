"""Folders for what a process needs while it runs, which are removed when nobody has them any more.

Whoever has such a folder holds a lock on it (`flock`) that the operating system takes back,
whatever ends the process: a folder that nobody holds was left by one that was killed. Where a file
system has no such locks nothing is swept.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

#: How the names of folders begin that are held as long as somebody has them.
_PREFIX: Final = "noetl-held-"


@dataclass(frozen=True, slots=True)
class ScratchFolder:
    """A folder, and the descriptor by which it is held until that is closed, here and wherever a
    fork has it, too."""

    path: Path
    handle: int

    def remove(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        self.let_go()

    def let_go(self) -> None:
        os.close(self.handle)


def make_folder(root: Path, what: str) -> ScratchFolder:
    """A new folder below `root`, for its owner alone. Raises OSError."""
    root.mkdir(parents=True, exist_ok=True)
    # No sweep sees it before it is held.
    with _open(root) as around:
        _lock(around, fcntl.LOCK_SH)
        path = tempfile.mkdtemp(prefix=f"{_PREFIX}{what}-", dir=root)
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
        _lock(handle, fcntl.LOCK_SH)
        return ScratchFolder(Path(path), handle)


@contextlib.contextmanager
def held_folder(root: Path, what: str) -> Iterator[Path]:
    """The same, there while the block runs."""
    made = make_folder(root, what)
    try:
        yield made.path
    finally:
        made.remove()


def sweep_folders(root: Path, before: Callable[[Path], object] = lambda _folder: None) -> int:
    """Removes what processes have left below `root` that are gone; how many folders. `before` is
    called with each. Where one is just made it is left to the next sweep."""
    left = [ScratchFolder(path, handle) for path, handle in _take_left(root)]
    for one in left:
        before(one.path)
        one.remove()
    return len(left)


def _take_left(root: Path) -> list[tuple[Path, int]]:
    with _open(root) as around:
        if not _lock(around, fcntl.LOCK_EX | fcntl.LOCK_NB):
            return []
        taken = ((path, _take(path)) for path in root.glob(f"{_PREFIX}*"))
        return [(path, handle) for path, handle in taken if handle is not None]


def _take(path: Path) -> int | None:
    """Holds the folder alone; None where somebody has it, or it is not this user's."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    except OSError:
        return None
    if _lock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB):
        return handle
    os.close(handle)
    return None


@contextlib.contextmanager
def _open(path: Path) -> Iterator[int]:
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield handle
    finally:
        os.close(handle)


def _lock(handle: int, how: int) -> bool:
    try:
        fcntl.flock(handle, how)
    except OSError:
        return False
    return True
