"""Rows into an SQLite table."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.sql.rows import Plan, Write, decoded, plan, quoted, tuples
from noetl.tools.sqlite.values import Faults, scalar


def written(connection: sqlite3.Connection, write: Write, faults: Faults) -> dict[str, Json]:
    """Writes the rows within the transaction that is open. Raises ToolError."""
    if len(write.table) > 2:
        raise ToolError(
            "client_error", f"SQLite knows no table '{write.name}': write `table`.", type="BadName"
        )
    with faults.explained():
        planned = _planned(connection, write)
        if write.mode == "replace":
            connection.execute(f"DELETE FROM {write.target}")  # noqa: S608 - quoted
        if write.rows:
            connection.executemany(_insert(planned), _tuples(planned))
    return write.result()


def _planned(connection: sqlite3.Connection, write: Write) -> Plan:
    known, others = described(connection, write)
    return plan(write, known, fold=True, others=others)


def described(connection: sqlite3.Connection, write: Write) -> tuple[dict[str, str], list[str]]:
    """Columns of the table and their types, and the tables that there are."""
    schema = f"{quoted(write.table[0])}." if len(write.table) > 1 else ""
    columns = connection.execute(f"PRAGMA {schema}table_info({quoted(write.table[-1])})").fetchall()
    others = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    return {str(column[1]): str(column[2]).upper() for column in columns}, [str(row[0]) for row in others]


def _insert(planned: Plan) -> str:
    marks = ", ".join("?" for _ in planned.names)
    head = f"INSERT INTO {planned.write.target} ({planned.column_list})"
    return f"{head} VALUES ({marks}){planned.extra}"


def _tuples(planned: Plan) -> Iterator[tuple[object, ...]]:
    kinds = dict(zip(planned.write.columns, planned.types, strict=True))

    def convert(index: int, name: str, value: Json) -> object:
        return decoded(value, index, name) if "BLOB" in kinds[name] else scalar(value)

    return tuples(planned.write, convert)
