"""The database that the engine itself keeps, which no task may open as its own."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from typing import Final

from noetl.errors import ToolError

#: Tables that only the engine's own database has all of.
_ENGINE: Final = ("event", "command", "execution", "loop_run", "dead_letter")


def refuse_engine_file(path: Path) -> None:
    """Raises ToolError(client_error) where `path` is the engine's own database."""
    # What cannot be read here is for whoever opens it to explain.
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
