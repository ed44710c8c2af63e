"""Where an execution is, and when it wants a turn by itself."""

from __future__ import annotations

from datetime import datetime

from noetl.engine.children import next_due, only_waits
from noetl.engine.state import State


def wake_at(state: State) -> datetime | None:
    """When a turn is due though nothing may be appended: the end of a cancellation's grace, or of
    the time that a called playbook has."""
    if state.ended:
        return None
    if state.cancel_deadline is not None:
        return datetime.fromisoformat(state.cancel_deadline)
    return None if state.pause_requested else next_due(state)


def status_of(state: State) -> str:
    """The public word for where the execution is: the one status that everything shows."""
    if state.ended:
        return state.status
    if state.paused:
        return "paused"
    if not state.started:
        return "pending"
    return "waiting" if (state.runs or state.tokens) and only_waits(state) else "running"
