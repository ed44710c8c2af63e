"""Events of loops and of their iterations."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from noetl.facts.children import ChildCall
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.waits import Wait
from noetl.facts.warnings import Warned


@dataclass(frozen=True, slots=True)
class LoopStarted:
    """The collection was evaluated. `items` is the list, or the reference that stands for it.

    A loop over a `cursor` begins without items: its lanes claim them. One that stays `open` is not
    over when all iterations have ended."""

    type: ClassVar[str] = "loop.started"
    count: int
    items: Json
    mode: Literal["sequential", "parallel"]
    max_in_flight: int
    warnings: tuple[Warned, ...] = ()
    cursor: bool = False
    open: bool = False


@dataclass(frozen=True, slots=True)
class LoopGrown:
    """The loop was asked what the iteration `from_index` brings: `items` are the `count` of them
    that were appended to the collection, or the reference that stands for them. The event's
    iteration is the index of the first."""

    type: ClassVar[str] = "loop.grown"
    from_index: int
    count: int = 0
    items: Json = None
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True)
class LoopClaimed:
    """A lane claimed rows: `items` are the `count` of them, or the reference that stands for them.
    The event's iteration is the index of the first. Recorded before any of them runs.

    `waiting` rows, of this claim and of others, are in no lane's hands yet. A claim without rows
    found none; one with an `error` fails the loop. The `last` one of a lane is that with which it
    ended."""

    type: ClassVar[str] = "loop.claimed"
    lane: str
    count: int = 0
    items: Json = None
    waiting: int = 0
    error: ErrorInfo | None = None
    meta: JsonMap = field(default_factory=dict)
    last: bool = False


@dataclass(frozen=True, slots=True)
class LoopDone:
    """Every iteration ended, or a failed one stopped the loop, or it was `cut` short because enough
    had ended or another run ended its step: then all others are cancelled with it.

    Of a run that was released it is the last event: `failure` is the error with which its branch
    fails, and `stops` says that the whole execution fails with it."""

    type: ClassVar[str] = "loop.done"
    total: int
    completed: int
    failed: int
    cancelled: int = 0
    cut: bool = False
    failure: ErrorInfo | None = None
    stops: bool = False


@dataclass(frozen=True, slots=True)
class IterationStarted:
    """Recorded when an iteration was open at a report; one that ends in its first report has its
    end alone."""

    type: ClassVar[str] = "loop.iteration.started"
    started_at: str


@dataclass(frozen=True, slots=True)
class IterationSuspended:
    type: ClassVar[str] = "loop.iteration.suspended"
    task: str
    reason: str
    due_at: str | None = None
    child: ChildCall | None = None
    wait: Wait | None = None


@dataclass(frozen=True, slots=True)
class IterationResumed:
    type: ClassVar[str] = "loop.iteration.resumed"
    worker: str


@dataclass(frozen=True, slots=True)
class IterationDone:
    """The iteration's result is that of `task` (its last task.done); null where `task` is null.

    `writes` are the ctx assignments that wait for the loop's reducers, in order: (name, value)."""

    type: ClassVar[str] = "loop.iteration.done"
    task: str | None = None
    writes: tuple[tuple[str, Json], ...] = ()


@dataclass(frozen=True, slots=True)
class IterationCancelled:
    """Somebody asked for its end. Its result is null, and its loop goes on."""

    type: ClassVar[str] = "loop.iteration.cancelled"
    reason: str


@dataclass(frozen=True, slots=True)
class IterationFailed:
    type: ClassVar[str] = "loop.iteration.failed"
    error: ErrorInfo
