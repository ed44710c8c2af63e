"""What the use cases need of the world: a store, a dispatcher, a result store, tools, a clock.

Every port has one contract suite in `tests/contract` that all its implementations pass.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Literal, Protocol, TypeAlias

from noetl.facts.events import Draft, Event
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Column, Keep
from noetl.usecases.log_port import LogTable

#: Aware, UTC.
Clock = Callable[[], datetime]

#: What tells two moments of an execution apart. Only compared.
Mark: TypeAlias = Hashable

#: Public words for where an execution is.
ExecutionStatus = Literal[
    "pending", "running", "waiting", "paused", "completed", "failed", "partial", "cancelled"
]
ENDED: frozenset[str] = frozenset({"completed", "failed", "partial", "cancelled"})


@dataclass(frozen=True, slots=True)
class ExecutionRow:
    """One execution. The scheduler owes it a turn while `head_version > decided_version`.

    `halt` tells workers to take nothing more: `cancel`, `pause`, `fail`, or empty. `next_wake_at` is
    when the scheduler wants a turn even if nothing is appended.
    """

    execution_id: str
    path: str
    playbook_version: int
    digest: str
    status: ExecutionStatus
    head_version: int
    decided_version: int
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    next_wake_at: datetime | None = None
    halt: str = ""
    error: JsonMap | None = None
    #: Whose it is: empty for the stack that shares the database, else one process (`noetl run`).
    shard: str = ""
    #: The execution that called it; None where somebody from outside asked for it.
    parent_id: str | None = None
    #: Errors that it went on after, and names that nothing defined and other warnings, as of the last turn.
    errors_passed_over: int = 0
    warnings_count: int = 0


@dataclass(frozen=True, slots=True)
class CommandRow:
    """An order on its way: outbox entry, pending index and lease in one row. What executions tell one another
    (`answer`, `waits`, `cancel`: to the execution `part`) travels in the same way, and is claimed by nobody; nor is `abandon`, the
    order to end what a step that was called off has begun elsewhere.

    `context` is what the worker needs to know (names, args; see `engine.context`). `attempt` counts the
    deliveries that were claimed and is the fencing token of the lease: a report must name it.
    `chord_id`, `chord_index`, `chord_size` place a lane in its loop's fan-in.
    """

    command_id: str
    execution_id: str
    run_id: str
    step: str
    #: What it is for: see `usecases.purposes`. A later release may have written one that this one does not know.
    purpose: str
    part: str
    queue: str
    issue: int
    context: JsonMap = field(default_factory=dict)
    label: str = ""
    iteration: int | None = None
    generation: int = 0
    priority: int = 0
    state: Literal["open", "claimed", "closed"] = "open"
    attempt: int = 0
    due_at: datetime | None = None
    sent_at: datetime | None = None
    lease_until: datetime | None = None
    owner: str | None = None
    chord_id: str | None = None
    chord_index: int | None = None
    chord_size: int | None = None


@dataclass(frozen=True, slots=True)
class LoopRow:
    """The hand-out of a loop's indices: lanes take from `next_index` while `open`.

    `count` is how many items the loop has: where a cursor finds them, so far.
    """

    execution_id: str
    run_id: str
    generation: int
    next_index: int
    count: int
    open: bool
    #: The collection: a list, or the reference that stands for it.
    items: Json = None
    #: For a later generation: the indices that are still to be run (`next_index` counts within it).
    indices: tuple[int, ...] | None = None

    @property
    def size(self) -> int:
        """How many indices there are to hand out."""
        return self.count if self.indices is None else len(self.indices)


@dataclass(frozen=True, slots=True)
class PlaybookRow:
    """A version of a playbook in the catalog. `digest` names the compiled net (see `Transaction.net`)."""

    path: str
    version: int
    content: str
    content_sha256: str
    digest: str
    created_at: datetime
    name: str = ""
    description: str = ""
    #: What the compiler warned of when it was registered: see `usecases.catalog.warnings_of`.
    warnings: tuple[JsonMap, ...] = ()


#: Who may use a credential: everybody, playbooks whose path is its place or below, or one execution.
CredentialScope: TypeAlias = Literal["global", "path", "execution"]


def credential_key(name: str, scope: CredentialScope = "global", place: str = "") -> str:
    """See `CredentialRow.key`."""
    return name if scope == "global" else f"{name}@{scope}:{place}"


@dataclass(frozen=True, slots=True)
class CredentialRow:
    """A credential, encrypted. `data` is the ciphertext. `place` is the path, or the execution, that it is kept for."""

    name: str
    type: str
    data: bytes
    created_at: datetime
    updated_at: datetime
    scope: CredentialScope = "global"
    place: str = ""

    @property
    def key(self) -> str:
        """What no other credential is stored under; `@` is in no name."""
        return credential_key(self.name, self.scope, self.place)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The engine's state at `version`, as JSON; `schema` is that of the state."""

    execution_id: str
    version: int
    schema: int
    state: JsonMap


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """The request that an idempotency key belongs to, by the digest of what it asked for, and its execution."""

    request_sha256: str
    execution_id: str


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A process that serves queues, as of its last heartbeat. `skew_s`: how far its clock is ahead of the database's,
    where that has one."""

    name: str
    role: str
    queues: tuple[str, ...]
    started_at: datetime
    seen_at: datetime
    skew_s: float | None = None


@dataclass(frozen=True, slots=True)
class Owing:
    """Executions that owe a turn: those that were locked, at most as many as asked for, and the ids of some
    of those that were not."""

    rows: list[ExecutionRow]
    passed_over: list[str]


class Transaction(LogTable, Protocol):
    """One atomic unit. Everything read under a lock stays true until its end.

    A write that fails raises at once, at the next use, or at the end of the transaction: writes whose
    answer nobody needs may travel together.
    """

    # --- executions -------------------------------------------------------------------------
    def create_execution(self, row: ExecutionRow) -> None:
        """Its shard becomes that of the store. Raises Conflict where the id exists."""

    def execution(self, execution_id: str) -> ExecutionRow | None:
        """Reads without a lock."""

    def executions(
        self,
        *,
        status: str | None = None,
        path: str | None = None,
        parent: str | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[ExecutionRow]:
        """Newest first; `parent` is the execution that called them, `before` an id to page on from (exclusive)."""

    def lock(self, execution_id: str) -> ExecutionRow | None:
        """Locks the row until the end of the transaction; waits for it."""

    def lock_owing(self, now: datetime, limit: int) -> Owing:
        """Locks, in id order, executions that owe a turn (`head_version > decided_version`, or
        `next_wake_at <= now`), and names those that it passed over because another transaction holds them."""

    def save_turn(
        self,
        execution_id: str,
        *,
        decided_version: int,
        status: ExecutionStatus,
        next_wake_at: datetime | None,
        halt: str,
        now: datetime,
        ended_at: datetime | None = None,
        error: JsonMap | None = None,
        errors_passed_over: int | None = None,
        warnings_count: int | None = None,
    ) -> None:
        """What a turn leaves in the row: None leaves `ended_at`, `error` and the counts as they are. Needs the lock."""

    def set_halt(self, execution_id: str, halt: str) -> None:
        """Tells workers and lanes to take nothing more (or, with an empty string, to go on)."""

    def owing(self, now: datetime, limit: int) -> list[str]:
        """Ids of executions that owe a turn, without locking."""

    def notify(self, execution_id: str) -> None:
        """Wakes those who watch the execution (`Store.watch`), once this is committed. `append`, `save_turn` and `add_log` do
        so themselves; what else is shown of an execution is told here, and is part of its mark."""

    def marks(self, execution_ids: Sequence[str]) -> Mapping[str, Mark]:
        """What two moments of an execution differ in where clients can tell them apart; of those that there are."""

    # --- events -----------------------------------------------------------------------------
    def append(
        self, execution_id: str, expected_version: int, drafts: Sequence[Draft], now: datetime
    ) -> list[Event]:
        """Appends behind `expected_version` and moves `head_version`.

        Needs the lock. Raises VersionConflict where the head is another one, and Conflict where a
        `dedup_key` is already recorded; the transaction is then unusable but for its rollback.
        """

    def events(
        self, execution_id: str, after: int = 0, limit: int | None = None, types: Iterable[str] = ()
    ) -> list[Event]:
        """Events with `version > after`, in order."""

    def tails(self, execution_ids: Sequence[str], limit: int) -> Mapping[str, list[Event]]:
        """What the scheduler has not decided on yet: for each execution that has any, its events behind
        `decided_version`, in order, at most `limit` of each."""

    def run_events(self, execution_id: str, run_id: str, iteration: int | None) -> list[Event]:
        """Events of one step run and of one iteration of it (None: those of no iteration), in order."""

    def claim_of(self, execution_id: str, run_id: str, index: int) -> Event | None:
        """Of a loop over a cursor: the `loop.claimed` that holds the row of that index, or would, were it longer."""

    def recorded(self, execution_id: str, dedup_key: str) -> bool: ...

    # --- commands ---------------------------------------------------------------------------
    def add_commands(self, rows: Sequence[CommandRow]) -> None: ...

    def command(self, command_id: str) -> CommandRow | None: ...

    def lock_command(self, command_id: str) -> tuple[ExecutionRow, CommandRow] | None:
        """The command and, locked, its execution: one round trip."""

    def claim(
        self, command_id: str, owner: str, now: datetime, lease_until: datetime, max_attempts: int
    ) -> CommandRow | None:
        """Takes the lease and counts the delivery (`attempt + 1`).

        None where the command is unknown, closed, not due, held by an unexpired lease, used up, or
        its execution has ended or halts. Durable or not: a lost claim only means a second delivery.
        Where it is the first thing that a transaction does it may be committed at once.
        """

    def release(self, command_id: str, attempt: int, sent_at: datetime) -> None:
        """Gives the lease back and un-counts the delivery: the holder itself sends the command on."""

    def reopen(self, command_id: str, attempt: int) -> None:
        """Ends a lease that ran out: open and unsent again; the delivery stays counted."""

    def heartbeat(self, command_id: str, attempt: int, lease_until: datetime) -> str | None:
        """Extends the lease. None where it is no longer ours, else the execution's `halt`."""

    def close_commands(self, command_ids: Sequence[str]) -> None: ...

    def mark_sent(self, command_ids: Sequence[str], now: datetime | None) -> None:
        """None: they did not leave after all."""

    def open_commands(self, execution_id: str) -> list[CommandRow]:
        """All commands of the execution that are not closed, without their contexts."""

    def unsent(self, now: datetime, limit: int) -> list[CommandRow]:
        """Open, due, never sent; without contexts."""

    def unclaimed(self, sent_before: datetime, limit: int) -> list[CommandRow]:
        """Open, sent before that instant, claimed by nobody; without contexts."""

    def expired(self, now: datetime, limit: int) -> list[CommandRow]:
        """Claimed, and the lease has run out; without contexts."""

    # --- loops ------------------------------------------------------------------------------
    def save_loop(self, row: LoopRow) -> None:
        """Creates the row, or replaces it by a later generation."""

    def loop(self, execution_id: str, run_id: str) -> LoopRow | None: ...

    def take(self, execution_id: str, run_id: str, generation: int, count: int) -> tuple[int, ...]:
        """The next indices, at most `count`; none where the loop is closed or of another generation."""

    def extend_loop(self, execution_id: str, run_id: str, generation: int, more: int) -> LoopRow:
        """Adds so many items, and their indices to those that are still to be handed out; also to a loop that is
        closed. The row as it is then. Raises Conflict where the loop is not of that generation."""

    def close_loop(self, execution_id: str, run_id: str) -> None: ...

    def close_loops(self, execution_id: str) -> None: ...

    # --- definitions ------------------------------------------------------------------------
    def put_net(self, digest: str, body: JsonMap) -> None:
        """Keeps a compiled net; the same digest twice is fine."""

    def net(self, digest: str) -> JsonMap | None: ...

    def add_playbook(self, row: PlaybookRow) -> None: ...

    def keep_warnings(self, path: str, version: int, warnings: Sequence[JsonMap]) -> None:
        """Gives a version other warnings."""

    def playbook(self, path: str, version: int | None = None) -> PlaybookRow | None:
        """That version, or the newest."""

    def playbooks(self) -> list[PlaybookRow]:
        """The newest version of each path, ordered by path."""

    def playbook_versions(self, path: str) -> list[PlaybookRow]: ...

    # --- snapshots, idempotency, credentials, the rest ----------------------------------------
    def save_snapshot(self, snapshot: Snapshot) -> None:
        """Keeps the newest only."""

    def snapshot(self, execution_id: str) -> Snapshot | None: ...

    def claim_keys(self, claims: Mapping[str, KeyOwner], now: datetime) -> Mapping[str, KeyOwner]:
        """Claims idempotency keys, in their order, each for the owner that is given. Returns whose each of them is
        now: where it was taken, the earlier owner. Waits for transactions that claim the same."""

    def save_credential(self, row: CredentialRow) -> None: ...

    def credential(self, key: str) -> CredentialRow | None:
        """By `CredentialRow.key`."""

    def credentials(self, name: str | None = None) -> list[CredentialRow]:
        """All, or those of one name, ordered by key."""

    def reencrypt_credential(self, row: CredentialRow, data: bytes) -> bool:
        """Gives the credential other ciphertext, unless it is no longer what `row` says."""

    def delete_credential(self, key: str) -> bool: ...

    def executions_with_credentials(self) -> list[str]:
        """The ids of those that credentials are kept for."""

    def delete_credentials_of(self, execution_id: str) -> None: ...

    def add_dead_letter(self, source: str, reason: str, body: str, now: datetime) -> None: ...

    def dead_letters(self, limit: int = 50) -> list[JsonMap]: ...

    def now(self) -> datetime | None:
        """The database's clock, at this moment; None where it has none but this machine's."""

    def see_worker(self, row: WorkerRow) -> None: ...

    def workers(self, seen_after: datetime) -> list[WorkerRow]: ...


