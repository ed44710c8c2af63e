"""The events of an execution: one frozen class for each type, one closed union, one envelope.

A *fact* is what happened (a class of the union `Fact`); a `Draft` says where in the playbook; an
`Event` is a draft that the store has given its place in the log. Field values are JSON.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import ClassVar, Literal, TypeAlias

from noetl.facts.children import ChildCall as ChildCall
from noetl.facts.children import ChildEnded as ChildEnded
from noetl.facts.children import ChildRequested as ChildRequested
from noetl.facts.children import ChildWaiting as ChildWaiting
from noetl.facts.children import Parent as Parent
from noetl.facts.control import Cancelled as Cancelled
from noetl.facts.control import CancelRequested as CancelRequested
from noetl.facts.control import CtxPatched as CtxPatched
from noetl.facts.control import Paused as Paused
from noetl.facts.control import PauseRequested as PauseRequested
from noetl.facts.control import Resumed as Resumed
from noetl.facts.ids import event_id
from noetl.facts.json import Json, JsonMap
from noetl.facts.loops import IterationDone as IterationDone
from noetl.facts.loops import IterationFailed as IterationFailed
from noetl.facts.loops import IterationResumed as IterationResumed
from noetl.facts.loops import IterationStarted as IterationStarted
from noetl.facts.loops import IterationSuspended as IterationSuspended
from noetl.facts.loops import LoopClaimed as LoopClaimed
from noetl.facts.loops import LoopDone as LoopDone
from noetl.facts.loops import LoopStarted as LoopStarted
from noetl.facts.loops import TaskItemDone as TaskItemDone
from noetl.facts.loops import TaskItemFailed as TaskItemFailed
from noetl.facts.loops import TaskLoopStarted as TaskLoopStarted
from noetl.facts.outcome import ErrorInfo
from noetl.facts.repeats import TaskCallDone as TaskCallDone
from noetl.facts.repeats import TaskCallFailed as TaskCallFailed
from noetl.facts.warnings import Warned

Source = Literal["server", "worker", "client"]

#: Version of the payload shapes below; older payloads are upcast one step at a time
#: (`store.codec`).
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Token:
    """A token that waits in the place of `arc` before `step`. `args` is what the arc hands over;
    `round` that of the join that it counts in (0: the join has none); `absorbed`: this round has
    fired."""

    id: str
    arc: str
    step: str
    args: JsonMap = field(default_factory=dict)
    round: int = 0
    absorbed: bool = False


@dataclass(frozen=True, slots=True)
class ArcDecision:
    """What became of one arc at a boundary: its guard, the values it read, and the verdict.
    `chosen`: it routed, or assigned where it leads to no `step`."""

    arc: str
    step: str
    when: str | None
    names: JsonMap
    value: Json
    chosen: bool


@dataclass(frozen=True, slots=True)
class Requested:
    """The execution was asked for. `overrides` is `--set`, merged over `payload`, over workload."""

    type: ClassVar[str] = "playbook.execution.requested"
    path: str
    playbook_version: int
    digest: str
    payload: JsonMap = field(default_factory=dict)
    overrides: JsonMap = field(default_factory=dict)
    #: Who called it; None where somebody from outside asked for it.
    parent: Parent | None = None
    #: Where relative names of files start: the playbook's directory, then that of the command.
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The request was looked at. `workload` is that of this run; `warnings` tell of what was
    undefined. `keychain` are its entries that are templates, rendered, by name: names and places of
    secrets, and no secrets."""

    type: ClassVar[str] = "playbook.request.evaluated"
    accepted: bool
    workload: JsonMap = field(default_factory=dict)
    error: ErrorInfo | None = None
    warnings: tuple[Warned, ...] = ()
    keychain: JsonMap = field(default_factory=dict)
    #: What variables of the execution begin with.
    ctx: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkflowStarted:
    """The first token stands before the entry step."""

    type: ClassVar[str] = "workflow.started"
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class WorkflowFinished:
    """Nothing is enabled, in flight or timed any more. `result_step` is the step whose result
    counts."""

    type: ClassVar[str] = "workflow.finished"
    status: str
    result_step: str | None = None
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class Processed:
    """The execution ended: `completed`, `partial` or `failed`. Terminal."""

    type: ClassVar[str] = "playbook.processed"
    status: str
    result_step: str | None = None
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class AdmitEvaluated:
    """Admission of `token` was decided. A denied token is tried again when ctx is later than
    `ctx_version`."""

    type: ClassVar[str] = "policy.admit.evaluated"
    token: str
    allow: bool
    on_deny: Literal["pending", "skip", "pass", "fail"]
    when: str | None
    names: JsonMap
    ctx_version: int


