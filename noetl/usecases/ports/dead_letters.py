"""The port of dead letters."""

from __future__ import annotations

from datetime import datetime
from typing import Protocol

from noetl.facts.json import JsonMap


class DeadLetters(Protocol):
    """Messages that no worker could read."""

    def add(self, source: str, reason: str, body: str, now: datetime) -> None: ...

    def newest(self, limit: int = 50) -> list[JsonMap]: ...