class Watch(Protocol):
    """Somebody who waits for news of one execution. For one thread at a time."""

    def wait(self, seconds: float) -> bool:
        """Blocks until something of the execution may have changed since this was called last (at first: since the watch
        began), or the time is over: False. Whoever was woken looks; there may be nothing new."""


class Store(Protocol):
    """Where the truth is kept."""

    def begin(self) -> AbstractContextManager[Transaction]:
        """A transaction that commits on a clean exit and rolls back on an exception."""

    def begin_async_commit(self) -> AbstractContextManager[Transaction]:
        """The same, where losing the commit in a crash is harmless (claims, heartbeats)."""

    def read(self) -> AbstractContextManager[Transaction]:
        """A transaction for reads only, which sees one moment; writes in it are an error of the caller."""

    def watch(self, execution_id: str) -> AbstractContextManager[Watch]:
        """Watches an execution, for as long as the block runs. No change that is committed in it is missed, by
        whatever process, but where the database was out of reach and `NOETL_WATCH_S` is off."""

    def close(self) -> None: ...


class Dispatcher(Protocol):
    """Messages leave. The log is the truth: a message may be lost, doubled or reordered."""

    def send(self, commands: Sequence[CommandRow]) -> None:
        """Hands commands to their queues. Lanes that share a `chord_id` travel as one chord whose body
        wakes the scheduler; lanes that are sent again carry their place in it. Raises Unavailable."""

    def wake(self) -> None:
        """Asks the scheduler for a turn, which serves everybody who owes one: where another wake still waits
        to be taken, that one will do. Raises Unavailable."""

    def waiting(self, queue: str) -> int:
        """About how many messages wait in `queue`. Raises Unavailable."""


