"""The store: transactions over all its tables, and watching."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from noetl.usecases.ports.audit import Audit
from noetl.usecases.ports.business_keys import BusinessKeys
from noetl.usecases.ports.cached import CachedResults
from noetl.usecases.ports.commands import Commands
from noetl.usecases.ports.correlations import Correlations
from noetl.usecases.ports.credentials import Credentials
from noetl.usecases.ports.dead_letters import DeadLetters
from noetl.usecases.ports.events import Events
from noetl.usecases.ports.executions import Executions
from noetl.usecases.ports.idempotency import IdempotencyKeys
from noetl.usecases.ports.logs import Logs
from noetl.usecases.ports.loops import Loops
from noetl.usecases.ports.nets import Nets
from noetl.usecases.ports.operations import Operations
from noetl.usecases.ports.playbooks import Playbooks
from noetl.usecases.ports.queues import Queues
from noetl.usecases.ports.slots import HeldSlots
from noetl.usecases.ports.snapshots import Snapshots
from noetl.usecases.ports.tokens import Tokens
from noetl.usecases.ports.workers import Workers


@dataclass(frozen=True, slots=True)
class Transaction:
    """One atomic unit over all tables. Everything read under a lock stays true until its end.

    A write that fails raises at once, at the next use, or at the end of the transaction: writes
    whose answers are not needed may travel together.
    """

    business_keys: BusinessKeys
    executions: Executions
    events: Events
    commands: Commands
    loops: Loops
    nets: Nets
    playbooks: Playbooks
    snapshots: Snapshots
    idempotency: IdempotencyKeys
    credentials: Credentials
    dead_letters: DeadLetters
    workers: Workers
    logs: Logs
    operations: Operations
    cached: CachedResults
    tokens: Tokens
    correlations: Correlations
    slots: HeldSlots
    queues: Queues
    audit: Audit
    #: The database's clock, at this moment; None where it has none but this machine's.
    now: Callable[[], datetime | None]
    #: sha256 of a playbook's text → digest of its net, of what was compiled within: nobody else may
    #: take such a net for stored before the commit.
    compiled: dict[str, str] = field(default_factory=dict)


class Watch(Protocol):
    """Somebody who waits for news of executions. For one thread at a time."""

    @property
    def woken_at(self) -> float:
        """When it was woken last, at first when it began, in seconds of `time.monotonic`: the same
        for all who were woken together, and behind the commit that they were woken for."""

    def wait(self, seconds: float) -> bool:
        """Blocks until something of the executions may have changed since this was called last (at
        first: since the watch began), or the time is over: False. Whoever was woken looks; there
        may be nothing new."""


class Store(Protocol):
    """Where the truth is kept."""

    def begin(self) -> AbstractContextManager[Transaction]:
        """A transaction that commits on a clean exit and rolls back on an exception."""

    def begin_async_commit(self) -> AbstractContextManager[Transaction]:
        """The same, where losing the commit in a crash is harmless (claims, heartbeats)."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A transaction for reads only, which sees one moment; writes in it are an error of the
        caller."""

    def watch(self, *execution_ids: str) -> AbstractContextManager[Watch]:
        """Watches these executions, and where none is named all, for as long as the block runs. No
        change that is committed in it is
        missed, by whatever process, but where the database was out of reach and `NOETL_WATCH_S` is
        off."""

    def clock(self) -> datetime:
        """The instant, by the one clock that all processes of this store share: what they write is
        compared by others. For as long as that cannot be asked it is this machine's."""

    def close(self) -> None: ...
