"""The second half of a transfer: a table of the result store goes into another one, chunk after chunk.

Each chunk is one transaction of the target, in which an entry of its table `noetl_ledger` says how far the transfer has
come. So each row arrives once, however often the worker dies, and two workers that believe to have the same transfer
take turns.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Final, Protocol

from noetl.errors import ToolError
from noetl.facts.nearest import nearest
from noetl.facts.reference import Column
from noetl.pipeline.model import Call
from noetl.tools.sql.rows import Plan, Write, quoted, table_of
from noetl.tools.transfer.config import TableTarget

LEDGER: Final = "noetl_ledger"
#: As PostgreSQL's ledger of `exactly_once`, where there is no JSON and no zone.
MAKE_LEDGER: Final = f"""CREATE TABLE IF NOT EXISTS {LEDGER} (
    idempotency_key VARCHAR PRIMARY KEY,
    result VARCHAR,
    execution_id VARCHAR NOT NULL,
    step VARCHAR NOT NULL,
    task VARCHAR NOT NULL,
    recorded_at TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP
)"""


@dataclass(frozen=True, slots=True)
class Mark:
    """How far a transfer has come: `rows` of `total` in so many chunks. `of` is the hash of the table that it reads."""

    of: str
    total: int
    rows: int = 0
    chunks: int = 0

    @property
    def is_done(self) -> bool:
        return self.rows >= self.total

    def text(self) -> str:
        return json.dumps(asdict(self))


def mark_of(text: str) -> Mark:
    """What `Mark.text` wrote. Raises ToolError where it is something else."""
    try:
        return Mark(**json.loads(text))
    except (ValueError, TypeError) as error:
        raise ToolError(
            "sql",
            f"The entry of this transfer in {LEDGER} was changed by somebody else.",
            type="LedgerChanged",
        ) from error


@dataclass(frozen=True, slots=True)
class Staged:
    """A Parquet file to be written: `columns` are those that go, as they are called and typed there; `names` what
    they are called in the target."""

    path: Path
    sha256: str
    rows: int
    columns: tuple[Column, ...]
    names: tuple[str, ...]

    def source(self, first: int, end: int) -> str:
        """SQL for the rows from `first` to before `end`, in order, with `file_row_number`."""
        path = "'" + str(self.path).replace("'", "''") + "'"
        return (
            f"(SELECT * FROM read_parquet({path}, file_row_number = true) "  # noqa: S608 - quoted
            f"WHERE file_row_number >= {first} AND file_row_number < {end})"
        )


def chosen(
    columns: list[Column], wanted: list[str] | dict[str, str] | None
) -> tuple[tuple[Column, ...], tuple[str, ...]]:
    """The columns that go, and their names in the target. Raises ToolError(client_error) that names the nearest."""
    known = {column.name.lower(): column for column in columns}
    if wanted is None:
        return tuple(columns), tuple(column.name for column in columns)
    pairs = wanted if isinstance(wanted, dict) else {name: name for name in wanted}
    for source in pairs.values():
        if source.lower() not in known:
            near = nearest(source, [column.name for column in columns])
            hint = (
                f"did you mean '{near}'?"
                if near
                else f"there are {', '.join(column.name for column in columns[:10])}."
            )
            raise ToolError(
                "client_error",
                f"`columns` names '{source}', which the source does not have; {hint}",
                type="UnknownColumn",
            )
    return tuple(known[source.lower()] for source in pairs.values()), tuple(pairs)


class Loader(ABC):
    """Writes a staged table into one of a database. Used by one thread."""

    def __init__(self, call: Call, target: TableTarget, staged: Staged) -> None:
        self.call = call
        self.target = target
        self.staged = staged
        self.write = Write(table_of(target.table), target.mode, [], staged.names, target.keys)
        if missing := next((name for name in target.keys if name not in staged.names), None):
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
    def claim(self, mark: Mark) -> Mark | None:
        """Enters `mark` into the ledger (None), or says what is there. Nobody else does until the transaction ends."""

    @abstractmethod
    def empty(self) -> None:
        """Removes all rows of the table."""

    @abstractmethod
    def insert(self, first: int, end: int) -> None:
        """Writes the rows from `first` to before `end`."""

    @abstractmethod
    def record(self, mark: Mark) -> None:
        """Changes the entry in the ledger."""

    @abstractmethod
    def interrupt(self) -> None:
        """Ends what runs. Called from another thread; must not raise."""

    def chunk(self, most: int) -> Mark:
        """Writes the next `most` rows at most, and says how far it is. Raises ToolError."""
        with self.transaction():
            fresh = Mark(self.staged.sha256, self.staged.rows)
            mark = self.claim(fresh)
            if mark is not None and mark.is_done:
                return mark
            if mark is not None and mark.of != fresh.of:
                raise ToolError(
                    "internal",
                    "The rows of this transfer are not those that it began with.",
                    type="OtherRows",
                )
            if mark is None and self.target.mode == "replace":
                self.empty()
            mark = mark or fresh
            end = min(mark.rows + most, mark.total)
            if end > mark.rows:
                self.insert(mark.rows, end)
            mark = replace(mark, rows=end, chunks=mark.chunks + 1)
            self.record(mark)
        return mark


class Named(Protocol):
    """Gives a type of a database its name."""

    def __call__(self, kind: str, /) -> str: ...


def create_table(loader: Loader, type_of: Named) -> str:
    """The statement that makes the target's table where it is missing, with `key` unique."""
    staged = loader.staged
    columns = [
        f"{quoted(name)} {type_of(column.type)}"
        for name, column in zip(staged.names, staged.columns, strict=True)
    ]
    if loader.target.keys:
        columns.append(f"UNIQUE ({', '.join(map(quoted, loader.target.keys))})")
    return f"CREATE TABLE IF NOT EXISTS {loader.write.target} ({', '.join(columns)})"


def insert_head(planned: Plan) -> str:
    return f"INSERT INTO {planned.write.target} ({planned.column_list})"
