"""What queries say of events besides their facts: a status for each type, and names of other
generations."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from noetl.facts.events import (
    AttemptFailed,
    Cancelled,
    CancelRequested,
    ChildWaiting,
    CommandIssued,
    CommandLost,
    Fact,
    IterationFailed,
    IterationResumed,
    IterationStarted,
    IterationSuspended,
    JoinUnsatisfied,
    LoopStarted,
    PauseRequested,
    Requested,
    StepCancelled,
    StepFailed,
    StepResumed,
    StepScheduled,
    StepSkipped,
    StepStarted,
    StepSuspended,
    TaskCallFailed,
    TaskFailed,
    TaskItemFailed,
    TaskLoopStarted,
    TaskStarted,
    WorkflowStarted,
)

EventStatus = Literal["started", "completed", "failed", "skipped", "cancelled"]

#: What an event's `status` column says, by type; types that are absent say `completed`.
STATUS_OF: Mapping[type[Fact], EventStatus] = {
    Requested: "started",
    WorkflowStarted: "started",
    PauseRequested: "started",
    CancelRequested: "started",
    Cancelled: "cancelled",
    CommandIssued: "started",
    CommandLost: "failed",
    StepScheduled: "started",
    StepStarted: "started",
    StepSuspended: "started",
    StepResumed: "started",
    StepFailed: "failed",
    StepSkipped: "skipped",
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
    JoinUnsatisfied: "failed",
}

#: Names that other generations of the language use for the same events; queries accept them.
ALIASES: Mapping[str, str] = {
    "step.enter": "step.started",
    "step.exit": "step.done",
    "call.done": "task.done",
    "call.error": "task.failed",
    "tool.started": "task.started",
    "tool.completed": "task.done",
    "tool.failed": "task.failed",
    "case.evaluated": "next.evaluated",
    "retry.scheduled": "task.attempt.failed",
    "loop.iteration.finished": "loop.iteration.done",
    "loop.finished": "loop.done",
    "PlaybookExecutionRequested": "playbook.execution.requested",
    "PlaybookProcessed": "playbook.processed",
    "WorkflowStarted": "workflow.started",
    "WorkflowFinished": "workflow.finished",
    "StepScheduled": "step.scheduled",
    "StepStarted": "step.started",
    "StepDone": "step.done",
    "StepFailed": "step.failed",
}
