"""What an execution waits for, what has come that nothing has taken yet, and its slots."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from noetl.facts.events import (
    ApprovalAnswered,
    ChildCall,
    SignalReceived,
    Wait,
)
from noetl.facts.json import JsonMap
from noetl.facts.limits import AskedSlot
from noetl.facts.timers import TimerPurpose
from noetl.facts.waits import Awaited


@dataclass(frozen=True, slots=True)
class Child:
    """A task that waits for a playbook, at most until `due_at`: `id` is that of the execution, once
    it was made. `number` tells the calls of one pipeline apart. `waits`: only somebody outside
    makes the child go on, as it was at its version `heard`."""

    run_id: str
    step: str
    iteration: int | None
    task: str
    call: ChildCall
    number: int
    due_at: str | None = None
    id: str | None = None
    waits: bool = False
    heard: int = 0


@dataclass(frozen=True, slots=True)
class Timer:
    """An instant that a run, or an iteration, has. `due_at` None: it is scheduled anew, `seconds`
    from the next turn on. `awaited` names what of a wait it is."""

    id: str
    purpose: TimerPurpose
    run_id: str
    iteration: int | None
    seconds: float | None
    due_at: str | None
    awaited: str | None = None


@dataclass(frozen=True, slots=True)
class Signal:
    """A signal that nothing has taken yet, and the version of its event."""

    version: int
    fact: SignalReceived
    principal: str | None


@dataclass(frozen=True, slots=True)
class Answer:
    """What somebody answered to an approval of a wait that has not ended, and the version of its
    event."""

    version: int
    step: str
    iteration: int | None
    fact: ApprovalAnswered
    principal: str


@dataclass(frozen=True, slots=True)
class PendingWait:
    """A task that waits, since `version`, at most `until` then (UTC, ISO 8601). `number` tells the
    waits of one pipeline apart; `matched` are those that have come, of a wait for all; `reminded`
    says how often approvals were brought up again, by their names."""

    run_id: str
    step: str
    iteration: int | None
    task: str
    wait: Wait
    number: int
    version: int
    until: str | None = None
    matched: Mapping[str, JsonMap] = field(default_factory=dict)
    reminded: Mapping[str, int] = field(default_factory=dict)

    @property
    def left(self) -> Sequence[Awaited]:
        """What has not come."""
        if not self.matched:
            return self.wait.awaited
        return [one for one in self.wait.awaited if one.name not in self.matched]

    @property
    def needs_somebody(self) -> bool:
        """Whether something from outside may end it: a signal, or a change of ctx."""
        return any(not one.is_time for one in self.left)


@dataclass(frozen=True, slots=True)
class SlotHolder:
    """A run (`part` `-`), a lane of one, or (with no run) the execution: what it asked for at the
    version `since`, and whether it has that."""

    run_id: str
    part: str
    slots: tuple[AskedSlot, ...]
    priority: int
    since: int
    generation: int = 0
    granted: bool = False
