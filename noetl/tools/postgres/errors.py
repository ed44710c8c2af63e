"""Explains errors of PostgreSQL: which statement, which line, and whether to try again."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.durations import compact
from noetl.facts.json import Json
from noetl.tools.sql.calls import SqlErrors
from noetl.tools.sql.text import BoundStatement, Placeholder

if TYPE_CHECKING:
    from psycopg2 import extensions

#: States that a second try may get past.
_PASSING = frozenset({"40001", "40P01", "55P03"})
_GONE = frozenset({"57P01", "57P02", "57P03", "53300"})
_REFUSED = re.compile(
    r"authentication failed|no pg_hba\.conf entry|role \".*\" does not exist|no password supplied"
)


class PostgresErrors(SqlErrors):
    """Explains errors of the driver, and never quotes the password."""

    section = "pg"

    def __init__(
        self, password: str, deadline_s: float, bound: Sequence[BoundStatement] = (), has_lines: bool = False
    ) -> None:
        super().__init__(bound, has_lines)
        self._password = password
        self._deadline_s = deadline_s

    @contextlib.contextmanager
    def explain(
        self, place: int | str, cursor: extensions.cursor | None = None, before: int = 0
    ) -> Iterator[None]:
        """`place`: see `SqlErrors.failure`; `before`: characters that were sent before the
        statement. Raises ToolError for what the server, or the driver, raises in the block."""
        import psycopg2  # see `Postgres`

        try:
            yield
        except psycopg2.Error as error:
            raise self._of_server(error, place, cursor, before) from error
        except ValueError as error:
            # The driver refuses NUL in texts before it sends anything.
            what = f"{self.place(place)} cannot be sent" if isinstance(place, int) else place
            raise ToolError("sql", f"{what}: {error}.", type="ValueError") from error

    def _of_server(
        self, error: Any, place: int | str, cursor: extensions.cursor | None, before: int
    ) -> ToolError:
        import psycopg2  # see `Postgres`

        state, line = error.pgcode or "", None
        about: dict[str, Json] = {
            "sqlstate": state,
            "severity": error.diag.severity or "",
            "detail": self._scrub(error.diag.message_detail or ""),
            "hint": error.diag.message_hint or "",
        }
        if isinstance(place, int):
            bound = self.bound[place]
            offset = _origin(bound, int(error.diag.statement_position or 0) - before, cursor)
            line = None if offset is None else bound.statement.line_at(offset)
            about["position"] = None if offset is None else offset + 1
        # Without a SQLSTATE it came from the connection, or from what the driver was given.
        given = isinstance(error, psycopg2.ProgrammingError | psycopg2.DataError | psycopg2.NotSupportedError)
        kind, retryable = meaning(state, lost=not state and not given)
        cause = self._scrub(error.diag.message_primary or str(error))
        return self.failure(place, error, cause, about, kind=kind, retryable=retryable, line=line)

    def show(self, text: str) -> str:
        """See `SqlErrors`."""
        return self._hide_password(super().show(text))

    def unreachable(self, error: Exception) -> ToolError:
        """Why there is no connection."""
        text = self._scrub(str(error))
        name = type(error).__name__
        if _REFUSED.search(str(error)):
            return ToolError("auth", f"PostgreSQL refused the login: {text}", type=name)
        known = getattr(error, "pgcode", None) or ("3D000" if "does not exist" in text else "")
        if known and not known.startswith(("08", "57", "53")):
            return ToolError("sql", f"PostgreSQL refused the connection: {text}", type=name)
        return ToolError("connection", f"PostgreSQL cannot be reached: {text}", retryable=True, type=name)

    def late(self) -> ToolError:
        return ToolError(
            "timeout",
            f"The command did not end within {compact(self._deadline_s)} and was cancelled; raise "
            "`spec.timeout`.",
            retryable=True,
            type="QueryCanceled",
            extras={"pg": {"sqlstate": "57014"}},
        )

    def _scrub(self, text: str) -> str:
        """The first line of what the server said."""
        return self._hide_password((text.strip().splitlines() or [""])[0])

    def _hide_password(self, text: str) -> str:
        return text.replace(self._password, "***") if len(self._password) > 3 else text


def adapt_values(bound: BoundStatement) -> dict[str, Any]:
    """Values as the driver takes them: mappings as JSON, lists of scalars as arrays, unless cast to
    JSON."""
    from psycopg2.extras import Json as AsJson  # see `Postgres`

    as_json = {piece.key for piece in bound.pieces if isinstance(piece, Placeholder) and piece.is_json}

    def adapt(key: str, value: Json) -> Any:
        cast = key in as_json and value is not None and not isinstance(value, str)
        nested = isinstance(value, list) and any(isinstance(item, list | Mapping) for item in value)
        if cast or nested or isinstance(value, Mapping):
            return AsJson(value, dumps=partial(json.dumps, ensure_ascii=False))
        return value

    return {key: adapt(key, value) for key, value in bound.values.items()}


def meaning(state: str, *, lost: bool = False) -> tuple[str, bool]:
    """What a SQLSTATE means: (error kind, worth another try). `lost`: the connection broke."""
    if lost or state.startswith("08") or state in _GONE:
        return "connection", True
    if state == "57014":
        return "timeout", True
    if state.startswith("28"):
        return "auth", False
    return "sql", state in _PASSING


def _origin(bound: BoundStatement, position: int, cursor: extensions.cursor | None) -> int | None:
    """Where in the statement as written the server's `position` (from 1, in the text sent) lies."""
    if position <= 0 or cursor is None:
        return None
    if not bound.has_values:
        return position - 1
    values, sent, written = adapt_values(bound), 0, 0
    for piece in bound.pieces:
        if isinstance(piece, str):
            length = source = len(piece)
        else:
            length = len(cursor.mogrify("%s", (values[piece.key],)).decode("utf-8", "replace"))
            source = len(piece.source)
        if position - 1 < sent + length:
            return written + (position - 1 - sent if isinstance(piece, str) else 0)
        sent, written = sent + length, written + source
    return written
