"""Rows into a PostgreSQL table, in pieces, within the transaction that is open."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.postgres.errors import PostgresErrors
from noetl.tools.sql.rows import TableWrite, WritePlan, batches, decode_rows, plan

if TYPE_CHECKING:
    from psycopg2 import extensions

_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_OTHERS = """
    SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'f')
    AND pg_table_is_visible(oid) AND relnamespace <> 'pg_catalog'::regnamespace LIMIT 1000"""
#: What the text form of COPY escapes.
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_JSON = ("json", "jsonb")
#: Lines that are made, and sent, at once.
_LINES = 500


def write_rows(
    cursor: extensions.cursor, write: TableWrite, faults: PostgresErrors, go_on: Callable[[], None]
) -> dict[str, Json]:
    """Writes the rows. `go_on` raises where the call must end between two pieces. Raises
    ToolError."""
    if len(write.table) > 2:
        raise ToolError(
            "client_error",
            f"PostgreSQL writes to one database, not to '{write.name}': write `schema.table`.",
            type="BadName",
        )
    with faults.explain(f"The table '{write.name}' cannot be looked up"):
        known, others = describe_table(cursor, write)
    planned = plan(write, known, others, fold=False)
    with faults.explain(f"The rows cannot be written to '{write.name}'"):
        if write.mode == "replace":
            cursor.execute(write.delete)
        if write.mode == "copy":
            _copy(cursor, planned, go_on)
        else:
            _insert(cursor, planned, go_on)
    return write.result()


def describe_table(cursor: extensions.cursor, write: TableWrite) -> tuple[dict[str, str], list[str]]:
    """Columns of the table and their types; where there is none, the tables that there are."""
    cursor.execute(_COLUMNS, (write.target,))
    known = dict(cursor.fetchall())
    others: list[str] = []
    if not known:
        cursor.execute(_OTHERS)
        others = [row[0] for row in cursor.fetchall()]
    return known, others


def _insert(cursor: extensions.cursor, planned: WritePlan, go_on: Callable[[], None]) -> None:
    """The server takes the rows apart by the types of the columns: arrays, documents and exact
    numbers alike."""
    fields = ", ".join(
        f"c{index} {'text' if kind == 'bytea' else kind}" for index, kind in enumerate(planned.types)
    )
    values = ", ".join(
        f"decode(r.c{index}, 'base64')" if kind == "bytea" else f"r.c{index}"
        for index, kind in enumerate(planned.types)
    )
    head = f"INSERT INTO {planned.into} SELECT {values} FROM json_to_recordset("  # noqa: S608 - quoted
    tail = f"::json) AS r({fields}){planned.extra}"
    # Of a name every `%` is doubled: the driver looks for its own.
    text = head.replace("%", "%%") + "%s" + tail.replace("%", "%%")
    for batch in batches(planned.write):
        go_on()
        cursor.execute(text, (batch,))


def _copy(cursor: extensions.cursor, planned: WritePlan, go_on: Callable[[], None]) -> None:
    lines = ("\t".join(map(_cell, row, planned.types)) + "\n" for row in decode_rows(planned, ("bytea",)))
    while text := "".join(itertools.islice(lines, _LINES)):
        go_on()
        cursor.copy_expert(f"COPY {planned.into} FROM STDIN", io.BytesIO(text.encode()))


def _cell(value: object, kind: str) -> str:
    return "\\N" if value is None else _text(value, kind).translate(_ESCAPES)


def _text(value: object, kind: str) -> str:
    """A value in the text form of its type."""
    if kind in _JSON:
        return json.dumps(value, ensure_ascii=False)
    match value:
        case bytes():
            return "\\x" + value.hex()
        case bool():
            return "t" if value else "f"
        case list() if kind.endswith("[]"):
            return _array(value, kind.removesuffix("[]"))
        case list() | Mapping():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def _array(items: list[object], kind: str) -> str:
    return "{" + ",".join(_item(item, kind) for item in items) + "}"


def _item(item: object, kind: str) -> str:
    if item is None:
        return "NULL"
    if isinstance(item, list) and kind not in _JSON:
        return _array(item, kind)
    text = _text(item, kind).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{text}"'
