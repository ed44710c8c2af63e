"""Runs the statements of one transaction, and what the classes of all tables share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Final, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from sqlalchemy import Column, Connection, Executable, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError

from noetl.errors import BadRequest, NoetlError, NotFound
from noetl.facts.json import Json
from noetl.store import codec
from noetl.store.engine import translate
from noetl.store.installation import FILE, Installation

#: Values bound to one statement with IN: SQLite takes 32,766.
BATCH: Final = 10_000

T = TypeVar("T")

#: What a statement is given: names and values, or those of many rows.
Values: TypeAlias = Mapping[str, Any] | Sequence[Mapping[str, Any]] | None


#: Asked after a change that should have changed a row and did not: what is wrong, as far as it can
#: see.
Check: TypeAlias = Callable[[], NoetlError | None]


@dataclass(frozen=True, slots=True)
class Rows:
    """What came back, in the words of SQLAlchemy's CursorResult."""

    rows: Sequence[tuple[Any, ...]]
    rowcount: int

    def first(self) -> tuple[Any, ...] | None:
        return self.rows[0] if self.rows else None

    def one(self) -> tuple[Any, ...]:
        (row,) = self.rows
        return row

    def scalar(self) -> Any:
        return self.rows[0][0] if self.rows else None

    def scalars(self) -> Iterator[Any]:
        return (row[0] for row in self.rows)

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        return iter(self.rows)


class Session:
    """Runs statements. After one failed, everything but the rollback is refused, on every
    database."""

    def __init__(
        self, connection: Connection, dialect: str, place: str, mode: str, installation: Installation = FILE
    ) -> None:
        self._connection = connection
        self.installation = installation
        self._place = place
        self.dialect = dialect
        self.writable = mode != "read"
        self.failed = False
        #: The executions whose watchers hear of it.
        self.changed: set[str] = set()

    def read(self, statement: Executable, values: Mapping[str, Any] | None = None) -> Rows:
        """Runs a query."""
        return self._run(statement, values)

    def read_once(self, statement: Executable, values: Mapping[str, Any] | None = None) -> Rows:
        """Runs a query that somebody made up, and that no connection need prepare and keep."""
        return self._run(statement, values)

    def write(self, statement: Executable, values: Values = None) -> Rows:
        """Runs a change (or takes a lock); many rows travel as one statement. Raises NoetlError in
        a transaction for reads."""
        if not self.writable:
            raise _refuse_write()
        return self._run(statement, values)

    def alone(self, statement: Executable, values: Mapping[str, Any]) -> Rows:
        """Runs a change that may be committed at once, by itself, where nothing was run before
        it."""
        return self.write(statement, values)

    def later(self, statement: Executable, values: Values) -> None:
        """Runs a change whose result is not waited for: its failure may show at the next statement
        or the commit."""
        self.write(statement, values)

    def sure(self, statement: Executable, values: Mapping[str, Any], check: Check) -> None:
        """Runs a change that is not waited for and that must change a row. Raises what `check`
        finds where it does not."""
        if self.write(statement, values).rowcount == 0:
            failure = NoetlError(f"The database {self._place} did not change what it should.")
            raise self.fail(check() or failure)

    def notify(self, execution_id: str) -> None:
        """Tells those who watch the execution, once this is committed. Of a SQLite file they hear
        of every commit. Raises NoetlError in a transaction for reads."""
        if not self.writable:
            raise _refuse_write()
        self.changed.add(execution_id)

    def append(
        self,
        update: Executable,
        values: Mapping[str, Any],
        insert: Executable,
        rows: Sequence[Mapping[str, Any]],
        check: Check,
    ) -> None:
        """The same for `update`, and inserts `rows` with it."""
        self.sure(update, values, check)
        if rows:
            self.later(insert, rows)

    def _run(self, statement: Executable, values: Values) -> Rows:
        if self.failed:
            raise unusable()
        try:
            found = self._connection.execute(statement, values)
            return Rows(found.all() if found.returns_rows else (), found.rowcount)
        except SQLAlchemyError as error:
            self.failed = True
            raise translate(error, self._place) from error
        except (ValueError, OverflowError) as error:  # psycopg2 on NUL in a text, sqlite3 on 2**64
            raise self._refuse_value(error) from error

    def _refuse_value(self, error: ValueError | OverflowError) -> NoetlError:
        return self.fail(BadRequest(f"The database {self._place} cannot hold a value: {error}."))

    def fail(self, error: NoetlError) -> NoetlError:
        """Marks the transaction as unusable; returns the error, to be raised."""
        self.failed = True
        return error

    def close(self) -> None:
        """Whoever kept the session must not write into the next transaction of its connection."""
        self.failed = True


def compile_once(
    compile_form: Callable[[Any, Mapping[str, Any]], T | None],
) -> Callable[[Any, Mapping[str, Any]], T | None]:
    """Compiles each statement once, for as long as it is there. None: it is for SQLAlchemy to run.

    The names in the values are those of every call: an INSERT is compiled for the columns that it
    is given.
    """
    forms: WeakKeyDictionary[Any, T | None] = WeakKeyDictionary()

    def find(statement: Any, values: Mapping[str, Any]) -> T | None:
        if statement not in forms:
            forms[statement] = compile_form(statement, values)
        return forms[statement]

    return find


class SqlTable:
    """One transaction's session, and the shard that it works for."""

    def __init__(self, session: Session, shard: str) -> None:
        self._session = session
        self._shard = shard


def _refuse_write() -> NoetlError:
    return NoetlError("A write was tried in a transaction for reads; use begin().")


def unusable() -> NoetlError:
    """The error for statements after a failure."""
    return NoetlError("An earlier statement of this transaction failed; only its rollback is left.")


def missing(execution_id: str) -> NotFound:
    """The error for changes of an execution that does not exist."""
    return NotFound(f"Execution {execution_id} does not exist.")


def columns_of(table: Table, record: type[Any]) -> list[Column[Any]]:
    """The columns that are called like the fields of a dataclass, in their order."""
    return [table.c[field.name] for field in fields(record)]


#: Asked of the row that was to be inserted.
Condition: TypeAlias = Callable[[Any], Any]


def upserts(
    table: Table, replaced: Sequence[str] = (), only_if: Condition | None = None
) -> Mapping[str, Any]:
    """By dialect an insert that replaces these columns of a row that is there already (none: it
    stays as it is), where `only_if` holds."""
    inserts = {"postgresql": postgresql.insert(table), "sqlite": sqlite.insert(table)}
    return {name: _settle_conflicts(insert, replaced, only_if) for name, insert in inserts.items()}


def _settle_conflicts(insert: Any, replaced: Sequence[str], only_if: Condition | None) -> Any:
    if not replaced:
        return insert.on_conflict_do_nothing()
    return insert.on_conflict_do_update(
        index_elements=insert.table.primary_key,
        set_={name: insert.excluded[name] for name in replaced},
        where=None if only_if is None else only_if(insert.excluded),
    )


def lines(ids: Sequence[T]) -> list[list[T]]:
    """`ids` in portions that one statement can bind."""
    return [list(ids[start : start + BATCH]) for start in range(0, len(ids), BATCH)]


def text_or_none(value: Json) -> str | None:
    """JSON text; None for None."""
    return None if value is None else codec.dumps(value)


def value_or_none(text: str | None) -> Json:
    return None if text is None else codec.loads(text)
