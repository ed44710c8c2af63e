"""Rows into a PostgreSQL table, in pieces, within the transaction that is open."""

from __future__ import annotations

import io
import itertools
import json
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.postgres.errors import Faults
from noetl.tools.sql.rows import Plan, Write, batches, decoded, plan, tuples

if TYPE_CHECKING:
    from psycopg2 import extensions
    from typing_extensions import Buffer

_COLUMNS = """
    SELECT attname, format_type(atttypid, atttypmod) FROM pg_attribute
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_OTHERS = """
    SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'f')
    AND pg_table_is_visible(oid) AND relnamespace <> 'pg_catalog'::regnamespace LIMIT 1000"""
#: What the text form of COPY escapes.
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_JSON = ("json", "jsonb")
#: Lines that are made at once.
_LINES = 64


def written(
    cursor: extensions.cursor, write: Write, faults: Faults, go_on: Callable[[], None]
) -> dict[str, Json]:
    """Writes the rows. `go_on` raises where the call must end between two pieces. Raises ToolError."""
    if len(write.table) > 2:
        raise ToolError(
            "client_error",
            f"PostgreSQL writes to one database, not to '{write.name}': write `schema.table`.",
            type="BadName",
        )
    planned = _planned(cursor, write, faults)
    with faults.of(f"The rows cannot be written to '{write.name}'"):
        if write.mode == "replace":
            cursor.execute(f"DELETE FROM {write.target}")  # noqa: S608 - quoted
        if write.mode == "copy":
            _copy(cursor, planned, go_on)
        else:
            _insert(cursor, planned, go_on)
    return write.result()


def _planned(cursor: extensions.cursor, write: Write, faults: Faults) -> Plan:
    with faults.of(f"The table '{write.name}' cannot be looked up"):
        known, others = described(cursor, write)
    return plan(write, known, fold=False, others=others)


def described(cursor: extensions.cursor, write: Write) -> tuple[dict[str, str], list[str]]:
    """Columns of the table and their types; where there is none, the tables that there are."""
    cursor.execute(_COLUMNS, (write.target,))
    known = dict(cursor.fetchall())
    others: list[str] = []
    if not known:
        cursor.execute(_OTHERS)
        others = [row[0] for row in cursor.fetchall()]
    return known, others


def _insert(cursor: extensions.cursor, planned: Plan, go_on: Callable[[], None]) -> None:
    """The server takes the rows apart by the types of the columns: arrays, documents and exact numbers alike."""
    fields = ", ".join(f"c{index} {_field(kind)}" for index, kind in enumerate(planned.types))
    values = ", ".join(
        f"decode(r.c{index}, 'base64')" if kind == "bytea" else f"r.c{index}"
        for index, kind in enumerate(planned.types)
    )
    into = f"INSERT INTO {planned.write.target} ({planned.column_list})"
    head = f"{into} SELECT {values} FROM json_to_recordset("  # noqa: S608 - quoted
    tail = f"::json) AS r({fields}){planned.extra}"
    # Of a name every `%` is doubled: the driver looks for its own.
    text = head.replace("%", "%%") + "%s" + tail.replace("%", "%%")
    for batch in batches(planned.write):
        go_on()
        cursor.execute(text, (batch,))


def _field(kind: str) -> str:
    return "text" if kind == "bytea" else kind


def _copy(cursor: extensions.cursor, planned: Plan, go_on: Callable[[], None]) -> None:
    if not planned.write.rows:
        return
    import psycopg2  # see `Postgres.run`

    stream = _Stream(_lines(planned, go_on))
    try:
        cursor.copy_expert(f"COPY {planned.write.target} ({planned.column_list}) FROM STDIN", stream)
    except psycopg2.Error:
        # What went wrong while the rows were made reaches the driver as an error of the server.
        if stream.failed is not None:
            raise stream.failed from None
        raise


class _Stream(io.RawIOBase):
    """A file that is made while it is read."""

    def __init__(self, lines: Iterator[str]) -> None:
        super().__init__()
        self._lines = lines
        self._left = b""
        self.failed: Exception | None = None

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Buffer) -> int:
        space = memoryview(buffer)
        try:
            self._left = self._left or "".join(itertools.islice(self._lines, _LINES)).encode()
        except Exception as error:
            self.failed = error
            raise
        taken, self._left = self._left[: len(space)], self._left[len(space) :]
        space[: len(taken)] = taken
        return len(taken)


def _lines(planned: Plan, go_on: Callable[[], None]) -> Iterator[str]:
    kinds = dict(zip(planned.write.columns, planned.types, strict=True))

    def convert(index: int, name: str, value: Json) -> str:
        return _cell(decoded(value, index, name) if kinds[name] == "bytea" else value, kinds[name])

    for number, cells in enumerate(tuples(planned.write, convert)):
        if number % 1000 == 0:
            go_on()
        yield "\t".join(map(str, cells)) + "\n"


def _cell(value: object, kind: str) -> str:
    if value is None:
        return "\\N"
    return _text(value, kind).translate(_ESCAPES)


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
