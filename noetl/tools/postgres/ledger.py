"""The ledger of `exactly_once`: in the user's database, so that it commits together with the
effect."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from noetl.errors import ToolError
from noetl.pipeline.model import Call
from noetl.tools.postgres.errors import PostgresErrors
from noetl.tools.sql.rows import quote
from noetl.tools.sql.text import BoundStatement

if TYPE_CHECKING:
    from psycopg2 import extensions

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
                    None if started is None else json.dumps(started),
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
                (json.dumps(result), self._call.idempotency_key),
            )
        if self._cursor.rowcount != 1:
            raise ToolError(
                "sql",
                f"The entry of this call in {TABLE} is gone: do not change that table.",
                type="LedgerChanged",
            )