@dataclass(frozen=True, slots=True)
class CommandIssued:
    """An order went out: a pipeline, one lane of a loop, or one iteration that resumes.

    `issue` counts the orders for the same part of a run, from 1; the context is as of
    `ctx_version`. `due_at` (UTC, ISO 8601) delays it.
    """

    type: ClassVar[str] = "command.issued"
    command_id: str
    purpose: Literal["pipeline", "lane", "iteration"]
    part: str
    queue: str
    issue: int
    ctx_version: int
    generation: int = 0
    due_at: str | None = None


@dataclass(frozen=True, slots=True)
class CommandLost:
    """A worker took the command `deliveries` times and never reported; it is not tried again."""

    type: ClassVar[str] = "command.lost"
    command_id: str
    deliveries: int
    reason: str


@dataclass(frozen=True, slots=True)
class StepScheduled:
    """The step fires: `tokens` (ids) are consumed, `args` are theirs merged and the step's
    input."""

    type: ClassVar[str] = "step.scheduled"
    tokens: tuple[str, ...]
    args: JsonMap = field(default_factory=dict)
    #: The round of the join that this firing belongs to; 0 where the step has no join.
    round: int = 0
    #: This is the run of `final_step`, after everything else.
    final: bool = False
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True)
class StepStarted:
    """A worker began. Recorded with its first report, hence `started_at` (UTC, ISO 8601)."""

    type: ClassVar[str] = "step.started"
    worker: str
    started_at: str


@dataclass(frozen=True, slots=True)
class StepSuspended:
    """The pipeline left its worker, until `due_at` or the end of its `child`. All it needs to go on
    is in its earlier events."""

    type: ClassVar[str] = "step.suspended"
    task: str
    reason: str
    due_at: str | None = None
    child: ChildCall | None = None


@dataclass(frozen=True, slots=True)
class StepResumed:
    type: ClassVar[str] = "step.resumed"
    worker: str


@dataclass(frozen=True, slots=True)
class StepDone:
    """The step went well. Its result is that of `task`, else `result`, else that of its loop: of a
    loop whose lists are too large for the log `result` holds them in pages, by reference."""

    type: ClassVar[str] = "step.done"
    task: str | None = None
    result: Json = None


