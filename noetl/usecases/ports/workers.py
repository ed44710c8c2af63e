"""The port of the table of workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Protocol


@dataclass(frozen=True, slots=True)
class WorkerRow:
    """A process that serves queues, as of its last heartbeat. `skew_s`: how far its clock is ahead
    of the database's, where that has one."""

    name: str
    role: str
    queues: tuple[str, ...]
    started_at: datetime
    seen_at: datetime
    skew_s: float | None = None


class Workers(Protocol):
    """Processes that serve queues, as of their last heartbeats."""

    def see(self, row: WorkerRow) -> None: ...

    def leave(self, name: str) -> None:
        """It has stopped in order, and is none that fell silent."""

    def alive(self, seen_after: datetime) -> list[WorkerRow]: ...
