"""The port of operations: what is done to many executions at once, and how far that is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol, TypeAlias

from noetl.facts.callers import Caller
from noetl.facts.json import JsonMap

OperationKind: TypeAlias = Literal["retry"]
#: `paused`, `cancelling`: nothing more is begun, and what was goes on to its end.
OperationStatus: TypeAlias = Literal["running", "paused", "cancelling", "completed", "cancelled"]
#: `started` until what was begun has ended, then how that ended; `refused`: it could not be begun;
#: `dropped`: the operation was cancelled before.
ItemState: TypeAlias = Literal[
    "pending", "started", "completed", "failed", "partial", "cancelled", "refused", "dropped"
]


@dataclass(frozen=True, slots=True)
class OperationRow:
    """One operation. `chosen_by` is the condition that chose its executions, as it was written, and
    `how` what is done to each; at most `concurrency` are under way at once. `reason` is why it was
    asked for, and once it was paused or cancelled, why that."""

    operation_id: str
    kind: OperationKind
    status: OperationStatus
    chosen_by: str
    how: JsonMap
    concurrency: int
    created_at: datetime
    updated_at: datetime
    ended_at: datetime | None = None
    reason: str = ""
    #: As that of an execution.
    shard: str = ""
    #: Who asked for it, and in which request.
    principal: str | None = None
    request_id: str | None = None

    @property
    def caller(self) -> Caller | None:
        return None if self.principal is None else Caller(self.principal, self.request_id or "")


@dataclass(frozen=True, slots=True)
class OperationItem:
    """What becomes of one execution. `begun_id` is the one that was begun for it, `reason` why it
    was refused."""

    position: int
    execution_id: str
    state: ItemState = "pending"
    begun_id: str | None = None
    reason: str = ""


class Operations(Protocol):
    """Operations and their items, each of which only goes forward: pending, started, ended."""

    def add(self, row: OperationRow, execution_ids: Sequence[str]) -> None:
        """With an item for each of the executions, in their order. Its shard becomes that of the
        store."""

    def get(self, operation_id: str) -> OperationRow | None:
        """Reads without a lock."""

    def find(
        self, *, principal: str | None = None, before: str | None = None, limit: int = 50
    ) -> list[OperationRow]:
        """Newest first; `principal` is who asked for them, `before` an id to page on from
        (exclusive)."""

    def lock(self, operation_id: str) -> OperationRow | None:
        """Locks the row until the end of the transaction; waits for it."""

    def unfinished(self) -> list[str]:
        """The ids of the store's own that have not ended, oldest first."""

    def items(
        self, operation_id: str, *, state: ItemState | None = None, after: int = -1, limit: int = 100
    ) -> list[OperationItem]:
        """In their order, behind the position `after`."""

    def counts(self, operation_ids: Sequence[str]) -> Mapping[str, Mapping[ItemState, int]]:
        """Of each how many items are in which state; states of none are left out."""

    def save_item(self, operation_id: str, item: OperationItem) -> None:
        """Needs the operation's lock."""

    def record_ends(self, operation_id: str) -> int:
        """Gives items that were started the status of what was begun for them, where that has
        ended; how many. Needs the lock."""

    def drop_pending(self, operation_id: str) -> None:
        """Needs the lock."""

    def save_status(self, row: OperationRow) -> None:
        """Its `status`, `reason`, `updated_at` and `ended_at`. Needs the lock."""
