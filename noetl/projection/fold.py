"""The fold: events of one execution in, rows out.

What an event means is the engine's (`noetl.engine.evolve`): statuses and results are read off its
states. What states forget, because no decision needs it, is kept here until it is a row: who took
which token, how long what ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from noetl.engine.decision import status_of
from noetl.engine.evolve import replay
from noetl.engine.state import initial_state, result_of
from noetl.facts.events import Cancelled, Event, Processed, Requested, WorkflowStarted
from noetl.net.model import Net
from noetl.projection.iterations import IterationRows
from noetl.projection.rows import ProjectionRow, error_columns, milliseconds
from noetl.projection.steps import StepRows, TokenRows
from noetl.projection.tasks import TaskRows


class Projection:
    """Rows of one execution. Take its events in order, from the first one; `rest` has what is still
    open."""

    def __init__(self, execution_id: str, net: Net) -> None:
        kinds = {(step.name, task.name): task.kind for step in net.transitions for task in step.tasks}
        self._loops = {step.name for step in net.transitions if step.loop}
        self._state = initial_state(execution_id)
        self._tokens, self._steps, self._tasks = TokenRows(), StepRows(), TaskRows(kinds)
        self._iterations = IterationRows()
        self._times: dict[str, str | None] = {"created_at": None, "started_at": None, "ended_at": None}
        self._duration_ms: float | None = None
        self._key: str | None = None

    def take(self, event: Event) -> Iterator[ProjectionRow]:
        """The rows that `event` settles: no later event changes them."""
        was_over = self._state.ended
        self._state = replay(self._state, (event,))
        if was_over:
            return
        self._note_times(event)
        yield from self._tokens.take(event)
        yield from self._tasks.take(event)
        yield from self._iterations.take(event)
        yield from self._steps.take(event, self._state)
        if self._state.ended:
            yield from self._tokens.end(event)
            for run_id in self._steps.running:
                yield from self._tasks.end(event, run_id)
                yield from self._iterations.end(event, run_id)
            yield from self._steps.end(event)

    def rest(self) -> Iterator[ProjectionRow]:
        """The rows that a later event may change, that of the execution among them."""
        yield from self._tokens.rest()
        yield from self._tasks.rest()
        yield from self._iterations.rest()
        yield from self._steps.rest()
        if self._times["created_at"] is not None:
            yield ProjectionRow("execution", self._execution())

    def _note_times(self, event: Event) -> None:
        match event.fact:
            case Requested(key=key):
                self._key = key
                self._times["created_at"] = event.recorded_at.isoformat()
            case WorkflowStarted():
                self._times["started_at"] = event.recorded_at.isoformat()
            case Processed() | Cancelled():
                self._times["ended_at"] = event.recorded_at.isoformat()
                self._duration_ms = milliseconds(self._times["created_at"] or "", event.recorded_at)
            case _:
                pass

    def _execution(self) -> dict[str, Any]:
        state, parent = self._state, self._state.parent
        return {
            "execution_id": state.execution_id,
            "path": state.path,
            "playbook_version": state.playbook_version,
            "digest": state.digest,
            "status": status_of(state),
            "parent_id": parent.execution_id if parent else None,
            "parent_run_id": parent.run_id if parent else None,
            "parent_iteration": parent.iteration if parent else None,
            "source_id": state.source_id,
            "key": self._key,
            **self._times,
            "duration_ms": self._duration_ms,
            "events": state.version,
            "workload": dict(state.workload),
            "ctx": dict(state.ctx),
            "result_step": state.result_step,
            "result": None if not state.ended or state.result_step in self._loops else result_of(state),
            **error_columns(state.error),
            "as_of": state.version,
        }
