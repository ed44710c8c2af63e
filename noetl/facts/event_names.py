"""Names and statuses of events: what guards call the end of a step, what queries show, and names of
other generations of the language."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, Literal, get_args

from noetl.facts.events import (
    AttemptFailed,
    Cancelled,
    CancelRequested,
    ChildWaiting,
    Closing,
    CommandIssued,
    CommandLost,
    Fact,
    IterationCancelled,
    IterationFailed,
    IterationResumed,
    IterationStarted,
    IterationSuspended,
    JoinUnsatisfied,
    LoopStarted,
    PauseRequested,
    RegionCancelled,
    RegionCancelRequested,
    RegionEntered,
    Requested,
    RetryCancelled,
    RetryScheduled,
    SlotRequested,
    StepCancelled,
    StepCancelRequested,
    StepFailed,
    StepPauseRequested,
    StepResumed,
    StepScheduled,
    StepSkipped,
    StepStarted,
    StepSuspended,
    StepTimedOut,
    TaskCallFailed,
    TaskFailed,
    TaskItemFailed,
    TaskLoopStarted,
    TaskStarted,
    TimerScheduled,
    WaitFailed,
    WaitTimedOut,
    WorkflowStarted,
)

#: Names that show a guard to be about how the step ended: it is asked after failures too.
BOUNDARY = frozenset({"event", "outcome", "output", "error"})

#: How a step ended, most specific name first.
DONE = ("step.done", "call.done", "step.exit", "step.finished", "tool.finished")
LOOP_DONE = ("loop.done", "loop.finished", *DONE)
FAILED = ("step.failed", "call.error", "step.exit", "step.finished", "tool.finished")
TIMED_OUT = ("step.timed_out", *FAILED)
CANCELLED = ("step.cancelled", "step.exit", "step.finished")
#: The same of one iteration of a loop.
ITERATION_DONE = ("call.done", "tool.finished")
ITERATION_FAILED = ("call.error", "tool.finished")
#: Every name that a guard can wait for.
ENDS: Final = frozenset({*LOOP_DONE, *TIMED_OUT, *CANCELLED, *ITERATION_DONE, *ITERATION_FAILED})


class BoundaryName(str):
    """The name of a boundary that equals each of its other names: `event.name == 'call.done'`."""

    __slots__ = ("_names",)

    _names: frozenset[str]

    def __new__(cls, names: tuple[str, ...]) -> BoundaryName:
        self = super().__new__(cls, names[0])
        self._names = frozenset(names)
        return self

    def __eq__(self, other: object) -> bool:
        return other in self._names

    def __ne__(self, other: object) -> bool:
        return other not in self._names

    def __hash__(self) -> int:
        return str.__hash__(self)


#: All types of events, by name.
TYPES: Final = tuple(sorted(fact.type for fact in get_args(Fact)))

EventStatus = Literal["started", "completed", "failed", "skipped", "cancelled"]

#: What an event's `status` column says, by type; types that are absent say `completed`.
STATUS_OF: Mapping[type[Fact], EventStatus] = {
    Requested: "started",
    WorkflowStarted: "started",
    PauseRequested: "started",
    CancelRequested: "started",
    Cancelled: "cancelled",
    RetryScheduled: "started",
    RetryCancelled: "cancelled",
    CommandIssued: "started",
    CommandLost: "failed",
    StepScheduled: "started",
    StepStarted: "started",
    StepSuspended: "started",
    StepResumed: "started",
    StepFailed: "failed",
    StepTimedOut: "failed",
    StepSkipped: "skipped",
    StepCancelRequested: "started",
    StepCancelled: "cancelled",
    TaskStarted: "started",
    TaskFailed: "failed",
    AttemptFailed: "failed",
    LoopStarted: "started",
    TaskLoopStarted: "started",
    TaskItemFailed: "failed",
    TaskCallFailed: "failed",
    IterationStarted: "started",
    IterationSuspended: "started",
    IterationResumed: "started",
    ChildWaiting: "started",
    IterationFailed: "failed",
    IterationCancelled: "cancelled",
    TimerScheduled: "started",
    WaitFailed: "failed",
    SlotRequested: "started",
    StepPauseRequested: "started",
    WaitTimedOut: "failed",
    JoinUnsatisfied: "failed",
    Closing: "started",
    RegionEntered: "started",
    RegionCancelRequested: "started",
    RegionCancelled: "cancelled",
}

#: Names that other generations of the language use for the same events; queries accept them.
ALIASES: Mapping[str, tuple[str, ...]] = {
    "step.enter": ("step.started",),
    "step.exit": ("step.done", "step.failed"),
    "step.finished": ("step.done", "step.failed"),
    "step_skip": ("step.skipped",),
    "call.done": ("task.done",),
    "call.error": ("task.failed",),
    "command.claimed": ("step.started",),
    "tool.started": ("task.started",),
    "tool.finished": ("task.done", "task.failed"),
    "tool.completed": ("task.done",),
    "tool.failed": ("task.failed",),
    "sink.started": ("task.started",),
    "sink.processed": ("task.done", "task.failed"),
    "action_started": ("task.started",),
    "action_completed": ("task.done",),
    "action_error": ("task.failed",),
    "case.started": ("next.evaluated",),
    "case.evaluated": ("next.evaluated",),
    "retry.scheduled": ("task.attempt.failed",),
    "retry.started": ("task.attempt.failed",),
    "retry.processed": ("task.done", "task.failed"),
    "loop.iteration.finished": ("loop.iteration.done", "loop.iteration.failed"),
    "loop.finished": ("loop.done",),
    "loop_start": ("loop.started",),
    "loop_iteration": ("loop.iteration.started",),
    "execution_start": ("playbook.execution.requested",),
    "PlaybookExecutionRequested": ("playbook.execution.requested",),
    "PlaybookRequestEvaluated": ("playbook.request.evaluated",),
    "PlaybookPaused": ("playbook.paused",),
    "PlaybookProcessed": ("playbook.processed",),
    "WorkflowStarted": ("workflow.started",),
    "WorkflowFinished": ("workflow.finished",),
    "StepScheduled": ("step.scheduled",),
    "StepStarted": ("step.started",),
    "StepDone": ("step.done",),
    "StepFailed": ("step.failed",),
}


def types_called(name: str) -> tuple[str, ...]:
    """The types of events that `name` means in a query: its own, or those that it is an older name
    of."""
    return ALIASES.get(name, (name,))
