"""SQLite past the execution of SQLAlchemy, which costs three times as much as most of our
statements: a turn has dozens of them.

SQLAlchemy compiles each statement once, and says how values become SQLite's and back.
"""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, Executable
from sqlalchemy.dialects.sqlite import pysqlite

from noetl.store.engine import translate_cause
from noetl.store.session import Rows, Session, Values, compile_once

Convert: TypeAlias = Callable[[Any], Any]


class LiteSession(Session):
    """A transaction of SQLite, which SQLAlchemy begins and ends."""

    def __init__(self, connection: Connection, place: str, mode: str) -> None:
        super().__init__(connection, "sqlite", place, mode)
        raw = connection.connection.driver_connection
        assert isinstance(raw, sqlite3.Connection)
        self._raw = raw

    def read_once(self, statement: Executable, values: Mapping[str, Any] | None = None) -> Rows:
        return super()._run(statement, values)

    def _run(self, statement: Executable, values: Values) -> Rows:
        first = values[0] if isinstance(values, Sequence) and values else values
        form = None if self.failed or isinstance(first, Sequence) else _form(statement, first or {})
        if form is None:
            return super()._run(statement, values)
        try:
            if isinstance(values, Sequence):
                return form.run_many(self._raw, values)
            return form.run(self._raw, values or {})
        except sqlite3.Error as error:
            lost = "closed database" in str(error)
            raise self.fail(translate_cause(error, self._place, lost=lost)) from error
        except (ValueError, OverflowError) as error:
            raise self._refuse_value(error) from error


@dataclass(frozen=True, slots=True)
class StatementForm:
    """The text of a statement, and how its values travel: `constants` are part of it, `lists` names
    those that are lists."""

    sql: str
    constants: Mapping[str, Any]
    lists: tuple[str, ...]
    binds: Mapping[str, Convert]
    #: By place in a row. Without any of them a row is as SQLite has it.
    results: tuple[tuple[int, Convert], ...]

    def run(self, raw: sqlite3.Connection, values: Mapping[str, Any]) -> Rows:
        cursor = raw.execute(*self._filled(self._bound(values)))
        rows = cursor.fetchall() if cursor.description else []
        return Rows([self._row(row) for row in rows] if self.results else rows, cursor.rowcount)

    def run_many(self, raw: sqlite3.Connection, values: Sequence[Mapping[str, Any]]) -> Rows:
        cursor = raw.executemany(self.sql, [self._bound(row) for row in values])
        return Rows((), cursor.rowcount)

    def _bound(self, values: Mapping[str, Any]) -> dict[str, Any]:
        bound = {**self.constants, **values}
        for name, convert in self.binds.items():
            bound[name] = convert(bound[name])
        return bound

    def _filled(self, bound: dict[str, Any]) -> tuple[str, dict[str, Any]]:
        """With a mark for each member of a list."""
        sql = self.sql
        for name in self.lists:
            members = {f"{name}__{number}": member for number, member in enumerate(bound.pop(name))}
            sql = sql.replace(_list(name), ",".join(f":{mark}" for mark in members))
            bound |= members
        return sql, bound

    def _row(self, row: tuple[Any, ...]) -> tuple[Any, ...]:
        values = list(row)
        for at, convert in self.results:
            values[at] = convert(values[at])
        return tuple(values)


_dialect: Any = pysqlite.dialect(paramstyle="named")


def _list(name: str) -> str:
    """How SQLAlchemy leaves the place of a list."""
    return f"__[POSTCOMPILE_{name}]"


_LISTS: Final = re.compile(r"__\[POSTCOMPILE_(\w+)\]")


@compile_once
def _form(statement: Any, values: Mapping[str, Any]) -> StatementForm | None:
    compiled = statement.compile(dialect=_dialect, column_keys=list(values))
    lists = tuple(dict.fromkeys(_LISTS.findall(str(compiled))))
    binds = compiled._bind_processors
    if any(name in binds for name in lists) or _has_defaults(compiled):
        return None
    constants = {name: bound.effective_value for name, bound in compiled.binds.items() if not bound.required}
    types = (column.type.dialect_impl(_dialect) for column in compiled._result_columns)
    results = enumerate(kind.result_processor(_dialect, None) for kind in types)
    return StatementForm(
        str(compiled), constants, lists, binds, tuple((at, convert) for at, convert in results if convert)
    )


def _has_defaults(compiled: Any) -> bool:
    """Whether SQLAlchemy makes values of its own for it."""
    return bool(getattr(compiled, "insert_prefetch", ()) or getattr(compiled, "update_prefetch", ()))
