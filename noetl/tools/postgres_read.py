"""Reading through a cursor of the server: no more of an answer is in memory than was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

from noetl.facts.values import unique_names
from noetl.tools.postgres_errors import Faults, adapted
from noetl.tools.sql import Bound, tokens
from noetl.tools.sql_values import Answer, Gathered

if TYPE_CHECKING:
    from psycopg2 import extensions

_READS = frozenset({"select", "values", "table", "with"})
#: Words of statements that a cursor refuses, or that lock: these are sent as they are.
_OTHERS = frozenset({"into", "insert", "update", "delete", "merge", "share"})
_NAME: Final = "noetl_read"
#: Rows of the first piece; the next ones aim at so many characters.
_FIRST = 100
_AIM = 4_000_000
_MOST = 10_000


def is_read(bound: Bound) -> bool:
    """Whether a statement only asks for rows, as far as its words tell."""
    sql = bound.statement.text
    words = [sql[token.start : token.end].lower() for token in tokens(sql) if token.kind == "word"]
    return bool(words) and words[0] in _READS and not _OTHERS.intersection(words)


def read(
    cursor: extensions.cursor,
    bound: Bound,
    index: int,
    faults: Faults,
    gathered: Gathered,
    go_on: Callable[[], None],
) -> Answer:
    """The answer, piece by piece. `go_on` raises where the call must end between two of them.

    Outside of a transaction the cursor gets one of its own.
    """
    from psycopg2 import extensions  # see `Postgres.run`

    connection = cursor.connection
    idle = connection.info.transaction_status == extensions.TRANSACTION_STATUS_IDLE
    own = connection.autocommit and idle
    # After an error the call is over, and whoever takes the connection back rolls back.
    names = _first(cursor, bound, index, faults, gathered, own)
    asked, came = _FIRST, len(gathered.rows)
    while came == asked:
        go_on()
        each = max(gathered.size // len(gathered.rows), 1)
        asked = max(10, min(_MOST, _AIM // each))
        came = _next(cursor, names, index, faults, gathered, asked)
    with faults.of_statement(index):
        cursor.execute(f"CLOSE {_NAME}" + ("; COMMIT" if own else ""))
    return Answer(names, gathered.rows, len(gathered.rows), f"SELECT {len(gathered.rows)}")


def _first(
    cursor: extensions.cursor, bound: Bound, index: int, faults: Faults, gathered: Gathered, own: bool
) -> list[str]:
    before = ("BEGIN; " if own else "") + f"DECLARE {_NAME} NO SCROLL CURSOR FOR\n"
    # On a line of its own: the statement may end in a comment.
    behind = f"\n; FETCH FORWARD {_FIRST} FROM {_NAME}"
    with faults.of_statement(index, cursor, len(before)):
        if bound.has_values:
            cursor.execute(before + bound.pyformat() + behind, adapted(bound))
        else:
            cursor.execute(before + bound.statement.text + behind)
        names = unique_names(column.name for column in cursor.description or ())
        rows = cursor.fetchall()
    gathered.add(names, rows)
    return names


def _next(
    cursor: extensions.cursor, names: list[str], index: int, faults: Faults, gathered: Gathered, asked: int
) -> int:
    with faults.of_statement(index):
        cursor.execute(f"FETCH FORWARD {asked} FROM {_NAME}")
        rows = cursor.fetchall()
    gathered.add(names, rows)
    return len(rows)
