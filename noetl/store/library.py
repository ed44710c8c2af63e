"""Playbooks that are files below a directory: what a run finds without a catalog."""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from noetl.dsl.read.metadata import read_path
from noetl.dsl.read.source import MAX_BYTES
from noetl.usecases.ports import Library, PlaybookFile

SUFFIXES: Final = (".yaml", ".yml")

#: Bounds of one search: names that are looked at, files that are opened, and bytes of them.
MAX_NAMES: Final = 20_000
MAX_FILES: Final = 1_000
MAX_TOTAL_BYTES: Final = 32 * 1024 * 1024


class FileLibrary(Library):
    """The playbooks below `root`. Of several with one path the nearest to `root` counts, then the
    first by name.

    Nothing is looked at before the first question; what was found then is kept. Links to
    directories are not followed, nor links to files that lead out of `root`; names that begin with
    a dot are passed over. Files that are too large, cannot be read, or do not say what they are
    called are none.
    """

    def __init__(self, root: Path) -> None:
        self._root = root
        self._lock = threading.Lock()
        self._known: dict[str, Path] | None = None

    def find(self, path: str, *, anew: bool = False) -> PlaybookFile | None:
        if anew:
            with self._lock:
                self._known = None
        file = self._index().get(path)
        text = None if file is None else _text(file)
        return None if file is None or text is None else PlaybookFile(str(file), text)

    def paths(self) -> Sequence[str]:
        return list(self._index())

    def _index(self) -> dict[str, Path]:
        with self._lock:
            if self._known is None:
                self._known = _index_files(self._root.resolve())
            return self._known


def _index_files(root: Path) -> dict[str, Path]:
    found: dict[str, Path] = {}
    left = MAX_TOTAL_BYTES
    for number, file in enumerate(_candidates(root)):
        if number == MAX_FILES or left <= 0:
            break
        text = _text(file)
        if text is None:
            continue
        left -= len(text)
        path = read_path(text)
        if path is not None:
            found.setdefault(path, file)
    return found


def _candidates(root: Path) -> Iterator[Path]:
    """Files by their kind, level by level."""
    folders = deque([root])
    looked_at = 0
    while folders:
        for entry in _entries(folders.popleft()):
            looked_at += 1
            if looked_at > MAX_NAMES:
                return
            if entry.is_dir(follow_symlinks=False):
                folders.append(Path(entry.path))
            elif entry.name.endswith(SUFFIXES) and _is_inside(entry, root):
                yield Path(entry.path)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    """In the order of their names; none where the folder cannot be read."""
    try:
        with os.scandir(folder) as entries:
            # One more than may be looked at: a folder of a million names is not sorted.
            few = [entry for entry, _ in zip(entries, range(MAX_NAMES + 1), strict=False)]
    except OSError:
        return []
    return sorted((entry for entry in few if not entry.name.startswith(".")), key=lambda entry: entry.name)


def _is_inside(entry: os.DirEntry[str], root: Path) -> bool:
    try:
        return entry.is_file() and (not entry.is_symlink() or Path(entry.path).resolve().is_relative_to(root))
    except (OSError, RuntimeError):  # a loop of links
        return False


def _text(file: Path) -> str | None:
    """None where it is no text, too large, or cannot be read."""
    try:
        with file.open("rb") as opened:
            content = opened.read(MAX_BYTES + 1)
        return None if len(content) > MAX_BYTES else content.decode("utf-8-sig")
    except (OSError, ValueError):
        return None
