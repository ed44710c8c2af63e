"""What an execution waits for, and the approvals that it asks for, which are answered there."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Self

from noetl.engine.awaited import who_waits
from noetl.engine.waits import join_awaited
from noetl.facts.json import JsonMap
from noetl.ui.run.look import RunLook

#: What waits that one page shows.
MOST: Final = 50


@dataclass(frozen=True, slots=True)
class ShownWait:
    """Something that waits, as the page shows it."""

    who: str
    what: str
    since: str | None
    until: str | None

    @classmethod
    def of(cls, wait: JsonMap) -> Self:
        return cls(who_waits(wait), join_awaited(wait), wait["since"], wait["until"])


def gather(look: RunLook) -> Mapping[str, Any]:
    """`waits`, and how many more there are."""
    found = look.report.waits
    waits = [ShownWait.of(wait) for wait in found[:MOST]]
    return {"waits": waits, "more_waits": len(found) - len(waits)}
