"""What every use case is handed: the ports, the limits, and the caches of this process."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from decimal import Decimal
from typing import Generic, Self, TypeVar

from noetl.engine.plan import Plan
from noetl.engine.source import RunCopies, SourceLog
from noetl.engine.state import State
from noetl.errors import BadRequest, ConfigError, LimitExceeded, NotFound
from noetl.expressions import BeginQuoting, NoQuoting
from noetl.facts import json
from noetl.facts.callbacks import TaskAddress
from noetl.facts.callers import Caller
from noetl.facts.events import Draft, Fact
from noetl.facts.json import Json, JsonMap
from noetl.facts.lineage import RetryOf
from noetl.facts.reference import Retention, is_reference
from noetl.facts.secret import Seal, omit_seal
from noetl.history.standings import StepStanding
from noetl.net.codec import from_json
from noetl.net.model import KindInfo
from noetl.pipeline.model import ToolPort
from noetl.usecases.backlog import Backlog
from noetl.usecases.log_writer import LogWriter
from noetl.usecases.ports import AuditEntry, Clock, Dispatcher, Library, Results, Store, Transaction
from noetl.usecases.walks import Walks

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """A bounded map of what was used last. Thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._items: OrderedDict[K, V] = OrderedDict()
        self._lock = threading.Lock()

    def get(self, key: K) -> V | None:
        with self._lock:
            if key in self._items:
                self._items.move_to_end(key)
            return self._items.get(key)

    def put(self, key: K, value: V) -> None:
        with self._lock:
            self._items[key] = value
            self._items.move_to_end(key)
            while len(self._items) > self._size:
                self._items.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._items.clear()


@dataclass(frozen=True, slots=True)
class RuntimeLimits:
    """Sizes and times. Seconds and bytes unless the name says otherwise."""

    #: Executions that one scheduler transaction serves, and events read of each.
    turn_executions: int = 64
    turn_events: int = 500
    #: Events of an execution that is run again which one turn copies.
    turn_copies: int = 2000
    #: Events after which the state is kept as a snapshot.
    snapshot_events: int = 500
    #: A claim is good for this long without a heartbeat.
    lease_s: float = 30.0
    heartbeat_s: float = 5.0
    #: Deliveries of one command before it is given up.
    max_deliveries: int = 5
    #: A command that was not claimed for so long is sent again.
    resend_s: float = 60.0
    #: How long a cancelled execution waits for running work.
    cancel_grace_s: float = 10.0
    #: A lane commits what has ended at least this often, and yields its worker after a slice.
    commit_s: float = 0.05
    commit_iterations: int = 64
    slice_s: float = 0.05
    #: Results and other values above this size are kept by reference.
    inline_bytes: int = 64 * 1024
    #: How long the results of a family of executions outlive it; 0: for ever.
    results_keep_s: float = 0.0
    #: The results of a loop that are too many for the log are kept in pages of about this size.
    page_bytes: int = 256 * 1024
    max_in_flight: int = 16
    max_items: int = 100_000
    max_generations: int = 5
    #: How deep executions that call one another nest.
    max_depth: int = 10
    #: Nesting of values that are kept at all.
    max_payload_bytes: int = 1024 * 1024
    #: Whether a worker that reports also wakes the scheduler. Without, loops are woken by their
    #: chord's body and everything else by the sweeper.
    report_wake: bool = True
    #: How much of each queue runs at once, of those that have a limit.
    queue_limits: Mapping[str, int] = field(default_factory=dict)


def encrypts_nothing(_data: JsonMap) -> bytes:
    """Of a process without keys. Raises ConfigError."""
    raise ConfigError("This process has no key to encrypt credentials with.")


def sees_no_file(_execution_id: str, _name: str) -> None:
    """Of a process that runs no tools."""


def knows_no_address(_token: str) -> None:
    """Of a process without keys."""


