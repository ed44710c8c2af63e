"""Tokens as rows: where each was put down, and who took it away."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from noetl.facts.events import (
    Event,
    JoinUnsatisfied,
    NextEvaluated,
    StepScheduled,
    StepSkipped,
    Token,
    WorkflowStarted,
)
from noetl.projection.rows import ProjectionRow


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
