"""SQLite through its driver: opening a file, what SQL may not do from there, values, errors, and
rows into a table."""

from __future__ import annotations

import contextlib
import re
import sqlite3
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, partial
from pathlib import Path
from typing import Final

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json
from noetl.tools.kit.files import advise_folder
from noetl.tools.sql.calls import ROWS, SqlErrors
from noetl.tools.sql.exactness import inexact, number_in
from noetl.tools.sql.files import MEMORY, database_in_use, refuse_engine
from noetl.tools.sql.plan import TableColumn, WritePlan, check_bytes, decode_rows, plan
from noetl.tools.sql.rows import TableWrite, quote
from noetl.tools.sql.text import Statement

#: Largest text or blob, in bytes.
_LENGTH: Final = 256 * 1024 * 1024
#: These change the whole process, in which the engine's own SQLite lives too.
_PROCESS_WIDE: Final = frozenset(
    {"soft_heap_limit", "hard_heap_limit", "temp_store_directory", "data_store_directory"}
)
_SHORTEST_S: Final = 0.01
_INT64: Final = 1 << 63
#: In the type of a column that keeps texts as they are; others make numbers of them, if they can.
_TEXTS: Final = ("CHAR", "CLOB", "TEXT", "BLOB")
#: In the type of a column that makes floats of integers.
_FLOATS: Final = ("REAL", "FLOA", "DOUB")
#: Names of errors that a second try may get past.
_PASSING: Final = ("SQLITE_BUSY", "SQLITE_LOCKED")
_NEAR: Final = re.compile(r'near "(.+)": syntax error')


@dataclass(frozen=True, slots=True)
class LockWaits:
    """How long a call may wait for others: until `ends` (monotonic seconds), each time at most
    `each_s`."""

    ends: float
    each_s: float

    def remaining(self) -> float:
        """Seconds until the call must end."""
        return max(self.ends - time.monotonic(), 0.0)

    def set(self, connection: sqlite3.Connection) -> None:
        seconds = max(min(self.each_s, self.remaining()), _SHORTEST_S)
        connection.execute(f"PRAGMA busy_timeout = {round(seconds * 1000)}")


@contextlib.contextmanager
def connect(path: Path | None, read_only: bool, waits: LockWaits) -> Iterator[sqlite3.Connection]:
    """A connection in autocommit mode with a write-ahead log. Raises ToolError where the file
    cannot be used, and for the database of the engine itself."""
    try:
        connection = _connect(path, read_only, waits)
    except (sqlite3.Error, OSError) as error:
        raise _explain_opening(path, read_only, error) from error
    try:
        yield connection
    finally:
        connection.close()


def _connect(path: Path | None, read_only: bool, waits: LockWaits) -> sqlite3.Connection:
    connection = sqlite3.connect(
        MEMORY if path is None else f"{path.as_uri()}?mode={'ro' if read_only else 'rwc'}",
        uri=path is not None,
        isolation_level=None,
        check_same_thread=False,  # the deadline interrupts from another thread
    )
    try:
        waits.set(connection)
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LENGTH)
        if path is not None:
            refuse_engine(connection, path)
            if not read_only:
                connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA foreign_keys = ON")
        connection.set_authorizer(_authorize)
    except BaseException:
        connection.close()
        raise
    return connection


def _authorize(
    action: int, first: str | None, _two: str | None, _three: str | None, _four: str | None
) -> int:
    # Not ATTACH and not VACUUM INTO: other files are not this task's. VACUUM attaches '', which is
    # none.
    if action == sqlite3.SQLITE_ATTACH and first not in ("", MEMORY):
        return sqlite3.SQLITE_DENY
    if action == sqlite3.SQLITE_PRAGMA and (first or "").lower() in _PROCESS_WIDE:
        return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK


def _explain_opening(path: Path | None, read_only: bool, error: Exception) -> ToolError:
    name = _name_of(error)
    if path is not None and name.startswith(_PASSING):
        return database_in_use(path, "another connection")
    if path is not None and name == "SQLITE_CANTOPEN" and read_only and not path.exists():
        return ToolError(
            "client_error", f"The database {path} does not exist, and is opened for reading only.", type=name
        )
    advice = "" if path is None else advise_folder(path)
    return ToolError("sql", f"The database {path or MEMORY} cannot be opened: {error}{advice}.", type=name)


def bindable(value: Json) -> object:
    """A value as the driver takes it: lists and mappings as JSON text, exact numbers as a float
    where that is the same number, else as text."""
    if isinstance(value, Decimal):
        number = float(value)
        return number if Decimal(repr(number)) == value else json.digits(value)
    return json.dumps(value, ensure_ascii=False) if isinstance(value, list | Mapping) else value


