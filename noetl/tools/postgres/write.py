"""Rows into a PostgreSQL table, in pieces, within the transaction that is open; and the ledger of
`exactly_once`, in the user's database, so that it commits together with the effect."""

from __future__ import annotations

import io
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.tools.postgres.errors import PostgresErrors
from noetl.tools.sql.batches import Spell, batches
from noetl.tools.sql.exactness import exact_spellings, rounding_notes
from noetl.tools.sql.plan import TableColumn, WritePlan, check_bytes, decode_rows, plan
from noetl.tools.sql.rows import TableWrite, quote
from noetl.tools.sql.text import BoundStatement

if TYPE_CHECKING:
    from psycopg2 import extensions

#: What is inserted through a view, or a foreign table, gets the defaults of the table behind it.
#: A value of a domain is written as one of the type below it, and becomes one of the domain last.
_COLUMNS = """
    SELECT attname, (
            WITH RECURSIVE below(type, modifier, depth) AS (
                SELECT atttypid, atttypmod, 0
                UNION ALL
                SELECT d.typbasetype, d.typtypmod, depth + 1
                FROM below JOIN pg_type d ON d.oid = below.type AND d.typtype = 'd'
            )
            SELECT format_type(type, modifier) FROM below ORDER BY depth DESC LIMIT 1
        ),
        atthasdef OR attidentity <> '' OR typdefault IS NOT NULL OR relkind NOT IN ('r', 'p'), attnotnull
    FROM pg_attribute JOIN pg_type t ON t.oid = atttypid JOIN pg_class c ON c.oid = attrelid
    WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped ORDER BY attnum"""
_OTHERS = """
    SELECT relname FROM pg_class WHERE relkind IN ('r', 'p', 'v', 'f')
    AND pg_table_is_visible(oid) AND relnamespace <> 'pg_catalog'::regnamespace LIMIT 1000"""
#: What the text form of COPY escapes.
_ESCAPES = str.maketrans({"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"})
_JSON = ("json", "jsonb")
#: Lines that are made, and sent, at once.
_LINES = 500
TABLE: Final = "noetl_ledger"
#: Any number does: a call that makes the table waits for others that do.
_LOCK: Final = 7_018_462_035
_MAKE: Final = f"""
    BEGIN;
    SELECT pg_advisory_xact_lock({_LOCK});
    CREATE TABLE IF NOT EXISTS {TABLE} (
        idempotency_key text PRIMARY KEY,
        result json,
        execution_id text NOT NULL,
        step text NOT NULL,
        task text NOT NULL,
        recorded_at timestamptz NOT NULL DEFAULT now()
    );
    COMMIT"""
_FIND: Final = """
    SELECT n.nspname FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace
    WHERE c.oid = to_regclass(%s)"""
_ENDS: Final = frozenset({"begin", "start", "commit", "end", "rollback", "abort", "prepare"})


def write_rows(
    cursor: extensions.cursor,
    write: TableWrite,
    faults: PostgresErrors,
    go_on: Callable[[], None],
    notes: set[str],
) -> dict[str, Json]:
    """Writes the rows; `notes` gets what became another value. `go_on` raises where the call must
    end between two pieces. Raises ToolError."""
    if len(write.table) > 2:
        raise ToolError(
            "client_error",
            f"PostgreSQL writes to one database, not to '{write.name}': write `schema.table`.",
            type="BadName",
        )
    with faults.explain(f"The table '{write.name}' cannot be looked up"):
        known, others = describe_table(cursor, write)
    planned = plan(write, known, others, fold=False)
    notes |= rounding_notes(planned)
    with faults.explain(f"The rows cannot be written to '{write.name}'"):
        if write.mode == "replace":
            cursor.execute(write.delete)
        if write.mode == "copy":
            check_bytes(planned, ("bytea",))
        for part in planned.parts():
            if write.mode == "copy":
                _copy(cursor, part, go_on)
            else:
                _insert(cursor, part, go_on)
    return write.result()


def describe_table(cursor: extensions.cursor, write: TableWrite) -> tuple[dict[str, TableColumn], list[str]]:
    """Columns of the table; where there is none, the tables that there are."""
    cursor.execute(_COLUMNS, (write.target,))
    known = {
        name: TableColumn(kind, has_default, required and not has_default)
        for name, kind, has_default, required in cursor.fetchall()
    }
    others: list[str] = []
    if not known:
        cursor.execute(_OTHERS)
        others = [row[0] for row in cursor.fetchall()]
    return known, others


