"""The port of what lies in queues: a view over commands, for people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, Protocol


@dataclass(frozen=True, slots=True)
class QueueDepth:
    """What one queue has for executions of one playbook: commands that are `waiting` for a worker,
    those of them that are `ready` (due, and not paused), and those that workers `hold`. `oldest` is
    since when the first that is due has waited."""

    queue: str
    path: str
    waiting: int
    ready: int
    held: int
    oldest: datetime | None = None


@dataclass(frozen=True, slots=True)
class QueuedCommand:
    """A command that waits in a queue, or that a worker (`owner`) holds. It has waited, or been
    asked for, `since` then, and is not to begin before `due_at`."""

    queue: str
    execution_id: str
    path: str
    #: Its business key.
    key: str | None
    step: str
    run_id: str
    part: str
    purpose: str
    iteration: int | None
    priority: int
    attempt: int
    owner: str | None
    due_at: datetime | None
    since: datetime | None


class Queues(Protocol):
    """What lies in queues. It is only read."""

    def depths(self, now: datetime, most: int) -> Sequence[QueueDepth]:
        """By queue and playbook; of the commands that are not closed the first `most` are counted,
        those of the oldest executions first."""

    def find(
        self, state: Literal["open", "claimed"], queue: str | None = None, limit: int = 100
    ) -> Sequence[QueuedCommand]:
        """Those of a queue (None: of all), in the order in which they are to be taken: of the
        first priority, then those that were asked for first."""
