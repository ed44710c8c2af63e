"""The tables of the store in memory: dictionaries with groups, and an undo log in the place of
copies."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Generic, TypeAlias, TypeVar

from noetl.errors import NoetlError
from noetl.facts.json import JsonMap
from noetl.facts.logs import LogRow
from noetl.store.rules import refused_write, unusable
from noetl.usecases.ports import (
    CommandRow,
    CredentialRow,
    ExecutionRow,
    KeyOwner,
    LoopRow,
    PlaybookRow,
    WorkerRow,
)

K = TypeVar("K", bound=Hashable)
R = TypeVar("R")

#: The group that a row belongs to, or None.
Grouping: TypeAlias = Callable[[Any], Hashable | None]


class Table(Generic[K, R]):
    """Rows by key. `groups` are its indexes: for each a function from a row to its group."""

    def __init__(self, **groups: Grouping) -> None:
        self.rows: dict[K, R] = {}
        self._groups = [(grouping, {}) for grouping in groups.values()]
        self._members: dict[str, dict[Hashable, set[K]]] = {
            name: members for name, (_, members) in zip(groups, self._groups, strict=True)
        }

    _groups: list[tuple[Grouping, dict[Hashable, set[K]]]]

    def set(self, key: K, row: R | None) -> R | None:
        """Puts the row there (None removes it) and returns the one that was there before."""
        before = self.rows.get(key)
        if row is None:
            self.rows.pop(key, None)
        else:
            self.rows[key] = row
        for grouping, members in self._groups:
            old = None if before is None else grouping(before)
            new = None if row is None else grouping(row)
            if old != new:
                _move(members, key, old, new)
        return before

    def group(self, name: str, group: Hashable = True) -> Iterator[R]:
        """The rows of a group, in no order."""
        return (self.rows[key] for key in self._members[name].get(group, ()))


def _move(members: dict[Hashable, set[K]], key: K, old: Hashable | None, new: Hashable | None) -> None:
    if old is not None:
        members[old].discard(key)
        if not members[old]:
            del members[old]
    if new is not None:
        members.setdefault(new, set()).add(key)


def _owing(row: ExecutionRow) -> bool | None:
    return True if row.head_version > row.decided_version else None


def _waking(row: ExecutionRow) -> bool | None:
    return None if row.next_wake_at is None else True


def _stage(row: CommandRow) -> str | None:
    match row.state:
        case "open":
            return "unsent" if row.sent_at is None else "sent"
        case "claimed":
            return "claimed"
        case "closed":
            return None


def _open_of(row: CommandRow) -> str | None:
    return None if row.state == "closed" else row.execution_id


#: A row of the log: the columns of `envelope.COLUMNS`.
Logged: TypeAlias = tuple[Any, ...]


@dataclass(slots=True)
class Tables:
    """All of them. JSON is kept as text, so that what is read is what a database would return."""

    executions: Table[str, ExecutionRow] = field(default_factory=lambda: Table(owing=_owing, waking=_waking))
    #: By execution the rows of its stream, in order.
    streams: dict[str, list[Logged]] = field(default_factory=dict)
    dedup: Table[tuple[str, str], bool] = field(default_factory=Table)
    commands: Table[str, CommandRow] = field(default_factory=lambda: Table(stage=_stage, open_of=_open_of))
    contexts: Table[str, str] = field(default_factory=Table)
    loops: Table[tuple[str, str], LoopRow] = field(
        default_factory=lambda: Table(execution=lambda row: row.execution_id)
    )
    items: Table[tuple[str, str], str] = field(default_factory=Table)
    nets: Table[str, str] = field(default_factory=Table)
    playbooks: Table[tuple[str, int], PlaybookRow] = field(
        default_factory=lambda: Table(path=lambda row: row.path)
    )
    credentials: Table[str, CredentialRow] = field(default_factory=Table)
    snapshots: Table[str, tuple[int, int, str]] = field(default_factory=Table)
    idempotency: Table[str, KeyOwner] = field(default_factory=Table)
    dead_letters: Table[int, JsonMap] = field(default_factory=Table)
    workers: Table[str, WorkerRow] = field(default_factory=Table)
    logs: Table[tuple[str, int], LogRow] = field(
        default_factory=lambda: Table(execution=lambda row: row.chunk.place.execution_id)
    )


class Journal:
    """One transaction: what it changed can be undone, and its end is the end of its use."""

    __slots__ = ("_tables", "_undo", "changed", "ended", "failed", "writable")

    def __init__(self, tables: Tables, *, writable: bool) -> None:
        self._tables = tables
        self._undo: list[Callable[[], object]] = []
        self.writable = writable
        self.failed = False
        self.ended = False
        #: Executions whose watchers hear of it.
        self.changed: set[str] = set()

    @property
    def tables(self) -> Tables:
        """For reading. Raises NoetlError after a failure and after the end."""
        if self.ended:
            raise NoetlError("The transaction has ended; begin another one.")
        if self.failed:
            raise unusable()
        return self._tables

    @property
    def locked(self) -> Tables:
        """For reading what the transaction is about to change. Raises NoetlError in one for
        reads."""
        if not self.writable:
            raise refused_write()
        return self.tables

    def put(self, table: Table[K, R], key: K, row: R | None) -> None:
        """Sets a row (None removes it)."""
        self._undo.append(partial(table.set, key, table.set(key, row)))

    def extend(self, execution_id: str, rows: list[Logged]) -> None:
        """Appends to a stream."""
        stream = self._tables.streams.setdefault(execution_id, [])
        self._undo.append(partial(stream.__delitem__, slice(len(stream), None)))
        stream.extend(rows)

    def fail(self, error: NoetlError) -> NoetlError:
        """Marks the transaction as unusable; returns the error, to be raised."""
        self.failed = True
        return error

    def undo(self) -> None:
        for step in reversed(self._undo):
            step()


class MemoryTable:
    """What the tables of a transaction share."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
