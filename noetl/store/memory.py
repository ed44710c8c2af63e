"""The store in memory: as strict as the databases, serial, and gone with the process.

Transactions run one at a time under one lock; a rollback undoes what was written, step by step. JSON goes
through text both ways, so that nothing is read that a database would not return.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Final

from noetl.errors import NoetlError, Unavailable
from noetl.store.memory_commands import Commands
from noetl.store.memory_log import Executions, Log, Loops
from noetl.store.memory_output import Output
from noetl.store.memory_records import Definitions, Records
from noetl.store.memory_tables import Journal, Tables
from noetl.store.rules import unusable
from noetl.store.watching import Watches
from noetl.usecases.ports import Transaction, Watch

#: Seconds that a transaction waits for another one.
PATIENCE: Final = 10.0


class MemoryTransaction(Executions, Log, Commands, Loops, Definitions, Records, Output):
    """`noetl.usecases.ports.Transaction`, one class for each concern."""

    __slots__ = ()


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
