"""Events of steps, of their tokens and of their commands."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from noetl.facts.children import ChildCall
from noetl.facts.json import Json, JsonMap
from noetl.facts.lineage import Reuse
from noetl.facts.outcome import ErrorInfo
from noetl.facts.scopes import Handling
from noetl.facts.waits import Wait
from noetl.facts.warnings import Warned


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
class MilestoneEvaluated:
    """The milestone of a step was asked for `token`: it is not `reached`, is, or has been `passed`.
    A token that is too early is asked about again when that has changed. `after` is the step that
    has to be done, `before` the one that may not have begun; empty where there is none."""

    type: ClassVar[str] = "milestone.evaluated"
    token: str
    stage: Literal["early", "reached", "passed"]
    after: str = ""
    before: str = ""


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
    #: Digests of what its tasks do, by their names (`engine.digests`).
    code: JsonMap = field(default_factory=dict)
    #: What its tasks read: dotted name → the value's fingerprint (`facts.fingerprint`).
    reads: JsonMap = field(default_factory=dict)
    #: In an execution that runs another one again: what this firing takes of that.
    reuse: Reuse | None = None
    #: What it is for, where no token fired it.
    handling: Handling | None = None
    #: Whether it is undone when its scope fails: if it is `done`, or if it has `started`.
    undo: Literal["", "done", "started"] = ""
    #: Whether something is run behind its end.
    cleanup: bool = False
    #: The regions that it is a part of, the inner ones first.
    regions: tuple[str, ...] = ()
    #: What the template of its queue came to; empty where that is none.
    queue: str = ""


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
class StepStarted:
    """A worker began. Recorded with its first report, hence `started_at` (UTC, ISO 8601)."""

    type: ClassVar[str] = "step.started"
    worker: str
    started_at: str


@dataclass(frozen=True, slots=True)
class StepSuspended:
    """The pipeline left its worker, until `due_at`, the end of its `child` or of its `wait` (which
    both have to come by then). All it needs to go on is in its earlier events."""

    type: ClassVar[str] = "step.suspended"
    task: str
    reason: str
    due_at: str | None = None
    child: ChildCall | None = None
    wait: Wait | None = None


@dataclass(frozen=True, slots=True)
class StepResumed:
    type: ClassVar[str] = "step.resumed"
    worker: str


@dataclass(frozen=True, slots=True)
class StepDone:
    """The step went well. Its result is that of `task`, else `result`, else that of its loop: of a
    loop whose lists are too large for the log `result` holds them in pages, by reference.

    `forced_by` is the run that ended it as done before it had ended; iterations of its loop that
    had not ended are cancelled. `released`: iterations of its loop run on, until `loop.done`; the
    step is routed meanwhile."""

    type: ClassVar[str] = "step.done"
    task: str | None = None
    result: Json = None
    forced_by: str | None = None
    released: bool = False


@dataclass(frozen=True, slots=True)
class StepFailed:
    type: ClassVar[str] = "step.failed"
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class StepTimedOut(StepFailed):
    """It had not ended by its deadline: a failure, of which arcs may ask by this name."""

    type: ClassVar[str] = "step.timed_out"


@dataclass(frozen=True, slots=True)
class StepSkipped:
    """The step did not run. The tokens were dropped and its arcs are not followed; with a run
    (which `step.scheduled` began with the tokens) they are, as after a success without a result."""

    type: ClassVar[str] = "step.skipped"
    tokens: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class StepCancelRequested:
    """Somebody asks for the end of the run, or of that iteration of it alone."""

    type: ClassVar[str] = "step.cancel.requested"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class StepCancelled:
    """The run was withdrawn. `asked`: somebody asked for its end, and its arcs are asked as after a
    failure; where none takes it the branch ends, and has not failed."""

    type: ClassVar[str] = "step.cancelled"
    reason: str
    asked: bool = False


@dataclass(frozen=True, slots=True)
class NextEvaluated:
    """The boundary of a run was routed: which arcs took it and the `tokens` that they put down.
    `failure` is the error that was not handled; `stops` says that the whole execution fails with it
    (fail_fast). `terminates`: the step ends the whole execution, with that status."""

    type: ClassVar[str] = "next.evaluated"
    boundary: str
    arcs: tuple[ArcDecision, ...] = ()
    tokens: tuple[Token, ...] = ()
    failure: ErrorInfo | None = None
    stops: bool = False
    warnings: tuple[Warned, ...] = ()
    terminates: Literal["completed", "failed", "cancelled"] | None = None
    #: How many tokens an arc put down, by its id, of those that say how many.
    times: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class JoinUnsatisfied:
    """At quiescence the join can no longer fill: its tokens are dropped and its branch fails."""

    type: ClassVar[str] = "join.unsatisfied"
    tokens: tuple[str, ...]
    error: ErrorInfo
    stops: bool = False


@dataclass(frozen=True, slots=True)
class ResultDiscarded:
    """What a delivery of a command did no longer counts. `reported` is the type of what its worker
    reported; empty where that was lost and reports nothing: the event is of the attempt that was
    its delivery, from 1, and another one follows."""

    type: ClassVar[str] = "result.discarded"
    command_id: str
    reported: str
    reason: str

    @classmethod
    def by_loss(cls, command_id: str, delivery: int, worker: str) -> ResultDiscarded:
        """What the `worker` did that was lost with that `delivery`."""
        again = f"worker {worker} was lost with delivery {delivery}; begun again as {delivery + 1}"
        return cls(command_id, "", again)

    @classmethod
    def by_lateness(cls, command_id: str, reported: str, what: str) -> ResultDiscarded:
        """What was `reported` behind the end that `what` tells of."""
        return cls(command_id, reported, f"a result came too late ({reported}): {what}")

    @property
    def is_loss(self) -> bool:
        """Whether the worker was lost."""
        return not self.reported