def _insert(cursor: extensions.cursor, part: WritePlan, go_on: Callable[[], None]) -> None:
    """The server takes the rows apart by the types of the columns: arrays, documents and exact
    numbers alike."""
    fields = ", ".join(
        f"c{index} {'text' if kind == 'bytea' else kind}" for index, kind in enumerate(part.types)
    )
    cells = [
        f"decode(r.c{index}, 'base64')" if kind == "bytea" else f"r.c{index}"
        for index, kind in enumerate(part.types)
    ]
    head = f"INSERT INTO {part.into} SELECT {part.values(cells)} FROM json_to_recordset("  # noqa: S608 - quoted
    tail = f"::json) AS r({fields}){part.extra}"
    # Of a name every `%` is doubled: the driver looks for its own.
    text = head.replace("%", "%%") + "%s" + tail.replace("%", "%%")
    for batch in batches(part.rows, part.columns, exact_spellings(part)):
        go_on()
        cursor.execute(text, (batch,))


def _copy(cursor: extensions.cursor, part: WritePlan, go_on: Callable[[], None]) -> None:
    spellings = exact_spellings(part)
    lines = (
        "\t".join(map(_cell, row, part.types, spellings)) + "\n" for row in decode_rows(part, ("bytea",))
    )
    while text := "".join(itertools.islice(lines, _LINES)):
        go_on()
        cursor.copy_expert(f"COPY {part.into} FROM STDIN", io.BytesIO(text.encode()))


def _cell(value: object, kind: str, spell: Spell | None) -> str:
    said = value if spell is None else spell(value)
    return "\\N" if said is None else _text(said, kind).translate(_ESCAPES)


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


def refuse_endings(bound: Sequence[BoundStatement]) -> None:
    """Raises ToolError(sql) at a statement that begins or ends a transaction by itself."""
    for one in bound:
        words = one.statement.words
        inner = "to" in words[:4] or (words[:1] == ["prepare"] and words[1:2] != ["transaction"])
        if words and words[0] in _ENDS and not inner:
            raise ToolError(
                "sql",
                f"`exactly_once` runs all statements in one transaction: leave {words[0].upper()} out.",
                line=one.statement.line,
                type="TransactionRefused",
            )


class WriteLedger:
    """The entry of one call. `make` comes before the transaction, `claim` first in it, `record`
    last."""

    def __init__(self, cursor: extensions.cursor, call: Call, faults: PostgresErrors) -> None:
        self._cursor = cursor
        self._call = call
        self._faults = faults
        self._target = TABLE

    def make(self) -> None:
        """Finds the table, or makes it in the first schema of the search path. Needs autocommit.
        Raises ToolError where it may not be made."""
        if not self._call.idempotency_key:
            raise ToolError("client_error", "`exactly_once` needs a call with an idempotency key.")
        with self._faults.explain(f"The table {TABLE}, which `exactly_once` needs, cannot be made"):
            schema = self._schema()
            if schema is None:
                self._cursor.execute(_MAKE)
                schema = self._schema() or "public"
        # By its full name: a statement may change the search path.
        self._target = f"{quote(schema)}.{TABLE}"

    def _schema(self) -> str | None:
        self._cursor.execute(_FIND, (TABLE,))
        found = self._cursor.fetchone()
        return None if found is None else str(found[0])

    def claim(self, started: Any = None) -> tuple[bool, Any]:
        """(True, None): the call is new, and `started` is entered. (False, result): it has been
        made, and this is what it returned, or last recorded.

        Waits for another transaction that makes the same call.

        Raises ToolError where the table cannot be used.
        """
        call, where = self._call, self._call.where
        with self._faults.explain(f"The call cannot be entered into {TABLE}"):
            self._cursor.execute(
                f"INSERT INTO {self._target} "  # noqa: S608 - quoted
                "(idempotency_key, execution_id, step, task, result) "
                "VALUES (%s, %s, %s, %s, %s::json) ON CONFLICT DO NOTHING",
                (
                    call.idempotency_key,
                    where.execution_id,
                    where.step,
                    call.task,
                    None if started is None else json.dumps(started, typed=True),
                ),
            )
            if self._cursor.rowcount == 1:
                return True, None
            self._cursor.execute(
                f"SELECT result::text FROM {self._target} WHERE idempotency_key = %s FOR UPDATE",  # noqa: S608 - quoted
                (call.idempotency_key,),
            )
            found = self._cursor.fetchone()
        if found is None or found[0] is None:
            raise ToolError(
                "sql",
                f"The entry of this call in {TABLE} was changed by another program.",
                type="LedgerChanged",
            )
        return False, json.loads(found[0])

    def record(self, result: Any) -> None:
        """Keeps what the call returned. Raises ToolError where the claim is gone."""
        with self._faults.explain(f"The result cannot be entered into {TABLE}"):
            self._cursor.execute(
                f"UPDATE {self._target} SET result = %s::json WHERE idempotency_key = %s",  # noqa: S608 - quoted
                (json.dumps(result, typed=True), self._call.idempotency_key),
            )
        if self._cursor.rowcount != 1:
            raise ToolError(
                "sql",
                f"The entry of this call in {TABLE} is gone: do not change that table.",
                type="LedgerChanged",
            )
