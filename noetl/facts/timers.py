"""Events of timers: instants that somebody waits for, or has to have ended by."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal, TypeAlias

TimerPurpose: TypeAlias = Literal["deadline", "timeout", "wait", "expiry", "reminder", "region"]


@dataclass(frozen=True, slots=True)
class TimerScheduled:
    """A timer of the event's run, or iteration. It fires at `due_at` (UTC, ISO 8601), `seconds`
    after it was scheduled; None: at that instant, whenever it was. `deadline`: the run has to have
    ended by then; `timeout`: what its task waits for has to have come; `wait`: it is what a task
    waits for, under the name `awaited`; `expiry`, `reminder`: of an approval of that name;
    `region`: the region `awaited` has to have ended by then."""

    type: ClassVar[str] = "timer.scheduled"
    timer: str
    purpose: TimerPurpose
    due_at: str
    seconds: float | None
    awaited: str | None = None


@dataclass(frozen=True, slots=True)
class TimerFired:
    """The instant has come. What follows from that stands behind it."""

    type: ClassVar[str] = "timer.fired"
    timer: str
    purpose: TimerPurpose
