"""The port of snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from noetl.facts.json import JsonMap


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The engine's state at `version`, as JSON; `schema` is that of the state."""

    execution_id: str
    version: int
    schema: int
    state: JsonMap


class Snapshots(Protocol):
    """States of executions, so that not every replay begins at the beginning."""

    def save(self, snapshot: Snapshot) -> None:
        """Keeps the newest only."""

    def get(self, execution_id: str) -> Snapshot | None: ...
