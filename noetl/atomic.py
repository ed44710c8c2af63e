"""Files that are there as a whole or not at all, also after a crash."""

from __future__ import annotations

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_END: Final = ".draft"


@contextlib.contextmanager
def replace_file(path: Path) -> Iterator[Path]:
    """A draft beside `path` that takes its place, flushed to the disk, where the block ends well.
    Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{secrets.token_hex(8)}{_END}")
    try:
        yield draft
        _flush(draft, os.O_RDONLY)
        draft.replace(path)
        # The rename itself becomes durable.
        _flush(path.parent, os.O_DIRECTORY)
    finally:
        draft.unlink(missing_ok=True)


def create_private(path: Path, text: str) -> None:
    """Writes a new file that nobody but its owner could read at any time. Raises FileExistsError
    where there is one, which stays as it is, and OSError."""
    draft = path.with_name(f".{secrets.token_hex(8)}{_END}")
    try:
        handle = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(handle)
        # Unlike a rename it takes the place of nothing.
        os.link(draft, path)
        _flush(path.parent, os.O_DIRECTORY)
    finally:
        draft.unlink(missing_ok=True)


def is_draft(name: str) -> bool:
    """Whether the last part of `name` is that of a draft."""
    last = name.rpartition("/")[2]
    return last.startswith(".") and last.endswith(_END)


def _flush(path: Path, flags: int) -> None:
    handle = os.open(path, flags)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
