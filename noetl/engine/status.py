"""Where an execution is, when it wants a turn by itself, and what a turn reports to its caller and
its children."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from noetl.engine.children import next_due, only_waits
from noetl.engine.state import Child, State, result_of
from noetl.facts.events import Parent
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo


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


#: Only somebody outside makes an execution go on that is so.
_OUTSIDE = ("waiting", "paused")


@dataclass(frozen=True, slots=True)
class Notification:
    """Something for the execution `to`: `answer` is how its child ended, `waits` that only somebody
    outside makes the child go on (or not any more), `cancel` that its caller does not wait for it.

    `context` is what is recorded there. `run_id` and `step` are those of a call that was given up.
    """

    purpose: Literal["answer", "waits", "cancel"]
    to: str
    context: JsonMap = field(default_factory=dict)
    run_id: str = "-"
    step: str = "-"


def notifications(
    before: State, after: State, status: str, given_up: Iterable[Child]
) -> tuple[Notification, ...]:
    """What a turn from `before` to `after` has to tell. `status` is that which the last turn left;
    `given_up` are the children that this one does not wait for any more, those among them that it
    made itself included."""
    cancelled = [Notification("cancel", str(child.id), {}, child.run_id, child.step) for child in given_up]
    return tuple(cancelled) if before.ended else (*cancelled, *_for_parent(after, status))


def _for_parent(after: State, status: str) -> Iterable[Notification]:
    parent = after.parent
    if parent is None or parent.detached:
        return
    if after.ended:
        yield Notification("answer", parent.execution_id, _answer(after, parent))
    elif (waits := status_of(after) in _OUTSIDE) is not (status in _OUTSIDE):
        context = {**_call_of(parent), "waiting": waits, "at": after.version}
        yield Notification("waits", parent.execution_id, context)


def _call_of(parent: Parent) -> JsonMap:
    """The call, as the caller knows it."""
    return {
        "step": parent.step,
        "run_id": parent.run_id,
        "iteration": parent.iteration,
        "task": parent.task,
    }


def _answer(child: State, parent: Parent) -> JsonMap:
    """What the caller records: where, and `child.ended`."""
    error = None if child.status == "completed" else _error(child)
    warnings = [] if error else _warn_of_unreached(child, parent)
    return {
        **_call_of(parent),
        "status": child.status,
        "result": _result(child, parent) if error is None else None,
        "error": error.as_json() if error else None,
        "warnings": warnings,
    }


def _result(child: State, parent: Parent) -> Json:
    if parent.return_step is None:
        return result_of(child)
    record = child.steps.get(parent.return_step)
    return record.result if record else None


def _warn_of_unreached(child: State, parent: Parent) -> list[str]:
    name = parent.return_step
    record = child.steps.get(name or "")
    if name is None or (record is not None and record.runs):
        return []
    return [
        f"step {name!r} of playbook {child.path!r} (execution {child.execution_id}) did not run: "
        "its result is null"
    ]


def _error(child: State) -> ErrorInfo:
    whom = f"Playbook {child.path!r} (execution {child.execution_id})"
    if child.error is None:
        reason = f": {child.cancel_reason}" if child.status == "cancelled" and child.cancel_reason else ""
        return ErrorInfo("child", f"{whom} was {child.status}{reason}.", type="ChildEnded")
    error = child.error
    message = (
        f"{whom} was {child.status}: {error.message}"
        if child.status != "failed"
        else f"{whom} failed: {error.message}"
    )
    return ErrorInfo("child", message, type=error.type or error.kind, retryable=error.retryable)
