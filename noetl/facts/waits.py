"""What a task may wait for without a worker, and the events of that: signals that came, and waits
that ended."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import ClassVar, Final, Literal

from noetl.facts.approvals import SoughtApproval
from noetl.facts.brief import brief
from noetl.facts.durations import compact
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo

#: A part of a second, in an instant of ISO 8601.
_FRACTION: Final = re.compile(r"(?<=:\d\d)\.\d+")


@dataclass(frozen=True, slots=True)
class LaterGuard:
    """A guard that is asked again and again while something waits: `when` is its template, `names`
    are the values that it had of all that does not change meanwhile."""

    when: Json
    names: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class SoughtSignal:
    """Signals called `name` whose payload holds what `match` says (dotted name → value) and for
    which `guard` holds."""

    name: str
    match: JsonMap = field(default_factory=dict)
    guard: LaterGuard | None = None
    #: What a signal that is sent to whoever waits for it names.
    correlate: str | None = None


@dataclass(frozen=True, slots=True)
class Awaited:
    """One thing that a task waits for, called `name` in what the task yields. One of the others is
    given: a time in `seconds`, an instant (`until`, UTC, ISO 8601), a signal, a condition over ctx,
    an approval, or a call of the task's own address."""

    name: str
    seconds: float | None = None
    until: str | None = None
    signal: SoughtSignal | None = None
    condition: LaterGuard | None = None
    approval: SoughtApproval | None = None
    callback: bool = False

    @property
    def is_time(self) -> bool:
        """Whether it comes by itself."""
        return self.seconds is not None or self.until is not None

    def describe(self, due_at: str | None = None) -> str:
        """`signal 'paid'`, `condition ctx.ready`, `2026-01-01T00:00:00+00:00`. `due_at`: when its
        time is over, where that is known."""
        if self.signal is not None:
            return f"signal {self.signal.name!r}"
        if self.condition is not None:
            return f"condition {brief(str(self.condition.when))}"
        if self.approval is not None:
            return self.approval.describe()
        if self.callback:
            return "callback"
        return _to_seconds(due_at or self.until) or compact(self.seconds or 0.0)


def _to_seconds(instant: str | None) -> str | None:
    """Nobody who waits for it reads microseconds."""
    return instant and _FRACTION.sub("", instant)


#: How the reason of a suspension begins that is for the lock of an equal call; its key follows. It
#: is no field of its own, so that all versions read it.
BEHIND_LOCK: Final = "lock:"


def find_lock(reason: str) -> str | None:
    """The key of the lock that a suspension of that reason is for."""
    return reason.removeprefix(BEHIND_LOCK) if reason.startswith(BEHIND_LOCK) else None


@dataclass(frozen=True, slots=True)
class Wait:
    """A task waits for the first, or for all, of what it awaits. `named`: its result says which.
    `since` (UTC, ISO 8601) is when it left its worker."""

    mode: Literal["any", "all"]
    awaited: tuple[Awaited, ...]
    named: bool = False
    since: str | None = None

    def describe(self) -> str:
        """What all of it is, in a line."""
        return (" and " if self.mode == "all" else " or ").join(one.describe() for one in self.awaited)


@dataclass(frozen=True, slots=True)
class SignalReceived:
    """Somebody told the execution something, at `at` (UTC, ISO 8601). It is kept until a wait takes
    it, or `expires_at`. `everyone`: all that wait for it then take it, and not the oldest alone.
    `about`: it was sent to whoever waits for that value, and nothing else takes it."""

    type: ClassVar[str] = "signal.received"
    signal: str
    id: str
    at: str
    payload: Json = None
    expires_at: str | None = None
    everyone: bool = False
    about: str | None = None


@dataclass(frozen=True, slots=True)
class SignalExpired:
    """Nothing has waited for the signal in time. `received` is the version of its event."""

    type: ClassVar[str] = "signal.expired"
    signal: str
    received: int


@dataclass(frozen=True, slots=True)
class WaitMatched:
    """Of what the task waits for `name` has come. `ends`: the task goes on, with `result`; else it
    is what this one came to, and others are still waited for. `received` is the version of the
    signal that it took."""

    type: ClassVar[str] = "wait.matched"
    task: str
    name: str
    result: JsonMap
    ends: bool = True
    received: int | None = None


@dataclass(frozen=True, slots=True)
class WaitFailed:
    """What the task waits for cannot come any more: somebody rejected it, nobody answered in time,
    or a guard cannot be evaluated."""

    type: ClassVar[str] = "wait.failed"
    task: str
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class WaitTimedOut(WaitFailed):
    """The time of the task was over before what it waits for had come."""

    type: ClassVar[str] = "wait.timed_out"
