"""The store in memory: as strict as the databases, serial, and gone with the process.

Transactions run one at a time under one lock; a rollback undoes what was written, step by step.
JSON goes through text both ways, so that nothing is read that a database would not return.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import datetime
from typing import Final

from noetl.errors import NoetlError, Unavailable
from noetl.store.memory.commands import MemoryCommands
from noetl.store.memory.definitions import MemoryCredentials, MemoryNets, MemoryPlaybooks
from noetl.store.memory.events import MemoryEvents
from noetl.store.memory.executions import MemoryExecutions
from noetl.store.memory.logs import MemoryLogs
from noetl.store.memory.loops import MemoryLoops
from noetl.store.memory.records import (
    MemoryDeadLetters,
    MemoryIdempotencyKeys,
    MemorySnapshots,
    MemoryWorkers,
)
from noetl.store.memory.tables import Journal, Tables
from noetl.store.rules import unusable
from noetl.store.watching import Watches
from noetl.usecases.ports import Transaction, Watch

#: Seconds that a transaction waits for another one.
PATIENCE: Final = 10.0


class MemoryTransaction:
    """`noetl.usecases.ports.Transaction`: its tables share one journal."""

    __slots__ = (
        "commands",
        "credentials",
        "dead_letters",
        "events",
        "executions",
        "idempotency",
        "logs",
        "loops",
        "nets",
        "playbooks",
        "snapshots",
        "workers",
    )

    def __init__(self, journal: Journal) -> None:
        self.executions = MemoryExecutions(journal)
        self.events = MemoryEvents(journal)
        self.commands = MemoryCommands(journal)
        self.loops = MemoryLoops(journal)
        self.nets = MemoryNets(journal)
        self.playbooks = MemoryPlaybooks(journal)
        self.snapshots = MemorySnapshots(journal)
        self.idempotency = MemoryIdempotencyKeys(journal)
        self.credentials = MemoryCredentials(journal)
        self.dead_letters = MemoryDeadLetters(journal)
        self.workers = MemoryWorkers(journal)
        self.logs = MemoryLogs(journal)

    def now(self) -> datetime | None:
        """None: it asks the machine that it runs on."""
        return None


class MemoryStore:
    """`noetl.usecases.ports.Store` for tests and for trying things out."""

    def __init__(self) -> None:
        self._tables = Tables()
        self._lock = threading.Lock()
        self._holder: int | None = None
        self._watches = Watches()

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        with self._transaction(writable=True) as transaction:
            yield transaction

    begin_async_commit = begin

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        with self._transaction(writable=False) as transaction:
            yield transaction

    @contextmanager
    def _transaction(self, *, writable: bool) -> Iterator[Transaction]:
        self._acquire()
        journal = Journal(self._tables, writable=writable)
        try:
            yield MemoryTransaction(journal)
            if journal.failed:  # the caller swallowed the failure; half of a change must not stay
                raise unusable()
        except BaseException:
            journal.undo()
            raise
        finally:
            journal.ended = True
            self._holder = None
            self._lock.release()
        self._watches.wake(journal.changed)

    def watch(self, execution_id: str) -> AbstractContextManager[Watch]:
        return self._watches.watch(execution_id)

    def _acquire(self) -> None:
        if self._holder == threading.get_ident():
            raise NoetlError("A transaction was begun inside another one of the same thread; end that first.")
        if not self._lock.acquire(timeout=PATIENCE):
            raise Unavailable(f"The store was held by another transaction for {PATIENCE:g} s; try again.")
        self._holder = threading.get_ident()

    def close(self) -> None:
        """Nothing is held; what was stored stays readable."""
        self._watches.close()
