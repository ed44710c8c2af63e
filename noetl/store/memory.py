"""The store in memory: as strict as the databases, serial, and gone with the process.

Transactions run one at a time under one lock; a rollback undoes what was written, step by step. JSON goes
through text both ways, so that nothing is read that a database would not return.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from noetl.errors import NoetlError, Unavailable
from noetl.store.memory_commands import Commands
from noetl.store.memory_log import Executions, Log, Loops
from noetl.store.memory_records import Definitions, Records
from noetl.store.memory_tables import Journal, Tables
from noetl.store.rules import unusable
from noetl.usecases.ports import Transaction

#: Seconds that a transaction waits for another one.
PATIENCE: Final = 10.0


class MemoryTransaction:
    """`noetl.usecases.ports.Transaction`, put together from one object for each concern."""

    def __init__(self, journal: Journal) -> None:
        executions = Executions(journal)
        self.create_execution = executions.create_execution
        self.execution = executions.execution
        self.executions = executions.executions
        self.lock = executions.lock
        self.lock_owing = executions.lock_owing
        self.save_turn = executions.save_turn
        self.set_halt = executions.set_halt
        self.owing = executions.owing

        log = Log(journal)
        self.append = log.append
        self.events = log.events
        self.tails = log.tails
        self.run_events = log.run_events
        self.recorded = log.recorded

        commands = Commands(journal)
        self.add_commands = commands.add_commands
        self.command = commands.command
        self.lock_command = commands.lock_command
        self.claim = commands.claim
        self.release = commands.release
        self.reopen = commands.reopen
        self.heartbeat = commands.heartbeat
        self.close_commands = commands.close_commands
        self.mark_sent = commands.mark_sent
        self.open_commands = commands.open_commands
        self.unsent = commands.unsent
        self.unclaimed = commands.unclaimed
        self.expired = commands.expired

        loops = Loops(journal)
        self.save_loop = loops.save_loop
        self.loop = loops.loop
        self.take = loops.take
        self.close_loop = loops.close_loop
        self.close_loops = loops.close_loops

        definitions = Definitions(journal)
        self.put_net = definitions.put_net
        self.net = definitions.net
        self.add_playbook = definitions.add_playbook
        self.playbook = definitions.playbook
        self.playbooks = definitions.playbooks
        self.playbook_versions = definitions.playbook_versions
        self.save_credential = definitions.save_credential
        self.credential = definitions.credential
        self.credentials = definitions.credentials
        self.delete_credential = definitions.delete_credential

        records = Records(journal)
        self.save_snapshot = records.save_snapshot
        self.snapshot = records.snapshot
        self.remember = records.remember
        self.add_dead_letter = records.add_dead_letter
        self.dead_letters = records.dead_letters
        self.see_worker = records.see_worker
        self.workers = records.workers


class MemoryStore:
    """`noetl.usecases.ports.Store` for tests and for trying things out."""

    def __init__(self) -> None:
        self._tables = Tables()
        self._lock = threading.Lock()
        self._holder: int | None = None

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

    def _acquire(self) -> None:
        if self._holder == threading.get_ident():
            raise NoetlError("A transaction was begun inside another one of the same thread; end that first.")
        if not self._lock.acquire(timeout=PATIENCE):
            raise Unavailable(f"The store was held by another transaction for {PATIENCE:g} s; try again.")
        self._holder = threading.get_ident()

    def close(self) -> None:
        """Nothing is held; what was stored stays readable."""
