"""Where a log can be cut: between two events that were not one change."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from noetl.facts import events as e
from noetl.facts.events import Event


def moment_at(events: Sequence[Event], version: int) -> int:
    """The newest version up to `version` at which the execution stood: what follows it there is
    another change. `events` begin with version 1."""
    while 0 < version < len(events) and _belong_together(events[version - 1], events[version]):
        version -= 1
    return version


#: What may follow when a loop ends, of its run.
_ENDS_OF_LOOPS: Final = (
    e.IterationCancelled,
    e.LoopDone,
    e.CtxPatched,
    e.StepDone,
    e.StepFailed,
)


def _belong_together(one: Event, next: Event) -> bool:
    """Whether both are of one change: of a boundary, of a firing, or of the end of a task."""
    if isinstance(next.fact, e.RegionEntered):
        return isinstance(one.fact, e.StepScheduled | e.RegionEntered | e.TimerScheduled | e.SlotRequested)
    match one.fact:
        case e.WorkflowFinished():
            return True
        case e.LoopDone() | e.IterationCancelled():
            return _is_of_run(one, next) and isinstance(next.fact, _ENDS_OF_LOOPS)
        case e.TimerFired(purpose=purpose):
            return purpose != "reminder"
        case e.RegionEntered():
            return isinstance(next.fact, e.TimerScheduled | e.SlotRequested) or _begins(next.fact)
        case e.RegionCancelled():
            return isinstance(next.fact, e.StepCancelled | e.StepSkipped)
        case e.CtxPatched(cause="step" | "arc" | "loop"):
            return True
        case e.StepScheduled() | e.LoopStarted() | e.CommandIssued():
            return _is_same_run(one, next) and next.draft.source == "server" and _begins(next.fact)
        case e.VariablesSet() | e.CtxPatched(cause="task") if isinstance(
            next.fact, e.TaskItemDone | e.TaskItemFailed
        ):
            return _is_same_run(one, next)
        case _:
            return _is_same_run(one, next) and _follows_a_task(next.fact)


def _is_of_run(one: Event, other: Event) -> bool:
    return one.draft.run_id == other.draft.run_id


def _is_same_run(one: Event, other: Event) -> bool:
    return (one.draft.run_id, one.draft.iteration) == (other.draft.run_id, other.draft.iteration)


def _begins(fact: e.Fact) -> bool:
    ends = e.StepDone | e.StepFailed | e.StepSkipped
    return isinstance(fact, e.LoopStarted | e.CommandIssued | ends)


def _follows_a_task(fact: e.Fact) -> bool:
    """Whether it was recorded with the end of a task or an attempt before it."""
    match fact:
        case e.PolicyEvaluated() | e.VariablesSet():
            return True
        case e.CtxPatched(cause=cause):
            return cause == "task"
        case _:
            return False
