"""Events of timers: instants that somebody waits for, or has to have ended by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal


@dataclass(frozen=True, slots=True)
class TimerScheduled:
    """A timer of the event's run. It fires at `due_at` (UTC, ISO 8601), `seconds` after it was
    scheduled. `deadline`: the run has to have ended by then."""

    type: ClassVar[str] = "timer.scheduled"
    timer: str
    purpose: Literal["deadline"]
    due_at: str
    seconds: float


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The instant has come. What follows from that stands behind it."""

    type: ClassVar[str] = "timer.fired"
    timer: str
    purpose: Literal["deadline"]
