"""The store on SQLite and PostgreSQL."""

from __future__ import annotations

import os
import weakref
from collections.abc import Iterator
from contextlib import contextmanager

from noetl.store.commands import Commands
from noetl.store.definitions import Definitions
from noetl.store.direct import directly
from noetl.store.engine import Connections, open_engine
from noetl.store.executions import Executions
from noetl.store.log import Log
from noetl.store.loops import Loops
from noetl.store.records import Records
from noetl.store.rules import unusable
from noetl.store.session import Session
from noetl.usecases.ports import Transaction


class SqlTransaction:
    """`noetl.usecases.ports.Transaction`, put together from one object for each concern."""

    def __init__(self, session: Session, shard: str) -> None:
        executions = Executions(session, shard)
        self.create_execution = executions.create_execution
        self.execution = executions.execution
        self.executions = executions.executions
        self.lock = executions.lock
        self.lock_owing = executions.lock_owing
        self.save_turn = executions.save_turn
        self.set_halt = executions.set_halt
        self.owing = executions.owing

        log = Log(session)
        self.append = log.append
        self.events = log.events
        self.tails = log.tails
        self.run_events = log.run_events
        self.recorded = log.recorded

        commands = Commands(session, shard)
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

        loops = Loops(session)
        self.save_loop = loops.save_loop
        self.loop = loops.loop
        self.take = loops.take
        self.close_loop = loops.close_loop
        self.close_loops = loops.close_loops

        definitions = Definitions(session)
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

        records = Records(session)
        self.save_snapshot = records.save_snapshot
        self.snapshot = records.snapshot
        self.remember = records.remember
        self.add_dead_letter = records.add_dead_letter
        self.dead_letters = records.dead_letters
        self.see_worker = records.see_worker
        self.workers = records.workers


class SqlStore:
    """`noetl.usecases.ports.Store`. Connects when it is first used; a forked child connects anew."""

    def __init__(self, url: str, shard: str = "", pool_size: int = 10) -> None:
        self._shard = shard
        self._connections = Connections(open_engine(url, pool_size))
        _forget_after_fork(self._connections)

    @contextmanager
    def begin(self) -> Iterator[Transaction]:
        with self._transaction("durable") as transaction:
            yield transaction

    @contextmanager
    def begin_async_commit(self) -> Iterator[Transaction]:
        with self._transaction("relaxed") as transaction:
            yield transaction

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """Sees one moment: what others commit meanwhile stays out of sight."""
        with self._transaction("read") as transaction:
            yield transaction

    @contextmanager
    def _transaction(self, mode: str) -> Iterator[Transaction]:
        with self._session(mode) as session:
            yield SqlTransaction(session, self._shard)
            if session.failed:  # the caller swallowed the failure; half of a change must not be committed
                raise unusable()

    @contextmanager
    def _session(self, mode: str) -> Iterator[Session]:
        connections = self._connections
        if connections.dialect == "postgresql":
            with connections.bare() as connection, directly(connection, connections.place, mode) as session:
                yield session
        else:
            with connections.open(mode) as connection:
                yield Session(connection, connections.dialect, connections.place, writable=mode != "read")

    def close(self) -> None:
        self._connections.engine.dispose()


def _forget_after_fork(connections: Connections) -> None:
    # The hook lives as long as the process, the store need not.
    reference = weakref.ref(connections)

    def forget() -> None:
        if (alive := reference()) is not None:
            alive.forget()

    os.register_at_fork(after_in_child=forget)