@dataclass(frozen=True, slots=True)
class StepFailed:
    type: ClassVar[str] = "step.failed"
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class StepSkipped:
    """The step did not run. The tokens were dropped and its arcs are not followed; with a run
    (which `step.scheduled` began with the tokens) they are, as after a success without a result."""

    type: ClassVar[str] = "step.skipped"
    tokens: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class StepCancelled:
    type: ClassVar[str] = "step.cancelled"
    reason: str


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A task was still running at a heartbeat. Short tasks are recorded by their end alone."""

    type: ClassVar[str] = "task.started"
    task: str
    started_at: str


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task's last attempt went well and its pipeline moves on (or ends)."""

    type: ClassVar[str] = "task.done"
    task: str
    result: Json = None
    meta: JsonMap = field(default_factory=dict)
    extras: JsonMap = field(default_factory=dict)
    #: It ran behind the end of the pipeline proper, whose outcome it does not change.
    after: bool = False


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A task's last attempt failed. The pipeline goes on unless the failure is `fatal`."""

    type: ClassVar[str] = "task.failed"
    task: str
    error: ErrorInfo
    meta: JsonMap = field(default_factory=dict)
    extras: JsonMap = field(default_factory=dict)
    #: No policy let the pipeline go on: it fails with this error, or (`after`) with an earlier one.
    fatal: bool = False
    #: As in `task.done`.
    after: bool = False


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt failed and another one follows."""

    type: ClassVar[str] = "task.attempt.failed"
    task: str
    error: ErrorInfo
    meta: JsonMap = field(default_factory=dict)
    extras: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskCheckpointed:
    """What the task's tool wants to be called again with, after a wait or a crash. `since` (UTC,
    ISO 8601) is when the attempt was first called: in its first event, where the task has a
    timeout."""

    type: ClassVar[str] = "task.checkpointed"
    task: str
    checkpoint: Json
    since: str | None = None


@dataclass(frozen=True, slots=True)
class TaskAbandoned:
    """What the task, called off while it waited, had begun elsewhere was ended; `error` says what
    goes on, and why."""

    type: ClassVar[str] = "task.abandoned"
    task: str
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class PolicyEvaluated:
    """Rule number `rule` (from 0) of the task's policy matched and decided `do`, after `delay`
    seconds.

    Written after the end of the task that it judges, and for a retry after success in its place.
    Without a number it was the guard of a task behind the end of its pipeline, which is to `enter`
    or to `skip`.
    """

    type: ClassVar[str] = "policy.task.evaluated"
    task: str
    rule: int | None
    when: str | None
    names: JsonMap
    do: Literal["continue", "retry", "jump", "break", "fail", "enter", "skip"]
    to: str | None = None
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class VariablesSet:
    """`set` of a rule or a task assigned names that only this pipeline, iteration or step run sees.

    Keys are dotted names, none of them a beginning of another. `writes` are ctx assignments of a
    parallel iteration that wait for the loop's reducers, in order: (name, value).
    """

    type: ClassVar[str] = "task.variables.set"
    task: str
    local: JsonMap = field(default_factory=dict)
    iter: JsonMap = field(default_factory=dict)
    step: JsonMap = field(default_factory=dict)
    writes: tuple[tuple[str, Json], ...] = ()


@dataclass(frozen=True, slots=True)
class NextEvaluated:
    """The boundary of a run was routed: which arcs took it and the `tokens` that came of it.
    `failure` is the error that nobody handled; `stops` says that the whole execution fails with it
    (fail_fast)."""

    type: ClassVar[str] = "next.evaluated"
    boundary: str
    arcs: tuple[ArcDecision, ...] = ()
    tokens: tuple[Token, ...] = ()
    failure: ErrorInfo | None = None
    stops: bool = False
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True)
class JoinUnsatisfied:
    """At quiescence the join can no longer fill: its tokens are dropped and its branch fails."""

    type: ClassVar[str] = "join.unsatisfied"
    tokens: tuple[str, ...]
    error: ErrorInfo
    stops: bool = False


@dataclass(frozen=True, slots=True)
class ResultDiscarded:
    """A worker reported something that no longer counts. `reported` is the type of what it
    reported."""

    type: ClassVar[str] = "result.discarded"
    command_id: str
    reported: str
    reason: str


Fact: TypeAlias = (
    Requested
    | Evaluated
    | WorkflowStarted
    | WorkflowFinished
    | Processed
    | PauseRequested
    | Paused
    | Resumed
    | CancelRequested
    | Cancelled
    | AdmitEvaluated
    | CommandIssued
    | CommandLost
    | StepScheduled
    | StepStarted
    | StepSuspended
    | StepResumed
    | StepDone
    | StepFailed
    | StepSkipped
    | StepCancelled
    | TaskStarted
    | TaskDone
    | TaskFailed
    | AttemptFailed
    | TaskCheckpointed
    | TaskAbandoned
    | PolicyEvaluated
    | VariablesSet
    | TaskLoopStarted
    | TaskItemDone
    | TaskItemFailed
    | TaskCallDone
    | TaskCallFailed
    | LoopStarted
    | LoopClaimed
    | LoopDone
    | IterationStarted
    | IterationSuspended
    | IterationResumed
    | IterationDone
    | IterationFailed
    | ChildRequested
    | ChildWaiting
    | ChildEnded
    | NextEvaluated
    | JoinUnsatisfied
    | CtxPatched
    | ResultDiscarded
)


@dataclass(frozen=True, slots=True)
class Draft:
    """A fact and its place in the playbook, on its way to the log. `attempt` counts from 1.

    A `dedup_key` is unique within the execution: a second append of the same key is the same
    fact."""

    fact: Fact
    source: Source = "server"
    step: str | None = None
    run_id: str | None = None
    iteration: int | None = None
    attempt: int | None = None
    duration_ms: float | None = None
    dedup_key: str | None = None


@dataclass(frozen=True, slots=True)
class Event:
    """A fact in the log. `version` counts from 1 without gaps within the execution."""

    execution_id: str
    version: int
    recorded_at: datetime
    draft: Draft

    @property
    def fact(self) -> Fact:
        return self.draft.fact

    @property
    def event_id(self) -> str:
        return event_id(self.execution_id, self.version)
