"""The port of the table of executions."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from noetl.facts.json import JsonMap
from noetl.usecases.ports.conditions import Condition

#: What tells two moments of an execution apart. Only compared.
Mark: TypeAlias = Hashable

#: Public words for where an execution is.
ExecutionStatus = Literal[
    "pending", "running", "waiting", "paused", "completed", "failed", "partial", "cancelled"
]
Descent = Literal["retry", "fork", "migration", "undo"]
ENDED: frozenset[str] = frozenset({"completed", "failed", "partial", "cancelled"})


@dataclass(frozen=True, slots=True)
class ExecutionRow:
    """One execution. The scheduler owes it a turn while `head_version > decided_version`.

    `halt` tells workers to take nothing more: `cancel`, `pause`, `fail`, or empty. `next_wake_at`
    is when the scheduler wants a turn even if nothing is appended; of one that has failed, when it
    is retried by itself.
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
    #: Errors that it went on after, and names that nothing defined and other warnings, as of the
    #: last turn.
    errors_passed_over: int = 0
    warnings_count: int = 0
    #: The execution that it descends from, and how; None where it is its own.
    source_id: str | None = None
    descent: Descent | None = None
    #: The operation that began it, of many at once; None where it was asked for by itself.
    operation_id: str | None = None
    #: When it was imported, to be looked at: nothing is appended to it, and it owes no turn.
    imported_at: datetime | None = None
    #: Its business key.
    key: str | None = None
    #: Who asked for it; of one that another called, or that was asked for in the process, nobody.
    principal: str | None = None
    #: What its tasks wait for, in a line, as of the last turn.
    waiting_for: str | None = None
    #: How many of its iterations were cancelled one by one.
    cancelled_parts: int = 0
    #: How many approvals of it are open, as of the last turn.
    approvals: int = 0
    #: Its labels, and what can be asked of its inputs, as in `usecases.facets`; None: nothing.
    labels: str | None = None
    inputs: str | None = None

    @property
    def waits_for_retry(self) -> bool:
        """Whether it has failed, and is going to be retried by itself."""
        return self.status == "failed" and self.next_wake_at is not None

    @property
    def is_over(self) -> bool:
        """Whether nothing will come any more."""
        return self.status in ENDED or self.imported_at is not None


@dataclass(frozen=True, slots=True)
class DueExecutions:
    """Executions that owe a turn: those that were locked, at most as many as asked for, and the ids
    of some of those that were not."""

    rows: list[ExecutionRow]
    passed_over: list[str]


@dataclass(frozen=True, slots=True)
class Tally:
    """How many executions there are, of each status, in all and in equal spans of time.

    `since` is when the first span begins, and `until` when the last one ends, as they were asked
    for; else the first begins with the oldest execution, and the last ends behind the newest one.
    Where there are no executions, both are None and there are no spans.
    """

    #: Of the statuses that occur.
    counts: Mapping[ExecutionStatus, int]
    since: datetime | None
    until: datetime | None
    #: Oldest first, as many as were asked for.
    spans: Sequence[Mapping[ExecutionStatus, int]]
    #: False: only the newest were looked at, and there are older ones that may be meant.
    is_whole: bool


@dataclass(frozen=True, slots=True)
class RunRow:
    """An execution of a playbook, as short as lists of playbooks show it."""

    execution_id: str
    path: str
    playbook_version: int
    status: ExecutionStatus
    created_at: datetime
    ended_at: datetime | None


class Executions(Protocol):
    """The rows of executions, their locks, and which of them owe a turn."""

    def create(self, row: ExecutionRow) -> None:
        """Its shard becomes that of the store. Raises Conflict where the id exists."""

    def get(self, execution_id: str) -> ExecutionRow | None:
        """Reads without a lock."""

    def find(
        self,
        *,
        status: str | None = None,
        path: str | None = None,
        parent: str | None = None,
        source: str | None = None,
        key: str | None = None,
        where: Condition | None = None,
        before: str | None = None,
        limit: int = 50,
    ) -> list[ExecutionRow]:
        """Newest first; `parent` is the execution that called them, `source` the one that they run
        again or are forks of, `key` their business key, `where` what is true of them, `before` an
        id to page on from (exclusive)."""

    def tally(
        self,
        where: Condition | None,
        *,
        spans: int = 60,
        most: int = 20_000,
        since: datetime | None = None,
        until: datetime | None = None,
    ) -> Tally:
        """How many there are of which `where` is true, asked for at `since` or later and before
        `until`, in so many spans. Where the database cannot say all of `where`, only the newest
        `most` that may be meant are looked at."""

    def newest_of(self, paths: Sequence[str], each: int) -> Mapping[str, list[RunRow]]:
        """Of each playbook in the catalog at one of these paths the newest `each` executions,
        newest first. Paths that have none are left out."""

    def count_open(self) -> Mapping[str, int]:
        """How many executions of each playbook have not ended, without those that were imported.
        Paths that have none are left out."""

    def count_versions(self, path: str, most: int) -> Mapping[int, int]:
        """How many of the newest `most` executions of a playbook are of each of its versions."""

    def asking(self, among: Condition | None, after: str | None, limit: int) -> list[ExecutionRow]:
        """Those with open approvals for which the condition holds, the oldest first; `after` is an
        id to page on from (inclusive: some of its approvals may be left)."""

    def retries_of(self, execution_ids: Sequence[str]) -> Mapping[str, ExecutionRow]:
        """Of each of these that is run again, was, or goes on elsewhere (`migration`), the newest
        execution that does so and was not cancelled."""

    def lock(self, execution_id: str) -> ExecutionRow | None:
        """Locks the row until the end of the transaction; waits for it."""

    def lock_owing(self, now: datetime, limit: int) -> DueExecutions:
        """Locks, in id order, executions that owe a turn (`head_version > decided_version`, or
        `next_wake_at <= now`), and names those that it passed over because another transaction
        holds them."""

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
        waiting_for: str | None = None,
        approvals: int | None = None,
    ) -> None:
        """What a turn leaves in the row: None leaves `ended_at`, `error` and the counts as they
        are. Needs the lock."""

    def set_halt(self, execution_id: str, halt: str) -> None:
        """Tells workers and lanes to take nothing more (or, with an empty string, to go on)."""

    def add_cancelled_parts(self, execution_id: str, count: int) -> None:
        """So many more of its iterations were cancelled. Needs the lock."""

    def owing(self, now: datetime, limit: int) -> list[str]:
        """Ids of executions that owe a turn, without locking."""

    def marks(self, execution_ids: Sequence[str]) -> Mapping[str, Mark]:
        """What two moments of an execution differ in where clients can tell them apart; of those
        that there are."""
