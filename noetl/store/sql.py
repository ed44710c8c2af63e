"""The store on PostgreSQL and SQLite."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from datetime import datetime
from functools import partial
from typing import Final
from weakref import WeakSet

from sqlalchemy import func, select

from noetl.errors import NoetlError
from noetl.store.audit import SqlAudit
from noetl.store.business_keys import SqlBusinessKeys
from noetl.store.cached import SqlCachedResults
from noetl.store.clock import DatabaseClock, read_machine_clock
from noetl.store.commands import SqlCommands
from noetl.store.connections import Connections, MemoryConnections, connect
from noetl.store.correlations import SqlCorrelations
from noetl.store.direct import open_direct
from noetl.store.events import SqlEvents
from noetl.store.executions import SqlExecutions
from noetl.store.lite import LiteSession
from noetl.store.logs import SqlLogs
from noetl.store.loops import SqlLoops
from noetl.store.operations import SqlOperations
from noetl.store.queues import SqlQueues
from noetl.store.records import (
    SqlCredentials,
    SqlDeadLetters,
    SqlIdempotencyKeys,
    SqlNets,
    SqlPlaybooks,
    SqlSnapshots,
    SqlWorkers,
)
from noetl.store.session import Session, unusable
from noetl.store.slots import SqlSlots
from noetl.store.tokens import SqlTokens
from noetl.store.watching import Watches, listen
from noetl.usecases.ports import Transaction, Watch

#: Not `now()`, which is the beginning of the transaction.
_now = select(func.clock_timestamp())


def open_tables(session: Session, shard: str) -> Transaction:
    """A transaction whose tables share one session."""
    return Transaction(
        business_keys=SqlBusinessKeys(session, shard),
        executions=SqlExecutions(session, shard),
        events=SqlEvents(session, shard),
        commands=SqlCommands(session, shard),
        loops=SqlLoops(session, shard),
        nets=SqlNets(session, shard),
        playbooks=SqlPlaybooks(session, shard),
        snapshots=SqlSnapshots(session, shard),
        idempotency=SqlIdempotencyKeys(session, shard),
        credentials=SqlCredentials(session, shard),
        dead_letters=SqlDeadLetters(session, shard),
        workers=SqlWorkers(session, shard),
        logs=SqlLogs(session, shard),
        operations=SqlOperations(session, shard),
        cached=SqlCachedResults(session, shard),
        correlations=SqlCorrelations(session, shard),
        slots=SqlSlots(session, shard),
        queues=SqlQueues(session, shard),
        tokens=SqlTokens(session, shard),
        audit=SqlAudit(session, shard),
        now=partial(_read_clock, session),
    )


def _read_clock(session: Session) -> datetime | None:
    """Of SQLite None: it asks the machine that it runs on."""
    return None if session.dialect == "sqlite" else _ask_clock(session)


def _ask_clock(session: Session) -> datetime:
    found: datetime = session.read(_now).scalar()
    return found


#: What a forked child must not use as its parent has it.
_SHARED_BY_FORKS: Final[WeakSet[Connections | Watches]] = WeakSet()


def _forget_parent() -> None:
    for one in tuple(_SHARED_BY_FORKS):
        one.forget()


os.register_at_fork(after_in_child=_forget_parent)


class SqlStore:
    """`noetl.usecases.ports.Store`. Connects when it is first used; a forked child connects
    anew."""

    def __init__(
        self, url: str, shard: str = "", pool_size: int = 10, watch_s: float = 0.0, schema: str = ""
    ) -> None:
        """`watch_s`: how often watched executions are looked at besides, in seconds; 0: never."""
        self._shard = shard
        self._connections = connect(url, pool_size, schema)
        #: None for as long as nobody has asked for the time, and of SQLite.
        self._clock: DatabaseClock | None = None
        #: Whether no other process can change anything, so that nothing has to be listened to.
        self._alone = isinstance(self._connections, MemoryConnections)
        ear = None if self._alone else lambda: listen(self._connections)
        self._watches = Watches(ear, self.read, watch_s)
        _SHARED_BY_FORKS.update((self._connections, self._watches))

    def begin(self) -> AbstractContextManager[Transaction]:
        return self._transaction("durable")

    def begin_async_commit(self) -> AbstractContextManager[Transaction]:
        return self._transaction("relaxed")

    def read(self) -> AbstractContextManager[Transaction]:
        """Sees one moment: what others commit meanwhile stays out of sight."""
        return self._transaction("read")

    def clock(self) -> datetime:
        return self._read_clock() or read_machine_clock()

    def _read_clock(self) -> datetime | None:
        if self._connections.dialect == "sqlite":
            return None
        self._clock = clock = self._clock or DatabaseClock()
        if clock.read() is None:
            # Every transaction follows the clock. That the database is away shows in the caller's.
            with suppress(NoetlError), self.read():
                pass
        return clock.read()

    def watch(self, *execution_ids: str) -> AbstractContextManager[Watch]:
        return self._watches.watch(*execution_ids)

    @contextmanager
    def _transaction(self, mode: str) -> Iterator[Transaction]:
        with self._session(mode) as session:
            yield open_tables(session, self._shard)
            if session.failed:  # the caller swallowed the failure; half of a change must not be committed
                raise unusable()
        if self._alone:
            self._watches.wake(session.changed)

    @contextmanager
    def _session(self, mode: str) -> Iterator[Session]:
        connections = self._connections
        if connections.dialect == "postgresql":
            with (
                connections.bare() as connection,
                open_direct(connection, connections.place, mode, connections.installation) as session,
            ):
                if self._clock is not None and self._clock.is_due:
                    self._clock.follow(partial(_ask_clock, session))
                yield session
        else:
            with (
                connections.open(mode) as connection,
                closing(LiteSession(connection, connections.place, mode)) as session,
            ):
                yield session

    def close(self) -> None:
        self._watches.close()
        self._connections.close()
