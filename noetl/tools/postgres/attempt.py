"""One call on its connection to PostgreSQL: it runs statements or writes rows, once where that is
wanted, and refuses statements that run programs."""

from __future__ import annotations

import contextlib
import itertools
import time
from collections.abc import Iterable, Sequence
from functools import partial
from typing import TYPE_CHECKING

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.values import unique_names
from noetl.tools.kit.calls import StopSignal
from noetl.tools.postgres.errors import PostgresErrors, adapt_values
from noetl.tools.postgres.read import QueryReader, is_endless, is_read, known_types
from noetl.tools.postgres.write import WriteLedger, write_rows
from noetl.tools.sql.calls import RowCollector, SqlCall, StatementResult, result_of
from noetl.tools.sql.text import BoundStatement, SqlToken, Statement, split

if TYPE_CHECKING:
    from psycopg2 import extensions
#: Statements whose body, in quotes, holds further statements.
_WITH_BODY = frozenset({"do", "create"})


class PostgresAttempt:
    """One attempt, and its result."""

    def __init__(self, order: SqlCall, once: bool, faults: PostgresErrors, stop: StopSignal) -> None:
        self.repeated = False
        self._order = order
        self._once = once
        self._faults = faults
        self._stop = stop
        self._ends = time.monotonic() + order.deadline_s

    def attempt(self, connection: extensions.connection) -> tuple[ToolError | None, dict[str, Json]]:
        """The result, or the error: returned, so that the connection is given back clean."""
        result: dict[str, Json] = {}
        failure: ToolError | None = None
        with self._stop.watch(self._ends - time.monotonic(), partial(cancel, connection)):
            try:
                result = self._run(connection)
            except ToolError as error:
                failure = error
        if self._stop.pulled:
            # A cancel request may still be on its way: it must not meet the next call.
            connection.close()
            if failure is not None:
                self._stop.refuse_cancelled()
                failure = self._faults.late()
        return failure, result

    def _run(self, connection: extensions.connection) -> dict[str, Json]:
        with connection.cursor() as cursor:
            if self._once:
                return self._run_once(cursor)
            connection.autocommit = not self._order.transaction
            result = self._do(cursor)
            if self._order.transaction:
                self._commit(cursor)
            return result

    def _run_once(self, cursor: extensions.cursor) -> dict[str, Json]:
        ledger = WriteLedger(cursor, self._order.call, self._faults)
        ledger.make()
        cursor.connection.autocommit = False
        is_new, recorded = ledger.claim()
        if not is_new:
            self.repeated = True
            cursor.connection.rollback()
            return dict(recorded)
        result = self._do(cursor)
        ledger.record(result)
        self._commit(cursor)
        return result

    def _commit(self, cursor: extensions.cursor) -> None:
        self._go_on()
        with self._faults.explain(self._order.last):
            cursor.connection.commit()

    def _do(self, cursor: extensions.cursor) -> dict[str, Json]:
        if self._order.write is not None:
            return write_rows(cursor, self._order.write, self._faults, self._go_on, self._order.bounds.notes)
        return result_of([self._answer(cursor, *each) for each in enumerate(self._order.bound)])

    def _go_on(self) -> None:
        self._stop.refuse_cancelled()
        if self._stop.late or time.monotonic() > self._ends:
            raise self._faults.late()

    def _answer(self, cursor: extensions.cursor, index: int, bound: BoundStatement) -> StatementResult:
        self._go_on()
        if is_read(bound):
            answer = QueryReader(cursor, self._faults, self._order.bounds, self._go_on).read(bound, index)
            if answer is not None:
                return answer
        with self._faults.explain(index, cursor):
            if bound.has_values:
                cursor.execute(bound.pyformat(), adapt_values(bound))
            else:
                cursor.execute(bound.statement.text)
        if cursor.description is None:
            return StatementResult([], [], max(cursor.rowcount, 0), cursor.statusmessage or "")
        names = unique_names(column.name for column in cursor.description)
        block = cursor.fetchall()
        endless = any(map(is_endless, itertools.chain.from_iterable(block)))
        types = known_types(names, cursor.description, endless=endless)
        rows = RowCollector(self._faults.place(index), names, self._order.bounds, types)
        with contextlib.closing(rows):
            rows.add(block)
            return rows.answer(cursor.statusmessage or "")


def cancel(connection: extensions.connection) -> None:
    """Ends what runs on the connection."""
    import psycopg2  # see `Postgres`

    # A connection that is gone needs no cancelling.
    with contextlib.suppress(psycopg2.Error):
        connection.cancel()


def refuse_programs(bound: Iterable[BoundStatement]) -> None:
    """Raises ToolError(sql) at the first `COPY ... PROGRAM`, also in the body of a routine.

    What a routine puts together while it runs is the server's to refuse: see
    docs/tools/postgres.md."""
    for one in bound:
        if _runs_program(one.statement):
            raise ToolError(
                "sql",
                "COPY ... PROGRAM runs a program on the database server and is refused; "
                "fetch the data in another task and insert it.",
                line=one.statement.line,
                type="ProgramRefused",
            )


def _runs_program(statement: Statement) -> bool:
    tokens = statement.tokens
    first = tokens[0].text.lower()
    if first == "copy":
        return _names_program(tokens)
    # A body begins behind a word in capitals or not: DO $$ BEGIN COPY ... END $$
    bodies = (_unquote(token.text) for token in tokens if token.kind == "quoted")
    return first in _WITH_BODY and any(
        # Behind BEGIN, THEN or LOOP a statement is not the first word of what semicolons part.
        "copy" in inner.words and _names_program(inner.tokens)
        for body in bodies
        for inner in split(body)
    )


def _names_program(tokens: Sequence[SqlToken]) -> bool:
    """`FROM PROGRAM '...'` or `TO PROGRAM '...'`: a table called program is followed by no text."""
    return any(
        one.text.lower() in ("from", "to")
        and (two.kind, two.text.lower()) == ("word", "program")
        and three.kind == "quoted"
        for one, two, three in zip(tokens, tokens[1:], tokens[2:], strict=False)
    )


def _unquote(text: str) -> str:
    if text.startswith("$"):
        mark = text[: text.index("$", 1) + 1]
        return text.removeprefix(mark).removesuffix(mark)
    return text.strip("'").replace("''", "'")
