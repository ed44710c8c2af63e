"""Iterations of loops as rows, from the first that the log says of one to its end."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from noetl.facts.events import (
    Event,
    Fact,
    IterationCancelled,
    IterationDone,
    IterationFailed,
    IterationResumed,
    IterationStarted,
    IterationSuspended,
    LoopDone,
    StepCancelled,
    StepDone,
    StepFailed,
    TaskFact,
)
from noetl.facts.json import Json
from noetl.projection.rows import NO_ERROR, ProjectionRow, error_columns, milliseconds

_UNKNOWN: Final[dict[str, Json]] = {
    "status": "running",
    "attempts": 0,
    "started_at": None,
    "ended_at": None,
    "duration_ms": None,
    **NO_ERROR,
}


class IterationRows:
    """Those that have begun and not ended, by the run of their step."""

    def __init__(self) -> None:
        self._open: dict[str, dict[int, dict[str, Any]]] = {}

    def take(self, event: Event) -> Iterator[ProjectionRow]:
        """The rows that `event` settles."""
        if event.draft.iteration is not None:
            yield from self._take_part(event, event.draft.iteration)
        elif _ends_all(event.fact):
            yield from self.end(event, event.draft.run_id or "")

    def end(self, event: Event, run_id: str) -> Iterator[ProjectionRow]:
        """The loop is over with `event`: what still ran of it was cancelled."""
        for values in self._open.pop(run_id, {}).values():
            yield _close(event, {**values, "status": "cancelled"})

    def rest(self) -> Iterator[ProjectionRow]:
        """The rows of what has not ended."""
        for rows in self._open.values():
            yield from (ProjectionRow("loop_iteration", values) for values in rows.values())

    def _take_part(self, event: Event, index: int) -> Iterator[ProjectionRow]:
        changes, ending = _change(event.fact), _end(event.fact)
        if not (changes or ending or isinstance(event.fact, TaskFact)):
            return
        rows = self._open.setdefault(event.draft.run_id or "", {})
        values = rows.setdefault(index, _begin(event, index))
        attempts = max(values["attempts"], event.draft.attempt or 0)
        values |= {**changes, "attempts": attempts, "as_of": event.version}
        if ending:
            del rows[index]
            yield _close(event, {**values, **ending})


def _begin(event: Event, index: int) -> dict[str, Any]:
    return {
        "execution_id": event.execution_id,
        "run_id": event.draft.run_id,
        "iteration": index,
        "step": event.draft.step,
        **_UNKNOWN,
    }


def _ends_all(fact: Fact) -> bool:
    """Of a run that was released iterations go on behind its end."""
    match fact:
        case StepDone(released=True):
            return False
        case LoopDone() | StepDone() | StepFailed() | StepCancelled():
            return True
        case _:
            return False


def _change(fact: Fact) -> dict[str, Json]:
    match fact:
        case IterationStarted(started_at=started_at):
            return {"status": "running", "started_at": started_at}
        case IterationSuspended():
            return {"status": "waiting"}
        case IterationResumed():
            return {"status": "running"}
        case _:
            return {}


def _end(fact: Fact) -> dict[str, Json]:
    match fact:
        case IterationDone():
            return {"status": "done"}
        case IterationFailed(error=error):
            return {"status": "failed", **error_columns(error)}
        case IterationCancelled():
            return {"status": "cancelled"}
        case _:
            return {}


def _close(event: Event, values: dict[str, Any]) -> ProjectionRow:
    began = values["started_at"]
    spent = event.draft.duration_ms if began is None else milliseconds(began, event.recorded_at)
    ended = {"ended_at": event.recorded_at.isoformat(), "duration_ms": spent, "as_of": event.version}
    return ProjectionRow("loop_iteration", {**values, **ended})
