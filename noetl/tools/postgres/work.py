"""What one call does on its connection: statements or rows, in one transaction or each on its own."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.values import unique_names
from noetl.pipeline.model import Call
from noetl.tools.kit.calls import Stop
from noetl.tools.postgres.errors import Faults, adapted
from noetl.tools.postgres.ledger import Ledger, refuse_endings
from noetl.tools.postgres.read import Reader, is_read
from noetl.tools.postgres.write import written
from noetl.tools.sql.programs import refuse_programs
from noetl.tools.sql.rows import Write
from noetl.tools.sql.text import Bound
from noetl.tools.sql.values import Answer, Bounds, Gathered, result_of

if TYPE_CHECKING:
    from psycopg2 import extensions


@dataclass(frozen=True, slots=True)
class Order:
    """What a call asks for."""

    call: Call
    bound: list[Bound]
    write: Write | None
    transaction: bool
    once: bool
    bounds: Bounds
    deadline_s: float

    def check(self) -> None:
        """Raises ToolError for statements that are refused."""
        refuse_programs(self.bound)
        if self.once:
            refuse_endings(self.bound)


class Work:
    """One attempt, and what came of it."""

    def __init__(self, order: Order, faults: Faults, stop: Stop) -> None:
        self.repeated = False
        self._order = order
        self._faults = faults
        self._stop = stop
        self._ends = time.monotonic() + order.deadline_s

    def attempt(self, connection: extensions.connection) -> tuple[ToolError | None, dict[str, Json]]:
        """The result, or the error: returned, so that the connection is given back clean."""
        result: dict[str, Json] = {}
        failure: ToolError | None = None
        with self._stop.watch(self._ends - time.monotonic(), _cancel(connection)):
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
            if self._order.once:
                return self._once(cursor)
            if self._order.transaction or self._order.write is not None:
                return self._together(cursor)
            return self._do(cursor)

    def _together(self, cursor: extensions.cursor) -> dict[str, Json]:
        cursor.connection.autocommit = False
        result = self._do(cursor)
        self._commit(cursor)
        return result

    def _once(self, cursor: extensions.cursor) -> dict[str, Json]:
        ledger = Ledger(cursor, self._order.call, self._faults)
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
        last = len(self._order.bound) - 1
        about = (
            self._faults.of("The rows cannot be committed") if last < 0 else self._faults.of_statement(last)
        )
        with about:
            cursor.connection.commit()

    def _do(self, cursor: extensions.cursor) -> dict[str, Json]:
        if self._order.write is not None:
            return written(cursor, self._order.write, self._faults, self._go_on)
        return result_of([self._answer(cursor, *each) for each in enumerate(self._order.bound)])

    def _go_on(self) -> None:
        self._stop.refuse_cancelled()
        if self._stop.late or time.monotonic() > self._ends:
            raise self._faults.late()

    def _answer(self, cursor: extensions.cursor, index: int, bound: Bound) -> Answer:
        self._go_on()
        if is_read(bound):
            answer = Reader(cursor, self._faults, self._order.bounds, self._go_on).read(bound, index)
            if answer is not None:
                return answer
        with self._faults.of_statement(index, cursor):
            if bound.has_values:
                cursor.execute(bound.pyformat(), adapted(bound))
            else:
                cursor.execute(bound.statement.text)
        if cursor.description is None:
            return Answer([], [], max(cursor.rowcount, 0), cursor.statusmessage or "")
        names = unique_names(column.name for column in cursor.description)
        gathered = Gathered(self._faults.place(index), names, self._order.bounds)
        with contextlib.closing(gathered):
            gathered.add(cursor.fetchall())
            return gathered.answer(cursor.statusmessage or "")


def _cancel(connection: extensions.connection) -> Callable[[], None]:
    import psycopg2  # see `Postgres.run`

    def cancel() -> None:
        # A connection that is gone needs no cancelling.
        with contextlib.suppress(psycopg2.Error):
            connection.cancel()

    return cancel
