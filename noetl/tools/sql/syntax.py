"""Whether a text is SQL, as the parser of its database says: no table is looked for, and nothing is
run."""

from __future__ import annotations

import contextlib
import re
import sqlite3
from typing import Final, TypeAlias

from noetl.tools.sql.text import split, tokens

#: The character at which a text is no SQL, and why.
SyntaxFault: TypeAlias = tuple[int, str]

_LINE: Final = re.compile(r"^LINE (\d+): ", re.MULTILINE)
#: SQLite says no more about a text that it cannot parse.
_NO_SQLITE: Final = re.compile(
    r"(near \"(?P<near>.*)\": syntax error|incomplete input|unrecognized token.*)$", re.DOTALL
)
#: What SQLite does while it only prepares them, and what EXPLAIN cannot stand before.
_NOT_EXPLAINED: Final = frozenset({"pragma", "attach", "detach", "vacuum", "explain"})


def replace_names(text: str, with_params: bool) -> str:
    """`text` with `$1` in the place of each `:name`, of the same length: characters stay where they
    are."""
    if not with_params:
        return text
    found = list(text)
    for one in tokens(text):
        if one.kind == "name":
            found[one.start : one.end] = "$1".ljust(one.end - one.start)
    return "".join(found)


def duckdb_fault(text: str, with_params: bool) -> SyntaxFault | None:
    """What DuckDB's own parser says."""
    import duckdb  # it takes 90 ms, and most processes never need it

    sql = replace_names(text, with_params)
    try:
        duckdb.extract_statements(sql)
    except duckdb.ParserException as error:
        said = str(error)
        return _place(sql, said), _sentence(said.removeprefix("Parser Error: "))
    except duckdb.Error:
        return None  # of something else than its syntax
    return None


def _place(sql: str, said: str) -> int:
    """The character that DuckDB points at with a caret below the line."""
    line = _LINE.search(said)
    if line is None:
        return 0
    start = sum(len(one) + 1 for one in sql.split("\n")[: int(line[1]) - 1])
    quoted, _, below = said[line.end() :].partition("\n")
    column = below.find("^") - len(line[0])
    is_whole = sql[start:].startswith(quoted)
    return min(start + max(column if is_whole else 0, 0), max(len(sql) - 1, 0))


def postgres_fault(text: str, with_params: bool) -> SyntaxFault | None:
    """What the parser of PostgreSQL says."""
    # Imported here: it takes a fifth of a second, and only processes need it that look at SQL of
    # PostgreSQL.
    import postgast

    sql = replace_names(text, with_params)
    try:
        postgast.parse(sql)
    except postgast.PgQueryError as error:
        place = max(int(error.cursorpos or 1) - 1, 0)
        return min(place, max(len(sql) - 1, 0)), _sentence(str(error.message))
    except (ValueError, RecursionError):
        return None  # nested deeper than the answer may be
    return None


def sqlite_fault(text: str, _with_params: bool) -> SyntaxFault | None:
    """What SQLite says when it prepares each statement without any table. It tells a fault of the
    syntax from others."""
    with contextlib.closing(sqlite3.connect(":memory:")) as connection:
        for statement in split(text):
            if statement.text[statement.lead :].split(None, 1)[0].lower() in _NOT_EXPLAINED:
                continue
            try:
                connection.execute(f"EXPLAIN {statement.text}")
            except sqlite3.OperationalError as error:
                if found := _NO_SQLITE.search(str(error)):
                    near = statement.text.find(found["near"] or "", statement.lead)
                    return statement.offset + max(near, 0), _sentence(str(error))
            except sqlite3.Error:
                continue  # a parameter that has no value, among others
    return None


def _sentence(said: str) -> str:
    return " ".join(said.strip().partition("\n")[0].split())[:200].rstrip(".")
