"""The second half of a transfer: a table of the result store goes into another one, chunk after
chunk.

Each chunk is one transaction of the target, in which an entry of its table `noetl_ledger` says how
far the transfer has come. So each row arrives once, however often the worker dies, and two workers
that believe to have the same transfer take turns."""

from __future__ import annotations

import contextlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final

from noetl.errors import ToolError
from noetl.facts.nearest import nearest
from noetl.facts.reference import Column
from noetl.pipeline.model import Call
from noetl.tools.sql.plan import WritePlan
from noetl.tools.sql.rows import TableWrite, quote, quote_text, table_of
from noetl.tools.transfer.config import TableTarget
from noetl.tools.transfer.stage import TransferDeadline

LEDGER: Final = "noetl_ledger"
#: As PostgreSQL's ledger of `exactly_once`, where there is no JSON and no zone.
_MAKE_LEDGER: Final = f"""CREATE TABLE IF NOT EXISTS {LEDGER} (
    idempotency_key VARCHAR PRIMARY KEY,
    result VARCHAR,
    execution_id VARCHAR NOT NULL,
    step VARCHAR NOT NULL,
    task VARCHAR NOT NULL,
    recorded_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
)"""
_FIND: Final = f"SELECT result FROM {LEDGER} WHERE idempotency_key = ?"  # noqa: S608 - a constant
_ENTER: Final = (
    f"INSERT INTO {LEDGER} (idempotency_key, result, execution_id, step, task) "  # noqa: S608
    "VALUES (?, ?, ?, ?, ?)"
)
_RECORD: Final = f"UPDATE {LEDGER} SET result = ? WHERE idempotency_key = ?"  # noqa: S608


@dataclass(frozen=True, slots=True)
class TransferMark:
    """How far a transfer has come: `rows` of `total` in so many chunks. `of` is the hash of the
    table that it reads."""

    of: str
    total: int
    rows: int = 0
    chunks: int = 0

    @property
    def is_done(self) -> bool:
        return self.rows >= self.total

    def text(self) -> str:
        return json.dumps(asdict(self))


