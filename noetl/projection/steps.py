"""Tokens and step runs as rows: where each token was put down and taken away, and each run of a
step from its firing to its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from noetl.engine.state import State
from noetl.facts.events import (
    Event,
    Fact,
    JoinUnsatisfied,
    LoopClaimed,
    LoopDone,
    LoopGrown,
    LoopStarted,
    NextEvaluated,
    StepCancelled,
    StepDone,
    StepFailed,
    StepResumed,
    StepScheduled,
    StepSkipped,
    StepStarted,
    StepSuspended,
    Token,
    WorkflowStarted,
)
from noetl.facts.json import Json
from noetl.projection.rows import NO_ERROR, ProjectionRow, error_columns, milliseconds

_UNKNOWN: Final[dict[str, Json]] = {
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


class TokenRows:
    """Those that wait."""

    def __init__(self) -> None:
        self._waiting: dict[str, dict[str, Any]] = {}

    def take(self, event: Event) -> Iterator[ProjectionRow]:
        """The rows that `event` settles."""
        match event.fact:
            case WorkflowStarted(tokens=tokens) | NextEvaluated(tokens=tokens):
                yield from self._put(event, tokens)
            case StepScheduled(tokens=ids):
                yield from self._take_away(event, ids, "consumed", event.draft.run_id)
            case StepSkipped(tokens=ids) | JoinUnsatisfied(tokens=ids):
                yield from self._take_away(event, ids, "dropped")
            case _:
                pass

    def end(self, event: Event) -> Iterator[ProjectionRow]:
        """The execution ended with `event`: the rest stays."""
        yield from self._take_away(event, list(self._waiting), "left")

    def rest(self) -> Iterator[ProjectionRow]:
        """The rows of those that wait."""
        return (ProjectionRow("token", values) for values in self._waiting.values())

    def _put(self, event: Event, tokens: Iterable[Token]) -> Iterator[ProjectionRow]:
        for token in tokens:
            self._waiting[token.id] = {
                "execution_id": event.execution_id,
                "token_id": token.id,
                "arc_id": token.arc,
                "step": token.step,
                "source_run_id": event.draft.run_id,
                "args": dict(token.args),
                "round": token.round,
                "status": "waiting",
                "produced_at": event.recorded_at.isoformat(),
                "ended_at": None,
                "run_id": None,
                "as_of": event.version,
            }
            if token.absorbed:
                yield from self._take_away(event, (token.id,), "absorbed")

    def _take_away(
        self, event: Event, ids: Iterable[str], status: str, run_id: str | None = None
    ) -> Iterator[ProjectionRow]:
        for token_id in ids:
            values = self._waiting.pop(token_id, None)
            if values is not None:
                ended = {"status": status, "ended_at": event.recorded_at.isoformat(), "run_id": run_id}
                yield ProjectionRow("token", {**values, **ended, "as_of": event.version})


class StepRows:
    """The step runs that have not ended."""

    def __init__(self) -> None:
        self._open: dict[str, dict[str, Any]] = {}

    def take(self, event: Event, state: State) -> Iterator[ProjectionRow]:
        """The rows that `event` settles; `state` is that after it."""
        if isinstance(event.fact, StepScheduled):
            self._open[event.draft.run_id or ""] = {
                "execution_id": event.execution_id,
                "run_id": event.draft.run_id,
                "step": event.draft.step,
                "final": event.fact.final,
                "args": dict(event.fact.args),
                "scheduled_at": event.recorded_at.isoformat(),
                **_UNKNOWN,
                "as_of": event.version,
            }
            return
        values = self._open.get(event.draft.run_id or "")
        if values is None:
            return
        if changes := _change(event.fact, values):
            values |= {**changes, "as_of": event.version}
        if ended := _end(event, values, state):
            del self._open[values["run_id"]]
            yield _close(event, {**values, **ended})

    def end(self, event: Event) -> Iterator[ProjectionRow]:
        """The execution ended with `event`: what still ran was cancelled with it."""
        for values in self._open.values():
            yield _close(event, {**values, "status": "cancelled"})
        self._open.clear()

    def rest(self) -> Iterator[ProjectionRow]:
        """The rows of what has not ended."""
        return (ProjectionRow("step_run", values) for values in self._open.values())

    @property
    def running(self) -> list[str]:
        return list(self._open)


def _change(fact: Fact, values: dict[str, Any]) -> dict[str, Json]:
    match fact:
        case StepStarted(worker=worker, started_at=started_at):
            return {"status": "running", "worker": worker, "started_at": started_at}
        case StepResumed():
            return {"status": "running"}
        case StepSuspended():
            return {"status": "waiting"}
        case LoopStarted(mode=mode, count=count):
            return {"loop_mode": mode, "iterations": count, "iterations_done": 0, "iterations_failed": 0}
        case LoopClaimed(count=count) | LoopGrown(count=count) if count:
            return {"iterations": values["iterations"] + count}
        case LoopDone(completed=completed, failed=failed):
            return {"iterations_done": completed, "iterations_failed": failed}
        case StepDone(released=True):
            # Its row stays open until the last of its iterations has ended.
            return {"status": "done"}
        case _:
            return {}


def _end(event: Event, values: dict[str, Any], state: State) -> dict[str, Json]:
    match event.fact:
        case StepDone(released=True):
            return {}
        case LoopDone(failure=failure) if values["status"] == "done":
            return {"status": "done"} if failure is None else {"status": "failed", **error_columns(failure)}
        case StepDone():
            record = state.steps.get(values["step"])
            # Those of a loop are as many as its items: they stand in the rows of its tasks.
            result = record.result if record and values["loop_mode"] is None else None
            return {"status": "done", "result": result}
        case StepFailed(error=error):
            failed = {"status": "failed", **error_columns(error)}
            if error.stats:
                # A loop that was stopped by a failure has its numbers in the error.
                failed["iterations_done"] = error.stats["completed"]
                failed["iterations_failed"] = error.stats["failed"]
            return failed
        case StepCancelled():
            return {"status": "cancelled"}
        case StepSkipped():
            return {"status": "skipped"}
        case _:
            return {}


def _close(event: Event, values: dict[str, Any]) -> ProjectionRow:
    spent = milliseconds(values["scheduled_at"], event.recorded_at)
    ended = {"ended_at": event.recorded_at.isoformat(), "duration_ms": spent, "as_of": event.version}
    return ProjectionRow("step_run", {**values, **ended})
