"""PostgreSQL in few round trips: what need not wait for an answer travels with what has to.

A round trip costs both sides more than most of our statements. So BEGIN travels with the first statement,
changes that need no answer (`later`) travel with the next one, and the last of them with COMMIT. SQLAlchemy
compiles each statement once, psycopg2 sends it; the few whose values SQLAlchemy has to convert go its way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final
from weakref import WeakKeyDictionary

import psycopg2
from sqlalchemy import Connection, Executable
from sqlalchemy.dialects.postgresql import psycopg2 as dialects

from noetl.errors import NoetlError
from noetl.store.engine import translate_cause
from noetl.store.rules import unusable
from noetl.store.session import Check, Found, Session, Values

BEGIN: Final = {
    "durable": b"BEGIN ISOLATION LEVEL READ COMMITTED",
    "relaxed": b"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL synchronous_commit TO off",
    "read": b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
}


#: A change that fails where it changes no row, and with what.
_SURE: Final = b"WITH changed AS (%b RETURNING 1) SELECT 1 / count(*) FROM changed"
_NOTHING_CHANGED: Final = "22012"


@dataclass(frozen=True, slots=True)
class Rows:
    """What came back: as much of a CursorResult as the store uses."""

    rows: Sequence[tuple[Any, ...]]
    rowcount: int

    def first(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None

    def one(self) -> tuple[Any, ...]:
        (row,) = self.rows
        return row

    def scalar(self) -> Any:
        return self.rows[0][0] if self.rows else None

    def scalars(self) -> Iterator[Any]:
        return (row[0] for row in self.rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)


class DirectSession(Session):
    """`connection` must commit by itself: the transaction is begun and ended in words.

    A change that was put off and fails does so at the next statement, or at the commit.
    """

    __slots__ = ("_begun", "_checks", "_raw", "_waiting")

    def __init__(self, connection: Connection, place: str, mode: str) -> None:
        super().__init__(connection, "postgresql", place, writable=mode != "read")
        self._raw: Any = connection.connection.driver_connection
        self._waiting = [BEGIN[mode]]
        self._checks: list[Check] = []
        self._begun = False

    def later(self, statement: Executable, values: Values) -> None:
        if self.failed or not self.writable or (form := _form(statement, values)) is None:
            super().later(statement, values)
            return
        self._waiting.append(self._text(form, values))

    def sure(self, statement: Executable, values: Mapping[str, Any], check: Check) -> None:
        form = _form(statement, values)
        if self.failed or not self.writable or form is None:
            super().sure(statement, values, check)
            return
        self._waiting.append(_SURE % self._text(form, values))
        self._checks.append(check)

    def commit(self) -> None:
        if self._begun or len(self._waiting) > 1:
            self._waiting.append(b"COMMIT")
            self._send_waiting()

    def rollback(self) -> None:
        self._waiting.clear()
        if not self._begun or self._raw.closed:
            return
        try:
            with self._raw.cursor() as cursor:
                cursor.execute(b"ROLLBACK")
        except psycopg2.Error:
            # The server forgets the transaction with the connection, and nobody may have that again.
            self._connection.invalidate()

    def _run(self, statement: Executable, values: Values) -> Found:
        form = None if self.failed else _form(statement, values)
        if form is None:
            self._send_waiting()
            return super()._run(statement, values)
        return self._send(self._text(form, values))

    def _text(self, form: Form, values: Values) -> bytes:
        try:
            with self._raw.cursor() as cursor:
                return form.encoded(cursor, values)
        except (ValueError, OverflowError) as error:
            raise self._refused(error) from error

    def _send_waiting(self) -> None:
        if self._waiting:
            self._send(self._waiting.pop())

    def _send(self, text: bytes) -> Rows:
        """Sends `text` behind what waits. The answer is that of `text`."""
        if self.failed:
            raise unusable()
        words = b"; ".join((*self._waiting, text))
        self._waiting.clear()
        self._begun = True
        try:
            with self._raw.cursor() as cursor:
                cursor.execute(words)
                return Rows(cursor.fetchall() if cursor.description else (), cursor.rowcount)
        except psycopg2.Error as error:
            raise self._broken(error) from error

    def _broken(self, error: psycopg2.Error) -> NoetlError:
        if self._raw.closed:
            # Others in the pool are most likely as dead as this one.
            self._connection.invalidate(error)
            self._connection.engine.dispose()
        elif error.pgcode == _NOTHING_CHANGED:
            return self.fail(self._found_wrong() or translate_cause(error, self._place))
        return self.fail(translate_cause(error, self._place))

    def _found_wrong(self) -> NoetlError | None:
        """The transaction has come to nothing; what the checks ask is answered by the present."""
        self.rollback()
        self._begun = False
        return next((wrong for check in self._checks if (wrong := check()) is not None), None)


@contextmanager
def directly(connection: Connection, place: str, mode: str) -> Iterator[DirectSession]:
    """One transaction: committed on a clean exit, rolled back on an exception."""
    session = DirectSession(connection, place, mode)
    try:
        yield session
        session.commit()
    except BaseException:
        session.rollback()
        raise
    finally:
        # Whoever kept it must not write into the next transaction of this connection.
        session.failed = True


# --- statements as text -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Form:
    """A statement for psycopg2. `fixed` are the values that are part of it, `lists` the names of parameters
    that stand for many values; `row` is the part of a plain INSERT that stands for one row, `head` what is
    before that."""

    sql: str
    fixed: Mapping[str, Any]
    lists: tuple[str, ...]
    head: str
    row: str

    def encoded(self, cursor: Any, values: Values) -> bytes:
        """The statement with its values in it. Raises ValueError where a text holds NUL."""
        if values is None or isinstance(values, Mapping):
            found: bytes = cursor.mogrify(self.sql, self._bound(values or {}))
            return found
        rows = b",".join([cursor.mogrify(self.row, row) for row in values])
        return self.head.encode() + rows

    def _bound(self, values: Mapping[str, Any]) -> Mapping[str, Any]:
        if not self.fixed and not self.lists:
            return values
        bound = {**self.fixed, **values}
        for name in self.lists:
            bound[name] = tuple(bound[name])
        return bound


#: How SQLAlchemy leaves a list that is one parameter; psycopg2 writes a tuple there, with its parentheses.
_LIST = re.compile(r"\(__\[POSTCOMPILE_(\w+)\]\)")
_ROWS = re.compile(r"(INSERT INTO .* VALUES )(\(.*\))")

_dialect: Any = dialects.dialect()  # type: ignore[no-untyped-call]
#: None: the statement is for SQLAlchemy to run.
_forms: WeakKeyDictionary[Executable, Form | None] = WeakKeyDictionary()


def _form(statement: Executable, values: Values) -> Form | None:
    found = _forms.get(statement, _forms)
    if found is _forms:
        found = _forms[statement] = _compile(statement, values)
    form: Form | None = found  # type: ignore[assignment]
    return None if form is None or (not form.row and isinstance(values, Sequence)) else form


def _compile(statement: Any, values: Values) -> Form | None:
    first = (values if isinstance(values, Mapping) else values[0]) if values else {}
    compiled = statement.compile(dialect=_dialect, column_keys=list(first))
    results = (column.type.result_processor(_dialect, None) for column in compiled._result_columns)
    if compiled._bind_processors or any(results):
        return None
    params = compiled.construct_params(None, _check=False)
    sql = str(compiled)
    rows = _ROWS.fullmatch(sql)
    head, row = rows.groups() if rows else ("", "")
    fixed = {name: value for name, value in params.items() if name not in first}
    return Form(_LIST.sub(r"%(\1)s", sql), fixed, tuple(_LIST.findall(sql)), head, row)
