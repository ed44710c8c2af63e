"""Step runs as rows, and the columns for errors and times that other tables share."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any, Final

from noetl.engine.state import State
from noetl.facts.events import (
    Event,
    Fact,
    LoopClaimed,
    LoopDone,
    LoopStarted,
    StepCancelled,
    StepDone,
    StepFailed,
    StepResumed,
    StepScheduled,
    StepSkipped,
    StepStarted,
    StepSuspended,
)
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo
from noetl.projection.tables import ProjectionRow

NO_ERROR: Final[dict[str, Json]] = {"error_kind": None, "error_message": None, "error": None}


def error_columns(error: ErrorInfo | None) -> dict[str, Json]:
    """`error_kind`, `error_message` and `error`."""
    if error is None:
        return NO_ERROR
    return {"error_kind": error.kind, "error_message": error.message, "error": error.as_json()}


def milliseconds(begin: str, end: datetime) -> float:
    """From `begin` (ISO 8601) to `end`, to the microsecond."""
    return round((end - datetime.fromisoformat(begin)).total_seconds() * 1000, 3)


_UNTOLD: Final[dict[str, Json]] = {
    "status": "running",
    "worker": None,
    "started_at": None,
    "ended_at": None,
    "duration_ms": None,
    "loop_mode": None,
    "iterations": None,
    "iterations_done": None,
    "iterations_failed": None,
    "result": None,
    **NO_ERROR,
}


class StepRows:
    """The step runs that have not ended."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, Any]] = {}

    def take(self, event: Event, state: State) -> Iterator[ProjectionRow]:
        """The rows that `event` settles; `state` is that after it."""
        if isinstance(event.fact, StepScheduled):
            self._open[event.draft.run_id or ""] = _scheduled(event, event.fact)
            return
        values = self._open.get(event.draft.run_id or "")
        if values is None:
            return
        if changes := _moved(event.fact, values):
            values |= {**changes, "as_of": event.version}
        if ended := _ended(event, values, state):
            del self._open[values["run_id"]]
            yield _closed(event, {**values, **ended})

    def end(self, event: Event) -> Iterator[ProjectionRow]:
        """The execution ended with `event`: what still ran was cancelled with it."""
        for values in self._open.values():
            yield _closed(event, {**values, "status": "cancelled"})
        self._open.clear()

    def rest(self) -> Iterator[ProjectionRow]:
        """The rows of what has not ended."""
        return (ProjectionRow("step_run", values) for values in self._open.values())

    @property
    def running(self) -> list[str]:
        return list(self._open)


def _scheduled(event: Event, fact: StepScheduled) -> dict[str, Any]:
    return {
        "execution_id": event.execution_id,
        "run_id": event.draft.run_id,
        "step": event.draft.step,
        "final": fact.final,
        "args": dict(fact.args),
        "scheduled_at": event.recorded_at.isoformat(),
        **_UNTOLD,
        "as_of": event.version,
    }


def _moved(fact: Fact, values: dict[str, Any]) -> dict[str, Json]:
    match fact:
        case StepStarted(worker=worker, started_at=started_at):
            return {"status": "running", "worker": worker, "started_at": started_at}
        case StepResumed():
            return {"status": "running"}
        case StepSuspended():
            return {"status": "waiting"}
        case LoopStarted(mode=mode, count=count):
            return {"loop_mode": mode, "iterations": count, "iterations_done": 0, "iterations_failed": 0}
        case LoopClaimed(count=count) if count:
            return {"iterations": values["iterations"] + count}
        case LoopDone(completed=completed, failed=failed):
            return {"iterations_done": completed, "iterations_failed": failed}
        case _:
            return {}


def _ended(event: Event, values: dict[str, Any], state: State) -> dict[str, Json]:
    match event.fact:
        case StepDone():
            record = state.steps.get(values["step"])
            # Those of a loop are as many as its items: they stand in the rows of its tasks.
            result = record.result if record and values["loop_mode"] is None else None
            return {"status": "done", "result": result}
        case StepFailed(error=error):
            return {"status": "failed", **error_columns(error), **_counted(error.stats)}
        case StepCancelled():
            return {"status": "cancelled"}
        case StepSkipped():
            return {"status": "skipped"}
        case _:
            return {}


def _counted(stats: Json) -> dict[str, Json]:
    """A loop that was stopped by a failure has its numbers in the error."""
    return (
        {f"iterations_{name}": stats[key] for name, key in (("done", "completed"), ("failed", "failed"))}
        if stats
        else {}
    )


def _closed(event: Event, values: dict[str, Any]) -> ProjectionRow:
    spent = milliseconds(values["scheduled_at"], event.recorded_at)
    ended = {"ended_at": event.recorded_at.isoformat(), "duration_ms": spent, "as_of": event.version}
    return ProjectionRow("step_run", {**values, **ended})
