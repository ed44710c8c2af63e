"""The port of the audit."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Protocol

from noetl.facts.callers import Caller
from noetl.facts.json import JsonMap


@dataclass(frozen=True, slots=True)
class AuditEntry:
    """What somebody asked for, and was done. `action` is the type of an event, or a word for a
    change of something else (`credential.saved`); `subject` is the id of the execution, or the
    name of the other thing. `number` counts up, with gaps."""

    caller: Caller
    action: str
    subject: str
    recorded_at: datetime
    detail: JsonMap = field(default_factory=dict)
    #: Of an event: its version in the log of the execution.
    version: int | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class AuditFilter:
    """Which entries are meant: those for which all that is given holds. `action` also means those
    that begin with it and a dot."""

    principal: str | None = None
    action: str | None = None
    subject: str | None = None
    request_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


class Audit(Protocol):
    """Entries, which are only added. Those of events `Events.append` adds, for each event with a
    caller that is no copy."""

    def add(self, entry: AuditEntry) -> None: ...

    def find(self, where: AuditFilter, *, before: int | None = None, limit: int = 100) -> list[AuditEntry]:
        """Newest first; `before` is a number to page on from (exclusive)."""
