"""Events of limits: slots that are asked for and granted, and the pause of one step."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar, Final, Literal, TypeAlias

#: What becomes of a request that finds no room.
OnFull: TypeAlias = Literal["wait", "skip", "fail", "cancel_oldest"]

#: 9 comes first. What says nothing has the one in the middle; iterations of loops are last.
PRIORITIES: Final = range(10)
DEFAULT_PRIORITY: Final = 5
LOOP_PRIORITY: Final = 0
#: The place in line of the lowest priority, where the highest has place 0.
LAST_PLACE: Final = 9

#: Where the slot of a run as a whole belongs, or that of the execution; a lane's is its part.
WHOLE: Final = "-"

#: What stands before the name of a region, and which entry of it, in the place of a run: no step is
#: called so.
REGION_RUN: Final = "region/"

#: What keys begin with that are not written in playbooks: those of queues, and of rates.
QUEUE_KEY: Final = "queue:"
RATE_KEY: Final = "rate:"


@dataclass(frozen=True, slots=True)
class AskedSlot:
    """One slot of `key`, of which there are `limit`. With `per_s` it is one of so many in any
    `per_s` seconds, and is held by nobody once it was granted."""

    key: str
    limit: int
    on_full: OnFull = "wait"
    per_s: float | None = None


@dataclass(frozen=True, slots=True)
class SlotRequested:
    """`part` of the event's run (`-`: all of it), or of the execution where the event has no run,
    does not begin before it has a slot of each of these keys."""

    type: ClassVar[str] = "slot.requested"
    part: str
    slots: tuple[AskedSlot, ...]
    priority: int = DEFAULT_PRIORITY
    #: Of a lane: the generation of its loop that it belongs to.
    generation: int = 0


@dataclass(frozen=True, slots=True)
class SlotGranted:
    """It has them all, and begins."""

    type: ClassVar[str] = "slot.granted"
    part: str


@dataclass(frozen=True, slots=True)
class StepPauseRequested:
    """Nothing of the step begins until its pause is over; what runs of it ends."""

    type: ClassVar[str] = "step.pause.requested"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StepPauseEnded:
    """The step goes on."""

    type: ClassVar[str] = "step.pause.ended"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class SlotRow:
    """A request for one slot, and once `granted_at` its holder. One for each holder and key.

    `offered_at` is when it was first found that it could be granted. A slot of a rate counts until
    `expires_at`. `within` are the holders that go on only when this one does, the nearest first;
    `under` is the one among them whose slot it shares, which then counts once."""

    execution_id: str
    run_id: str
    part: str
    key: str
    limit: int
    requested_at: datetime
    on_full: OnFull = "wait"
    per_s: float | None = None
    priority: int = DEFAULT_PRIORITY
    granted_at: datetime | None = None
    offered_at: datetime | None = None
    expires_at: datetime | None = None
    within: tuple[str, ...] = ()
    under: str | None = None

    @property
    def holder(self) -> str:
        """Who asked, among all executions."""
        return holder_id(self.execution_id, self.run_id, self.part)


def region_run(region: str, number: int) -> str:
    """Stands for a region in the place of a run: it holds slots itself."""
    return f"{REGION_RUN}{region}#{number}"


def region_of(run_id: str) -> str | None:
    """The region that this stands for; None for a run."""
    return run_id[len(REGION_RUN) :].rpartition("#")[0] if run_id.startswith(REGION_RUN) else None


def holder_id(execution_id: str, run_id: str, part: str) -> str:
    """Names a run, a lane, or (with no run) an execution among all executions."""
    return f"{execution_id}/{run_id}/{part}"
