"""Tasks as rows: `task_run` for each run of a task in a pipeline, `attempt` for each of its
tries."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias

from noetl.facts.events import (
    AttemptFailed,
    ChildRequested,
    Event,
    IterationDone,
    IterationFailed,
    IterationResumed,
    IterationSuspended,
    LoopDone,
    PolicyEvaluated,
    StepCancelled,
    StepDone,
    StepFailed,
    StepResumed,
    StepSuspended,
    TaskCallDone,
    TaskCallFailed,
    TaskCheckpointed,
    TaskDone,
    TaskFailed,
    TaskItemDone,
    TaskItemFailed,
    TaskLoopStarted,
    TaskStarted,
)
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo
from noetl.projection.rows import NO_ERROR, ProjectionRow, error_columns

#: What a pipeline belongs to: a step run, and an iteration of it.
Place: TypeAlias = tuple[str, int | None]

#: `(step, task)` → kind of the tool.
Kinds: TypeAlias = Mapping[tuple[str, str], str]

_UNKNOWN: Final[Mapping[str, Json]] = {
    "status": "running",
    "attempts": 0,
    "started_at": None,
    "ended_at": None,
    "duration_ms": None,
    "child_id": None,
    "result": None,
    **NO_ERROR,
}


@dataclass(slots=True)
class _Pipeline:
    """How often each task has ended, and those that have begun and not ended."""

    visits: dict[str, int] = field(default_factory=dict)
    open: dict[str, dict[str, Any]] = field(default_factory=dict)


class TaskRows:
    """The pipelines of the step runs that have not ended."""

    def __init__(self, kinds: Kinds) -> None:
        self._kinds = kinds
        self._pipelines: dict[str, dict[int | None, _Pipeline]] = {}
        #: Runs whose iterations run on behind the end of their step.
        self._released: set[str] = set()

    def take(self, event: Event) -> Iterator[ProjectionRow]:
        """The rows that `event` settles."""
        yield from self._take_try(event)
        match event.fact:
            case TaskStarted(task=task, started_at=started_at):
                self._row(event, task)["started_at"] = started_at
            case TaskCheckpointed(task=task) | TaskLoopStarted(task=task):
                self._row(event, task)
            case StepSuspended(task=task) | IterationSuspended(task=task):
                self._row(event, task)["status"] = "waiting"
            case ChildRequested(task=task, child_id=child_id):
                self._row(event, task)["child_id"] = child_id
            case StepResumed() | IterationResumed():
                self._resume(event)
            case IterationDone() | IterationFailed():
                pipelines = self._pipelines.get(event.draft.run_id or "", {})
                yield from self._close(event, pipelines.pop(event.draft.iteration, None))
            case StepDone(released=True):
                self._released.add(event.draft.run_id or "")
            case LoopDone() if event.draft.run_id in self._released:
                yield from self.end(event, event.draft.run_id or "")
            case StepDone() | StepFailed() | StepCancelled():
                yield from self.end(event, event.draft.run_id or "")
            case _:
                pass

    def _take_try(self, event: Event) -> Iterator[ProjectionRow]:
        match event.fact:
            # To tables each item of a task's own loop, and each call of one that repeats, is a
            # visit, and the whole the last one.
            case TaskDone() | TaskItemDone() | TaskCallDone() as fact:
                yield self._attempt(event, fact.task, "done", None)
                yield self._end_task(event, fact.task, {"status": "done", "result": fact.result})
            case TaskFailed() | TaskItemFailed() | TaskCallFailed() as fact:
                yield self._attempt(event, fact.task, "failed", fact.error)
                yield self._end_task(event, fact.task, {"status": "failed", **error_columns(fact.error)})
            case AttemptFailed(task=task, error=error):
                yield self._attempt(event, task, "failed", error)
            case PolicyEvaluated(task=task, do="retry"):
                # A try that failed has its own event before its policy's; one that went well has
                # not.
                if self._row(event, task)["attempts"] < (event.draft.attempt or 1):
                    yield self._attempt(event, task, "repeated", None)
            case _:
                pass

    def _resume(self, event: Event) -> None:
        for values in self._pipeline(event).open.values():
            if values["status"] == "waiting":
                values |= {"status": "running", "as_of": event.version}

    def end(self, event: Event, run_id: str) -> Iterator[ProjectionRow]:
        """The step run ended with `event`."""
        for pipeline in self._pipelines.pop(run_id, {}).values():
            yield from self._close(event, pipeline)

    def rest(self) -> Iterator[ProjectionRow]:
        """The rows of what has not ended."""
        for pipelines in self._pipelines.values():
            for pipeline in pipelines.values():
                yield from (ProjectionRow("task_run", values) for values in pipeline.open.values())

    def _attempt(
        self, event: Event, task: str, status: Literal["done", "failed", "repeated"], error: ErrorInfo | None
    ) -> ProjectionRow:
        row = self._row(event, task)
        number = event.draft.attempt or row["attempts"] + 1
        row |= {"attempts": number, "status": "running"}
        values = {
            name: row[name] for name in ("execution_id", "run_id", "iteration", "task", "visit", "step")
        }
        values |= {"attempt": number, "status": status, "ended_at": event.recorded_at.isoformat()}
        values |= {"duration_ms": event.draft.duration_ms, **error_columns(error), "as_of": event.version}
        return ProjectionRow("attempt", values)

    def _end_task(self, event: Event, task: str, how: Mapping[str, Json]) -> ProjectionRow:
        values = self._row(event, task)
        pipeline = self._pipeline(event)
        pipeline.visits[task] = values["visit"]
        del pipeline.open[task]
        took = {"ended_at": event.recorded_at.isoformat(), "duration_ms": event.draft.duration_ms}
        return ProjectionRow("task_run", {**values, **took, **how})

    def _row(self, event: Event, task: str) -> dict[str, Any]:
        """The row of the task's run that goes on at `event`; a new one where none does."""
        pipeline = self._pipeline(event)
        values = pipeline.open.get(task)
        if values is None:
            step = event.draft.step or ""
            values = pipeline.open[task] = {
                "execution_id": event.execution_id,
                "run_id": event.draft.run_id,
                "iteration": event.draft.iteration,
                "task": task,
                "visit": pipeline.visits.get(task, 0) + 1,
                "step": step,
                "kind": self._kinds.get((step, task)),
                **_UNKNOWN,
            }
        values["as_of"] = event.version
        return values

    def _pipeline(self, event: Event) -> _Pipeline:
        pipelines = self._pipelines.setdefault(event.draft.run_id or "", {})
        return pipelines.setdefault(event.draft.iteration, _Pipeline())

    def _close(self, event: Event, pipeline: _Pipeline | None) -> Iterator[ProjectionRow]:
        for values in pipeline.open.values() if pipeline else ():
            ended = {"status": "unfinished", "ended_at": event.recorded_at.isoformat()}
            yield ProjectionRow("task_run", {**values, **ended, "as_of": event.version})