@dataclass(frozen=True)
class Runtime:
    """The composition that `noetl.bootstrap` makes; use cases take it as their first argument.

    `entropy` draws 22 random bits for a new execution id; `random` a number in [0, 1) for jitter.
    `env` is the allow-listed environment that templates see.
    """

    store: Store
    dispatcher: Dispatcher
    results: Results
    tools: ToolPort
    kinds: Mapping[str, KindInfo]
    clock: Clock
    entropy: Callable[[], int]
    random: Callable[[], float]
    limits: RuntimeLimits = RuntimeLimits()
    #: This machine's own clock, for those who ask how far it is off; `clock` is that of the store.
    machine_clock: Clock | None = None
    #: Waits so many seconds in a worker.
    sleep: Callable[[float], None] = time.sleep
    #: Whether cached results stand in for calls.
    caching: bool = True
    env: JsonMap = field(default_factory=dict)
    #: Seals references to secrets, so that they differ from data that only looks like one.
    seal: Seal = omit_seal
    #: The task that the token of an address stands for; None where no key of this installation made
    #: the token. Raises ConfigError where there is no key.
    read_token: Callable[[str], TaskAddress | None] = knows_no_address
    #: Encrypts the fields of a credential. Raises ConfigError where there is no key.
    encrypt: Callable[[JsonMap], bytes] = encrypts_nothing
    #: Where calls look for playbooks that the catalog does not know; None: nowhere.
    library: Library | None = None
    #: Who asks, where somebody outside does.
    caller: Caller | None = None
    #: Whether what a playbook names has to be there when it starts. Simulated tools need nothing.
    checks_prerequisites: bool = True
    #: How values are written into command lines.
    quoting: BeginQuoting = NoQuoting
    #: Takes what user code prints; None: it is not kept.
    logs: LogWriter | None = None
    #: SHA-256 of a file that the code of an execution's task stands in, by the execution's id and
    #: the name of the file; None where it cannot be seen from this process.
    file_digest: Callable[[str, str], str | None] = sees_no_file
    plans: Cache[str, Plan] = field(default_factory=lambda: Cache(256))
    states: Cache[str, State] = field(default_factory=lambda: Cache(1024))
    #: Logs of executions that are run again.
    sources: Cache[RetryOf, SourceLog] = field(default_factory=lambda: Cache(16))
    #: What they have copied, or have to, by the id of the execution that runs them again.
    copies: Cache[str, dict[str, RunCopies]] = field(default_factory=lambda: Cache(4))
    #: Walks over logs, which timelines and states of old versions are made of.
    walks: Walks = field(default_factory=Walks)
    #: How far the steps of executions have come, and what playbooks are labelled with, for lists.
    standings: Cache[tuple[str, str, int], Mapping[str, StepStanding]] = field(
        default_factory=lambda: Cache(4096)
    )
    labels: Cache[str, Mapping[str, str]] = field(default_factory=lambda: Cache(4096))
    #: How much waits, as it was seen last.
    backlog: Backlog = field(default_factory=Backlog)
    #: sha256 of a playbook's text → digest of the net that this version's compiler makes of it, and
    #: that is stored.
    compiled: Cache[str, str] = field(default_factory=lambda: Cache(1024))

    def acting_for(self, caller: Caller | None) -> Self:
        """The same, where that one asks."""
        return replace(self, caller=caller)

    @property
    def principal(self) -> str | None:
        """Who asks, where somebody outside does."""
        return None if self.caller is None else self.caller.principal

    def ask_for(self, fact: Fact, dedup_key: str | None = None) -> Draft:
        """What somebody outside asks for, on its way to the log."""
        return Draft(fact, source="client", dedup_key=dedup_key, caller=self.caller)

    def record(self, tx: Transaction, action: str, subject: str, detail: JsonMap | None = None) -> None:
        """Puts into the audit what the caller asked for and no event tells."""
        if self.caller is not None:
            tx.audit.add(AuditEntry(self.caller, action, subject, self.clock(), detail or {}))

    def plan(self, tx: Transaction, digest: str) -> Plan:
        """The plan of a stored net. Raises NotFound."""
        plan = self.plans.get(digest)
        if plan is None:
            body = tx.nets.get(digest)
            if body is None:
                raise NotFound(f"The net {digest} is not in the store.")
            plan = Plan(from_json(body))
            self.plans.put(digest, plan)
        return plan

    def load(self, reference: Mapping[str, Json], /) -> Json:
        """What the reference stands for. Raises NotFound where it is gone, or its time is over."""
        if _is_over(expires := reference.get("expires_at"), self.clock()):
            raise NotFound(
                f"The result {reference.get('ref')} has expired: its ttl ended at {expires}; "
                "run its step again."
            )
        return self.results.load(reference)

    def holds(self, reference: JsonMap) -> bool:
        """Whether `load` would find what the reference stands for; what only looks like one is
        there."""
        if _is_over(reference.get("expires_at"), self.clock()):
            return False
        try:
            return self.results.holds(reference)
        except NotFound:
            return False
        except BadRequest:
            return True

    def is_large(self, value: Json, limit: int | None = None) -> bool:
        """Whether the JSON of `value` has more bytes than `limit` (None: than the log takes). A
        reference never has, however small the limit: there is nothing to be won."""
        if limit is None:
            limit = self.limits.inline_bytes
        is_short = isinstance(value, str) and len(value) * 4 <= limit
        if is_short or isinstance(value, bool | int | float | Decimal | None) or is_reference(value):
            return False
        return (
            _surely_exceeds(value, limit)
            or len(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace")) > limit
        )

    def check_payload(self, value: Json, what: str) -> None:
        """Raises BadRequest where `value` is not JSON, LimitExceeded where it is too large; `what`
        names it."""
        try:
            size = len(json.dumps(value, allow_nan=False))
        except (TypeError, ValueError) as error:
            raise BadRequest(f"The {what} is not JSON: {error}.") from error
        if size > self.limits.max_payload_bytes:
            raise LimitExceeded(
                f"The {what} has {size} bytes; at most {self.limits.max_payload_bytes} are allowed."
            )

    def hold(self, value: Json, keep: Retention) -> Json:
        """`value`, or its reference where it is too large for the log."""
        return self.results.put(value, keep) if self.is_large(value) else value


def _is_over(expires: Json, now: datetime) -> bool:
    try:
        at = datetime.fromisoformat(expires) if isinstance(expires, str) else None
    except ValueError:
        # Data that only looks like a reference; the store says so.
        return False
    return at is not None and at.tzinfo is not None and at <= now


def _surely_exceeds(value: Json, limit: int) -> bool:
    """Whether the JSON is larger than `limit` for certain, told without making it and without
    walking all of it."""
    size = 0
    pending = [value]
    while pending and size <= limit:
        current = pending.pop()
        size += 1
        if isinstance(current, str):
            size += len(current)
        elif isinstance(current, Mapping | list | tuple):
            size += 2 * len(current)
            if size <= limit:
                pending.extend(current.values() if isinstance(current, Mapping) else current)
    return size > limit
