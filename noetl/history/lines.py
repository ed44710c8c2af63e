"""The timeline of an execution as frozen data: what its steps were at every version, and when their
runs waited in queues, ran, or waited for something else.

All times are milliseconds since the execution was asked for. They never go back: where the clocks
of two machines differ, what was recorded later counts as not earlier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from noetl.engine.run_state import RunStatus

#: What a run does: it is `queued` until a worker takes it, `running`, or `waiting` for an instant,
#: a slot, another execution, or somebody.
Phase: TypeAlias = Literal["queued", "running", "waiting"]


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a run's time. `end_ms` None: it is still so. `attempt` counts from 1 where a
    pipeline runs, and is None elsewhere; `failed`: that attempt failed; `lost`: its worker was, and
    the delivery of that number ended with it."""

    phase: Phase
    begin_ms: float
    end_ms: float | None
    attempt: int | None
    failed: bool
    lost: int | None = None


@dataclass(frozen=True, slots=True)
class IterationMark:
    """An iteration of a loop that ended with the event of that version. `iteration` counts from
    0."""

    version: int
    at_ms: float
    iteration: int
    status: Literal["done", "failed", "cancelled"]


@dataclass(frozen=True, slots=True)
class LoopLine:
    """How far the loop of a run has come. `total` is how many iterations are known so far: with a
    cursor, and where a loop grows, more may follow. `ended` are in the order of their ends."""

    total: int
    mode: Literal["sequential", "parallel"]
    ended: Sequence[IterationMark]


@dataclass(frozen=True, slots=True)
class RunLine:
    """One firing of a step, from `step.scheduled` until it has ended. `end_version` and `end_ms`
    are None where it has not.

    `segments` are in order, without gaps, and the last one ends with the run. `critical`: it is on
    the way that the end of the execution waited for (`Timeline.critical`). `kept_from` is the
    execution whose recorded end stands for the run, which took no time here.
    """

    run_id: str
    step: str
    status: RunStatus
    begin_version: int
    end_version: int | None
    begin_ms: float
    end_ms: float | None
    segments: Sequence[Segment]
    loop: LoopLine | None
    critical: bool
    kept_from: str | None = None


@dataclass(frozen=True, slots=True)
class StatusChange:
    """The execution is called `status` from that version on, until the next change."""

    version: int
    status: str


@dataclass(frozen=True, slots=True)
class StepChange:
    """The step is called `status` from that version on, until the next change."""

    version: int
    status: RunStatus


@dataclass(frozen=True, slots=True)
class StepLine:
    """What a step was, and its runs in the order in which they fired. Both are empty where it has
    never begun; one whose tokens were skipped has changes and no run."""

    step: str
    changes: Sequence[StepChange]
    runs: Sequence[RunLine]


@dataclass(frozen=True, slots=True)
class ArcLine:
    """The versions of the events `next.evaluated` that took the arc, and of those that asked it and
    did not."""

    arc: str
    taken: tuple[int, ...]
    missed: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Timeline:
    """An execution up to `version`. It was asked for at `begin`; `at_ms` says of every version,
    from 1, when it was recorded.

    `steps` and `arcs` are those of the net in the order of the document, behind them those that
    only the log knows, of runs of another version of the playbook. `critical` are ids of runs: the
    last one is the run that ended last, and each was fired by the one before it.
    """

    execution_id: str
    version: int
    begin: datetime
    at_ms: Sequence[float]
    statuses: tuple[StatusChange, ...]
    steps: tuple[StepLine, ...]
    arcs: tuple[ArcLine, ...]
    critical: tuple[str, ...]