def storable_row(values: Sequence[Json], part: WritePlan, number: Callable[[], int]) -> list[object]:
    """The values of a row of `part` as their columns have them. Raises ToolError, which says the
    `number` of the row, for a number that becomes another one there."""
    stored = []
    for value, kind, name in zip(values, part.types, part.names, strict=True):
        try:
            stored.append(_storable(value, kind))
        except ArithmeticError as error:
            raise inexact(number(), name, kind, value, "make it a column of TEXT") from error
    return stored


def _storable(value: Json, kind: str) -> object:
    """Raises ArithmeticError where the column cannot hold the number that `value` is, or says."""
    match value:
        case str():
            said = None if _keeps_texts(kind) else number_in(value)
            if said is not None:
                _storable(said, kind)
            return value
        case int() if -_INT64 <= value < _INT64:
            return _as_float(Decimal(value)) if _makes_floats(kind) else value
        case int() | Decimal() if _keeps_texts(kind):
            return json.digits(Decimal(value))
        case Decimal() if value == value.to_integral_value() and abs(value) < _INT64:
            return _storable(int(value), kind)
        case int() | Decimal():
            return _as_float(Decimal(value))
        case _:
            return bindable(value)


@cache
def _keeps_texts(kind: str) -> bool:
    return not kind or any(word in kind for word in _TEXTS)


@cache
def _makes_floats(kind: str) -> bool:
    return "INT" not in kind and any(word in kind for word in _FLOATS)


def _as_float(number: Decimal) -> float:
    """The float that is the same number. Raises ArithmeticError where there is none."""
    found = bindable(number)
    if not isinstance(found, float):
        raise ArithmeticError(number)
    return found


class SqliteErrors(SqlErrors):
    """Explains errors of SQLite."""

    section = "sqlite"

    @contextlib.contextmanager
    def explain(self, place: int | str = ROWS) -> Iterator[None]:
        """`place`: see `SqlErrors.failure`. Raises ToolError for whatever SQLite raises in the
        block."""
        try:
            yield
        # Integers beyond 64 bits, and texts that are not Unicode, are refused before anything runs.
        except (sqlite3.Error, OverflowError, ValueError) as error:
            name = _name_of(error)
            raise self.failure(
                place,
                error,
                _cause(error, name),
                {"code": name},
                kind=_kind(name),
                retryable=name.startswith(_PASSING),
                line=_line(self.bound[place].statement, str(error)) if isinstance(place, int) else None,
            ) from error


def _name_of(error: Exception) -> str:
    return str(getattr(error, "sqlite_errorname", type(error).__name__))


def _kind(name: str) -> str:
    if name.startswith(_PASSING):
        return "connection"
    return "limit" if name in ("SQLITE_NOMEM", "SQLITE_TOOBIG", "SQLITE_FULL") else "sql"


def _cause(error: Exception, name: str) -> str:
    if name.startswith("SQLITE_AUTH"):
        return f"{error} (ATTACH, VACUUM INTO, and settings of the whole process are refused)"
    if name.startswith(_PASSING):
        return f"{error}; another connection uses the file for longer than `busy_timeout` allows"
    return str(error)


def _line(statement: Statement, message: str) -> int:
    """SQLite names the word where it stumbled, not its place: that is known where the word stands
    once."""
    near = _NEAR.search(message)
    places = [token.start for token in statement.tokens if near and token.text == near[1]]
    return statement.line_at(places[0]) if len(places) == 1 else statement.line


def write_rows(connection: sqlite3.Connection, write: TableWrite) -> dict[str, Json]:
    """Writes the rows within the transaction that is open. Raises ToolError, and what the driver
    raises."""
    if len(write.table) > 2:
        raise ToolError(
            "client_error", f"SQLite knows no table '{write.name}': write `table`.", type="BadName"
        )
    planned = plan(write, *describe_table(connection, write), fold=True)
    if write.mode == "replace":
        connection.execute(write.delete)
    blobs = [kind for kind in planned.types if "BLOB" in kind]
    check_bytes(planned, blobs)
    for part in planned.parts():
        pairs = zip(part.rows, decode_rows(part, blobs), strict=True)
        cells = (storable_row(values, part, partial(part.number_of, row)) for row, values in pairs)
        connection.executemany(part.insert_marks(), cells)
    return write.result()


def describe_table(
    connection: sqlite3.Connection, write: TableWrite
) -> tuple[dict[str, TableColumn], list[str]]:
    """Columns of the table, and the tables that there are."""
    schema = f"{quote(write.table[0])}." if len(write.table) > 1 else ""
    columns = connection.execute(f"PRAGMA {schema}table_info({quote(write.table[-1])})").fetchall()
    others = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    known = {
        str(name): TableColumn(str(kind).upper(), default is not None, bool(required) and default is None)
        for _, name, kind, required, default, _ in columns
    }
    return known, [str(row[0]) for row in others]
