"""Who paused or cancelled an execution, when and why, as its log says it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from noetl.facts.events import CancelRequested, PauseRequested
from noetl.facts.json import Json
from noetl.usecases.access import ANONYMOUS
from noetl.usecases.ports import ENDED, ExecutionRow, Transaction

Act: TypeAlias = Literal["pause", "cancel"]
#: The event that asks for it.
_EVENTS: Final[Mapping[Act, type[PauseRequested | CancelRequested]]] = {
    "pause": PauseRequested,
    "cancel": CancelRequested,
}


@dataclass(frozen=True, slots=True)
class Stop:
    """That somebody asked to `pause` or to `cancel` it. `principal` None: the log does not say
    who."""

    act: Act
    at: datetime
    principal: str | None
    reason: str

    def as_json(self) -> dict[str, Json]:
        return {
            "act": self.act,
            "at": self.at.isoformat(),
            "principal": self.principal,
            "reason": self.reason,
        }

    @property
    def text(self) -> str:
        """`cancelled by ana`, without the instant and the reason."""
        word = "cancelled" if self.act == "cancel" else "paused"
        return word if self.principal in (None, ANONYMOUS) else f"{word} by {self.principal}"


def find_stop(tx: Transaction, row: ExecutionRow) -> Stop | None:
    """The last time that somebody asked for it, where that still holds."""
    act = _find_act(row)
    if act is None:
        return None
    asked = tx.events.read(row.execution_id, types=(_EVENTS[act].type,))
    for event in reversed(asked):
        if isinstance(event.fact, PauseRequested | CancelRequested):
            caller = event.draft.caller
            principal = None if caller is None else caller.principal
            return Stop(act, event.recorded_at, principal, event.fact.reason)
    return None


def _find_act(row: ExecutionRow) -> Act | None:
    """What holds of it now. One that has ended takes nothing more, whatever its end was."""
    if row.status == "cancelled":
        return "cancel"
    if row.status in ENDED:
        return None
    match row.halt:
        case "cancel" | "pause" as halt:
            return halt
        case _:
            return "pause" if row.status == "paused" else None