def mark_of(text: str) -> TransferMark:
    """What `TransferMark.text` wrote. Raises ToolError where it is something else."""
    try:
        return TransferMark(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise ToolError(
            "sql",
            f"The entry of this transfer in {LEDGER} was changed by another program.",
            type="LedgerChanged",
        ) from error


@dataclass(frozen=True, slots=True)
class StagedTable:
    """A Parquet file to be written: `columns` are those that go, as they are called and typed
    there; `names` what they are called in the target."""

    path: Path
    sha256: str
    rows: int
    columns: tuple[Column, ...]
    names: tuple[str, ...]

    def source(self, first: int, end: int) -> str:
        """SQL for the rows from `first` to before `end`, in order, with `file_row_number`."""
        return (
            f"(SELECT * FROM read_parquet({quote_text(self.path)}, file_row_number = true) "  # noqa: S608
            f"WHERE file_row_number >= {first} AND file_row_number < {end})"
        )


def choose_columns(
    columns: list[Column], wanted: list[str] | dict[str, str] | None
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns that go, and their names in the target. Raises ToolError(client_error) that names
    the nearest."""
    known = {column.name.lower(): column for column in columns}
    if wanted is None:
        return tuple(columns), tuple(column.name for column in columns)
    pairs = wanted if isinstance(wanted, dict) else {name: name for name in wanted}
    for source in pairs.values():
        if source.lower() not in known:
            names = [column.name for column in columns]
            near = nearest(source, names)
            hint = f"did you mean '{near}'?" if near else f"there are {', '.join(names[:10])}."
            raise ToolError(
                "client_error",
                f"`columns` names '{source}', which the source does not have; {hint}",
                type="UnknownColumn",
            )
    return tuple(known[source.lower()] for source in pairs.values()), tuple(pairs)


class Loader(ABC):
    """Writes a staged table into one of a database. Used by one thread."""

    #: What is known of the target's table, from `prepare` on.
    plan: WritePlan

    def __init__(self, call: Call, target: TableTarget, staged: StagedTable) -> None:
        self.call = call
        self.target = target
        self.staged = staged
        #: What was left out of values that the target does not have.
        self.notes: set[str] = set()
        key = target.keys if target.mode == "upsert" else ()
        self.write = TableWrite(table_of(target.table), target.mode, [], staged.names, key, missing="null")
        # Of rows that did not come nobody knows the columns.
        absent = [name for name in target.keys if name not in staged.names] if staged.names else []
        if missing := next(iter(absent), None):
            raise ToolError(
                "client_error",
                f"`key` names the column '{missing}', which is not transferred.",
                type="BadKey",
            )

    @abstractmethod
    def prepare(self) -> None:
        """Makes what is missing, and finds out about the table. Raises ToolError."""

    @abstractmethod
    def transaction(self) -> AbstractContextManager[None]:
        """Commits at its end, and rolls back at an error."""

    @abstractmethod
    def claim(self, mark: TransferMark) -> TransferMark | None:
        """Enters `mark` into the ledger (None), or says what is there. No other transfer does until
        the transaction ends."""

    @abstractmethod
    def execute(self, statement: str) -> None:
        """Runs a statement of the target."""

    @abstractmethod
    def insert(self, first: int, end: int) -> None:
        """Writes the rows from `first` to before `end`."""

    @abstractmethod
    def record(self, mark: TransferMark) -> None:
        """Changes the entry in the ledger."""

    @abstractmethod
    def interrupt(self) -> None:
        """Ends what runs. Called from another thread; must not raise."""

    @abstractmethod
    def type_of(self, kind: str) -> str:
        """The target's type for one of DuckDB."""

    def create_table(self) -> None:
        """Makes the target's table where it is missing and wanted, with `key` unique."""
        if not self.target.create or not self.staged.names:
            return
        columns = [
            f"{quote(name)} {self.type_of(column.type)}"
            for name, column in zip(self.staged.names, self.staged.columns, strict=True)
        ]
        if self.target.keys:
            columns.append(f"UNIQUE ({', '.join(map(quote, self.target.keys))})")
        self.execute(f"CREATE TABLE IF NOT EXISTS {self.write.target} ({', '.join(columns)})")

    def select(self, cells: str, first: int, end: int) -> str:
        """The query for a chunk: `cells` of its rows, of those with one key the last, as a
        statement must not change a row twice."""
        sources = dict(zip(self.staged.names, self.staged.columns, strict=True))
        key = ", ".join(quote(sources[name].name) for name in self.write.key)
        last = f" QUALIFY row_number() OVER (PARTITION BY {key} ORDER BY file_row_number DESC) = 1"
        source = f"{self.staged.source(first, end)}{last if key else ''}"
        return f"SELECT {cells} FROM {source} ORDER BY file_row_number"  # noqa: S608 - quoted

    def load(self, most: int, deadline: TransferDeadline, check: Callable[[WritePlan], None]) -> TransferMark:
        """Writes all rows, `most` in each chunk, once `check` has seen where they go. Raises
        ToolError."""
        with deadline.watch(self.interrupt):
            self.prepare()
        while True:
            with deadline.watch(self.interrupt):
                mark = self._chunk(most, check)
            if mark.is_done:
                return mark

    def _chunk(self, most: int, check: Callable[[WritePlan], None]) -> TransferMark:
        """Writes the next `most` rows at most, and says how far it is."""
        with self.transaction():
            fresh = TransferMark(self.staged.sha256, self.staged.rows)
            mark = self.claim(fresh)
            if mark is not None and mark.is_done:
                return mark
            if mark is not None and mark.of != fresh.of:
                raise ToolError(
                    "internal",
                    "The rows of this transfer are not those that it began with.",
                    type="OtherRows",
                )
            if mark is None:
                check(self.plan)
                if self.target.mode == "replace":
                    self.execute(self.write.delete)
            mark = mark or fresh
            end = min(mark.rows + most, mark.total)
            if end > mark.rows:
                self.insert(mark.rows, end)
            mark = replace(mark, rows=end, chunks=mark.chunks + 1)
            self.record(mark)
        return mark


class FileLoader(Loader):
    """Writes into a database that is a file, over `connection`."""

    begin = "BEGIN"

    def __init__(self, connection: Any, call: Call, target: TableTarget, staged: StagedTable) -> None:
        super().__init__(call, target, staged)
        self.connection = connection

    @abstractmethod
    def explain(self) -> AbstractContextManager[None]:
        """Raises ToolError for errors of the driver in its block."""

    @abstractmethod
    def make_plan(self) -> WritePlan:
        """Looks the table up. Raises ToolError."""

    def prepare(self) -> None:
        with self.explain():
            self.execute(_MAKE_LEDGER)
            self.create_table()
            self.plan = self.make_plan()

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        with self.explain():
            self.execute(self.begin)
            try:
                yield
                self.execute("COMMIT")
            except BaseException:
                # An error may have ended it already, and what interrupts the call ends the
                # connection.
                with contextlib.suppress(Exception):
                    self.execute("ROLLBACK")
                raise

    def claim(self, mark: TransferMark) -> TransferMark | None:
        where, key = self.call.where, self.call.idempotency_key
        found = self.connection.execute(_FIND, [key]).fetchone()
        if found is not None:
            return mark_of(str(found[0]))
        values = [key, mark.text(), where.execution_id, where.step, self.call.task]
        self.connection.execute(_ENTER, values)
        return None

    def execute(self, statement: str) -> None:
        self.connection.execute(statement)

    def record(self, mark: TransferMark) -> None:
        self.connection.execute(_RECORD, [mark.text(), self.call.idempotency_key])