@dataclass(frozen=True, slots=True)
class PlaybookFile:
    """The text of a playbook, and the name of its file."""

    file: str
    content: str


class Library(Protocol):
    """Playbooks that are files: those that a call may name although no catalog knows them."""

    def find(self, path: str) -> PlaybookFile | None:
        """The file whose `metadata.path` it is."""

    def paths(self) -> Sequence[str]:
        """What could have been found."""


class Results(Protocol):
    """Results that are too large for the log, by content (see `noetl.facts.reference`)."""

    def put(self, value: Json, keep: Keep) -> JsonMap:
        """Keeps `value` and returns its reference. The same value twice in one place is one object. Raises
        BadRequest where it is no JSON, Unavailable where the store takes nothing."""

    def put_file(self, path: Path, content_type: str, keep: Keep) -> JsonMap:
        """Keeps the bytes of a file as they are; its reference loads to a list of mappings where it is a table
        (Parquet, NDJSON), to the value of JSON, to a text, else to base64. Never reads all of it at once."""

    def put_table(self, path: Path, content_type: str, columns: Sequence[Column], keep: Keep) -> JsonMap:
        """Keeps a table that was written as text as Parquet; its reference tells `meta.rows`, and its preview columns
        and the first rows. Never reads all of it at once. Raises BadRequest where it is no such table.

        `text/csv` is as PostgreSQL's COPY writes it: UTF-8, an empty field is null and `""` the empty text, bytes are
        `\\x` and hexadecimal digits; fields are in the order of `columns`. Its first line is a row, unless the content type
        says `text/csv; header=present` (RFC 4180). `application/x-ndjson` is a mapping on each line, its keys the
        columns' names in any order; a key that is missing is null, others are passed over, bytes are base64.
        """

    def load(self, reference: Mapping[str, Json], /) -> Json:
        """What the reference stands for, not to be changed: others share it. Raises NotFound where it is gone,
        BadRequest where it is no reference to a result."""

    def file(self, reference: Mapping[str, Json], /) -> AbstractContextManager[Path]:
        """A local file, for reading, that holds the bytes of the object (uncompressed); there while the block runs.
        Of a store on this machine it is the object itself where that is possible."""

    def places(self) -> Iterator[str]:
        """Every place (see `Keep.place`) that holds anything."""

    def remove(self, place: str) -> int:
        """Removes all that is kept there; the number of objects."""
