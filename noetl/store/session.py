"""One transaction's way to the database: what all the tables' classes share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from sqlalchemy import Connection, CursorResult, Executable
from sqlalchemy.exc import SQLAlchemyError

from noetl.errors import BadRequest, NoetlError
from noetl.facts.json import Json
from noetl.store import codec
from noetl.store.engine import translate
from noetl.store.rules import refused_write, unusable

#: Values bound to one statement with IN: SQLite takes 32,766.
BATCH: Final = 10_000


#: A result whose rows hold whatever was selected.
Found: TypeAlias = CursorResult[*tuple[Any, ...]]


class Session:
    """Runs statements. After one failed, everything but the rollback is refused, on every database."""

    __slots__ = ("_connection", "_place", "dialect", "failed", "writable")

    def __init__(self, connection: Connection, dialect: str, place: str, *, writable: bool) -> None:
        self._connection = connection
        self._place = place
        self.dialect = dialect
        self.writable = writable
        self.failed = False

    def read(self, statement: Executable, values: Mapping[str, Any] | None = None) -> Found:
        """Runs a query."""
        return self._run(statement, values)

    def write(
        self, statement: Executable, values: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None
    ) -> Found:
        """Runs a change (or takes a lock); many rows travel as one statement."""
        if not self.writable:
            raise refused_write()
        return self._run(statement, values)

    def _run(self, statement: Executable, values: Any) -> Found:
        if self.failed:
            raise unusable()
        try:
            return self._connection.execute(statement, values)
        except SQLAlchemyError as error:
            self.failed = True
            raise translate(error, self._place) from error
        except (ValueError, OverflowError) as error:  # psycopg2 on NUL in a text, sqlite3 on 2**64
            self.failed = True
            raise BadRequest(f"The database {self._place} cannot hold a value: {error}.") from error

    def fail(self, error: NoetlError) -> NoetlError:
        """Marks the transaction as unusable; returns the error, to be raised."""
        self.failed = True
        return error


def lines(ids: Sequence[str]) -> list[Sequence[str]]:
    """`ids` in portions that one statement can bind."""
    return [ids[start : start + BATCH] for start in range(0, len(ids), BATCH)]


def text_or_none(value: Json) -> str | None:
    """JSON text; None for None."""
    return None if value is None else codec.dumps(value)


def value_or_none(text: str | None) -> Json:
    return None if text is None else codec.loads(text)
