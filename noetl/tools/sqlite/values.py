"""What SQLite takes and what it says: values on their way in, and errors made clear."""

from __future__ import annotations

import contextlib
import json
import re
import sqlite3
from collections.abc import Iterator, Mapping, Sequence

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.sql.text import BoundStatement, tokens

_SHOWN = 200
_NEAR = re.compile(r'near "(.+)": syntax error')
_PASSING = ("SQLITE_BUSY", "SQLITE_LOCKED")


def bindable(values: Mapping[str, Json]) -> dict[str, object]:
    """Values as the driver takes them: lists and mappings as JSON text."""
    return {name: scalar(value) for name, value in values.items()}


def scalar(value: Json) -> object:
    """One value as the driver takes it."""
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | Mapping) else value


def first_word(bound: BoundStatement) -> str:
    """What kind of statement it is: `SELECT`."""
    sql = bound.statement.text
    return next((sql[t.start : t.end].upper() for t in tokens(sql) if t.kind == "word"), "")


class SqliteErrors:
    """Turns errors of SQLite into ToolErrors that name the statement and its line."""

    def __init__(self, bound: Sequence[BoundStatement], has_lines: bool) -> None:
        self._bound = bound
        self._has_lines = has_lines

    def place(self, index: int) -> str:
        return f"Statement {index + 1} of {len(self._bound)}" if len(self._bound) > 1 else "The statement"

    @contextlib.contextmanager
    def explain(self, index: int = -1) -> Iterator[None]:
        """`index`: the statement that the block runs; none where it is negative. Raises ToolError
        for whatever SQLite raises in the block."""
        try:
            yield
        # Integers beyond 64 bits, and texts that are no Unicode, are refused before anything runs.
        except (sqlite3.Error, OverflowError, ValueError) as error:
            raise self._error(error, index) from error

    def _error(self, error: Exception, index: int) -> ToolError:
        name = getattr(error, "sqlite_errorname", type(error).__name__)
        about = {"code": name}
        if index < 0:
            return ToolError(
                _kind(name),
                f"The rows cannot be written: {_said(error, name)}",
                retryable=name.startswith(_PASSING),
                type=type(error).__name__,
                extras={"sqlite": about},
            )
        statement = self._bound[index].statement
        line = _line(self._bound[index], str(error))
        return ToolError(
            _kind(name),
            f"{self.place(index)} failed at line {line}: {_said(error, name)}",
            retryable=name.startswith(_PASSING),
            type=type(error).__name__,
            line=line if self._has_lines else None,
            extras={
                "sqlite": {**about, "statement_index": index, "statement": statement.text[:_SHOWN]},
            },
        )


def _kind(name: str) -> str:
    if name.startswith(_PASSING):
        return "connection"
    return "limit" if name in ("SQLITE_NOMEM", "SQLITE_TOOBIG", "SQLITE_FULL") else "sql"


def _said(error: Exception, name: str) -> str:
    if name.startswith("SQLITE_AUTH"):
        return f"{error} (ATTACH, VACUUM INTO, and settings of the whole process are refused)"
    if name.startswith(_PASSING):
        return f"{error}; another connection uses the file for longer than `busy_timeout` allows"
    return str(error)


def _line(bound: BoundStatement, message: str) -> int:
    """SQLite names the word where it stumbled, not its place: that is known where the word stands
    once."""
    statement = bound.statement
    near = _NEAR.search(message)
    if near is None:
        return statement.line
    text = statement.text
    places = [t.start for t in tokens(text) if text[t.start : t.end] == near[1]]
    return statement.line_at(places[0]) if len(places) == 1 else statement.line
