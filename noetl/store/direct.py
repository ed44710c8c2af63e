"""PostgreSQL in few round trips: what need not wait for an answer travels with what has to.

A round trip costs both sides more than most of our statements, and so does planning them again each
time. So BEGIN travels with the first statement, changes that need no answer (`later`) travel with
the next one, the last of them with COMMIT, and each connection prepares a statement once.
SQLAlchemy compiles, psycopg2 sends; the few statements whose values SQLAlchemy has to convert go
its way.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import psycopg2
from psycopg2.extensions import adapt
from sqlalchemy import Connection, Executable
from sqlalchemy.dialects.postgresql import psycopg2 as dialects

from noetl.errors import NoetlError
from noetl.store.engine import translate_cause
from noetl.store.installation import Installation
from noetl.store.session import Check, Rows, Session, Values, compile_once, unusable
from noetl.store.watching import make_notice

_RELAXED: Final = b"SET LOCAL synchronous_commit TO off"
BEGIN: Final = {
    "durable": b"BEGIN ISOLATION LEVEL READ COMMITTED",
    "relaxed": b"BEGIN ISOLATION LEVEL READ COMMITTED; " + _RELAXED,
    "read": b"BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
}


#: A change that fails where it changes no row (a division by zero, in the server), and the code of
#: that error. It may so travel with what follows it: a turn is 15 % slower where its row counts are
#: waited for (decision 59).
_SURE: Final = "WITH changed AS ({} RETURNING 1) SELECT 1 / count(*) FROM changed"
_NOTHING_CHANGED: Final = "22012"

#: Where a connection keeps the names of what it has prepared.
_PREPARED: Final = "noetl_prepared"


class DirectSession(Session):
    """`connection` must commit by itself: the transaction is begun and ended in words.

    A change that was put off and fails does so at the next statement, or at the commit.
    """

    def __init__(self, connection: Connection, place: str, mode: str, installation: Installation) -> None:
        super().__init__(connection, "postgresql", place, mode, installation)
        self._raw: Any = connection.connection.driver_connection
        self._waiting = [BEGIN[mode]]
        self._checks: list[Check] = []
        self._begun = False
        self._prepared: set[str] = connection.info.setdefault(_PREPARED, set())
        #: Named in `_waiting`, and not yet known to have arrived.
        self._preparing: set[str] = set()

    def later(self, statement: Executable, values: Values) -> None:
        rows = values if isinstance(values, Sequence) else [values or {}]
        if self.failed or not self.writable or (form := _form(statement, rows[0])) is None:
            super().later(statement, values)
            return
        self._waiting += [self._text(form, row) for row in rows]

    def sure(self, statement: Executable, values: Mapping[str, Any], check: Check) -> None:
        form = _form(statement, values)
        if self.failed or not self.writable or form is None:
            super().sure(statement, values, check)
            return
        self._waiting.append(self._text(form.sure(), values))
        self._checks.append(check)

    def read_once(self, statement: Executable, values: Mapping[str, Any] | None = None) -> Rows:
        self._send_waiting()
        return super()._run(statement, values)

    def alone(self, statement: Executable, values: Mapping[str, Any]) -> Rows:
        """Statements that travel together without BEGIN are a transaction by themselves."""
        begin = BEGIN["relaxed"]
        if self._begun or self._waiting != [begin]:
            return super().alone(statement, values)
        self._waiting = [_RELAXED]
        found = self.write(statement, values)
        self._waiting, self._begun = [begin], False
        return found

    def commit(self) -> None:
        if self._begun or len(self._waiting) > 1:
            self._waiting.append(b"COMMIT")
            if self.changed:
                # Behind the commit, in the same message: whoever notifies inside of a transaction
                # holds a lock of the whole database until its commit is on the disk (decision 41).
                self._waiting.append(make_notice(self.installation, self.changed))
            self._send_waiting()

    def rollback(self) -> None:
        self._waiting.clear()
        self._preparing.clear()
        if not self._begun or self._raw.closed:
            return
        # How far a message came that failed is not known: what it prepared may be there or not.
        self._prepared.clear()
        try:
            with self._raw.cursor() as cursor:
                cursor.execute(b"ROLLBACK; DEALLOCATE ALL")
        except psycopg2.Error:
            # The server forgets the transaction with the connection, which must not be used again.
            self._connection.invalidate()

    def _run(self, statement: Executable, values: Values) -> Rows:
        if not self.failed and (values is None or isinstance(values, Mapping)):
            form = _form(statement, values or {})
            if form is not None:
                return self._send(self._text(form, values or {}))
        self._send_waiting()
        return super()._run(statement, values)

    def _text(self, form: StatementForm, values: Mapping[str, Any]) -> bytes:
        if form.name not in self._prepared and form.name not in self._preparing:
            self._preparing.add(form.name)
            self._waiting.append(form.prepare)
        try:
            with self._raw.cursor() as cursor:
                return form.call(cursor, values)
        except (ValueError, OverflowError) as error:
            raise self._refuse_value(error) from error

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
                found = Rows(cursor.fetchall() if cursor.description else (), cursor.rowcount)
        except psycopg2.Error as error:
            raise self._translate(error) from error
        self._prepared |= self._preparing
        self._preparing.clear()
        return found

    def _translate(self, error: psycopg2.Error) -> NoetlError:
        if self._raw.closed:
            # Others in the pool are most likely as dead as this one.
            self._connection.invalidate(error)
            self._connection.engine.dispose()
        elif error.pgcode == _NOTHING_CHANGED:
            return self.fail(self._find_fault() or translate_cause(error, self._place))
        return self.fail(translate_cause(error, self._place))

    def _find_fault(self) -> NoetlError | None:
        """The transaction has come to nothing; what the checks ask is answered by the present."""
        self.rollback()
        self._begun = False
        return next((wrong for check in self._checks if (wrong := check()) is not None), None)


@contextmanager
def open_direct(
    connection: Connection, place: str, mode: str, installation: Installation
) -> Iterator[DirectSession]:
    """One transaction: committed on a clean exit, rolled back on an exception."""
    session = DirectSession(connection, place, mode, installation)
    try:
        yield session
        session.commit()
    except BaseException:
        session.rollback()
        raise
    finally:
        session.close()


# --- statements as text ---


@dataclass(frozen=True, slots=True)
class StatementForm:
    """A statement that a connection prepares under `name`. `params` are in the order of its `$1, $2
    ...`."""

    name: str
    sql: str
    params: tuple[str, ...]

    @property
    def prepare(self) -> bytes:
        return f"PREPARE {self.name} AS {self.sql}".encode()

    def call(self, cursor: Any, values: Mapping[str, Any]) -> bytes:
        """Raises ValueError where a text holds NUL."""
        if not self.params:
            return f"EXECUTE {self.name}".encode()
        marks = ",".join(["%s"] * len(self.params))
        text: bytes = cursor.mogrify(f"EXECUTE {self.name}({marks})", [values[name] for name in self.params])
        return text

    def sure(self) -> StatementForm:
        """The same change, failing where it changes no row."""
        return StatementForm(f"{self.name}_sure", _SURE.format(self.sql), self.params)


#: How SQLAlchemy leaves a list that is one parameter: `x IN (__[POSTCOMPILE_ids])`.
_LIST = re.compile(r"(NOT )?IN \(__\[POSTCOMPILE_(\w+)\]\)")
_PARAM = re.compile(r"%\((\w+)\)s|%%")

_dialect: Any = dialects.dialect()  # type: ignore[no-untyped-call]
_numbers = itertools.count(1)


@compile_once
def _form(statement: Any, values: Mapping[str, Any]) -> StatementForm | None:
    compiled = statement.compile(dialect=_dialect, column_keys=list(values))
    results = (column.type.result_processor(_dialect, None) for column in compiled._result_columns)
    if compiled._bind_processors or any(results):
        return None
    #: In the words of SQL: values that are part of the statement, and below the places of those
    #: given to it.
    words = {
        name: str(adapt(bound.value).getquoted(), "ascii")
        for name, bound in compiled.binds.items()
        if not bound.required
    }
    params: dict[str, str] = {}

    def place(found: re.Match[str]) -> str:
        name = found[1]
        if name is None:
            return "%"
        return words.get(name) or params.setdefault(name, f"${len(params) + 1}")

    lists = _LIST.sub(lambda found: f"{'<> ALL' if found[1] else '= ANY'} (%({found[2]})s)", str(compiled))
    sql = _PARAM.sub(place, lists)
    return StatementForm(f"noetl_{next(_numbers)}", sql, tuple(params))
