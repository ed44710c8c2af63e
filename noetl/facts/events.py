"""The events of an execution: one frozen class for each type, one closed union, one envelope.

A *fact* is what happened (a class of the union `Fact`); a `Draft` says where in the playbook; an
`Event` is a draft that the store has given its place in the log. Field values are JSON.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from noetl.facts.approvals import (
    ApprovalAnswered as ApprovalAnswered,
    CallbackReceived as CallbackReceived,
)
from noetl.facts.callers import Caller as Caller
from noetl.facts.children import (
    ChildCall as ChildCall,
    ChildEnded as ChildEnded,
    ChildRequested as ChildRequested,
    ChildUndone as ChildUndone,
    ChildUndoRequested as ChildUndoRequested,
    ChildWaiting as ChildWaiting,
    Parent as Parent,
)
from noetl.facts.executions import (
    Cancelled as Cancelled,
    CancelRequested as CancelRequested,
    CtxPatched as CtxPatched,
    Evaluated as Evaluated,
    Forked as Forked,
    Paused as Paused,
    PauseRequested as PauseRequested,
    Processed as Processed,
    Requested as Requested,
    Resumed as Resumed,
    WorkflowFinished as WorkflowFinished,
    WorkflowStarted as WorkflowStarted,
)
from noetl.facts.limits import (
    AskedSlot as AskedSlot,
    SlotGranted as SlotGranted,
    SlotRequested as SlotRequested,
    StepPauseEnded as StepPauseEnded,
    StepPauseRequested as StepPauseRequested,
)
from noetl.facts.loops import (
    IterationCancelled as IterationCancelled,
    IterationDone as IterationDone,
    IterationFailed as IterationFailed,
    IterationResumed as IterationResumed,
    IterationStarted as IterationStarted,
    IterationSuspended as IterationSuspended,
    LoopClaimed as LoopClaimed,
    LoopDone as LoopDone,
    LoopGrown as LoopGrown,
    LoopStarted as LoopStarted,
)
from noetl.facts.retries import (
    RetryCancelled as RetryCancelled,
    RetryDeclined as RetryDeclined,
    RetryFact as RetryFact,
    RetryScheduled as RetryScheduled,
    RetryStarted as RetryStarted,
)
from noetl.facts.scopes import (
    Closing as Closing,
    Handling as Handling,
    RegionCancelled as RegionCancelled,
    RegionCancelRequested as RegionCancelRequested,
    RegionEnded as RegionEnded,
    RegionEntered as RegionEntered,
)
from noetl.facts.steps import (
    AdmitEvaluated as AdmitEvaluated,
    ArcDecision as ArcDecision,
    CommandIssued as CommandIssued,
    CommandLost as CommandLost,
    JoinUnsatisfied as JoinUnsatisfied,
    MilestoneEvaluated as MilestoneEvaluated,
    NextEvaluated as NextEvaluated,
    ResultDiscarded as ResultDiscarded,
    StepCancelled as StepCancelled,
    StepCancelRequested as StepCancelRequested,
    StepDone as StepDone,
    StepFailed as StepFailed,
    StepResumed as StepResumed,
    StepScheduled as StepScheduled,
    StepSkipped as StepSkipped,
    StepStarted as StepStarted,
    StepSuspended as StepSuspended,
    StepTimedOut as StepTimedOut,
    Token as Token,
)
from noetl.facts.tasks import (
    AttemptFailed as AttemptFailed,
    PolicyEvaluated as PolicyEvaluated,
    TaskAbandoned as TaskAbandoned,
    TaskCallDone as TaskCallDone,
    TaskCallFailed as TaskCallFailed,
    TaskCheckpointed as TaskCheckpointed,
    TaskDone as TaskDone,
    TaskFailed as TaskFailed,
    TaskItemDone as TaskItemDone,
    TaskItemFailed as TaskItemFailed,
    TaskKeyKept as TaskKeyKept,
    TaskLoopStarted as TaskLoopStarted,
    TaskStarted as TaskStarted,
    VariablesSet as VariablesSet,
)
from noetl.facts.timers import TimerFired as TimerFired, TimerScheduled as TimerScheduled
from noetl.facts.ids import event_id
from noetl.facts.waits import (
    SignalExpired as SignalExpired,
    SignalReceived as SignalReceived,
    Wait as Wait,
    WaitFailed as WaitFailed,
    WaitMatched as WaitMatched,
    WaitTimedOut as WaitTimedOut,
)

Source = Literal["server", "worker", "client"]

#: Version of the payload shapes below; older payloads are upcast one step at a time
#: (`store.codec`).
SCHEMA = 1

#: Of the execution as a whole.
LifeFact: TypeAlias = (
    Requested | Evaluated | WorkflowStarted | WorkflowFinished | Processed | Cancelled | Closing | Forked
)
#: What people ask of it, and what follows.
SteeringFact: TypeAlias = PauseRequested | Paused | Resumed | CancelRequested | CtxPatched
#: Of tokens: what is enabled, fires, and is routed.
TokenFact: TypeAlias = (
    AdmitEvaluated | MilestoneEvaluated | StepScheduled | StepSkipped | NextEvaluated | JoinUnsatisfied
)
#: Of regions of steps.
RegionFact: TypeAlias = RegionEntered | RegionCancelRequested | RegionCancelled | RegionEnded
#: Of what is sent to workers.
CommandFact: TypeAlias = CommandIssued | CommandLost | ResultDiscarded
#: Of runs of steps.
StepFact: TypeAlias = (
    StepStarted
    | StepSuspended
    | StepResumed
    | StepDone
    | StepFailed
    | StepTimedOut
    | StepCancelRequested
    | StepCancelled
)
#: Of tasks in them.
TaskFact: TypeAlias = (
    TaskStarted
    | TaskDone
    | TaskFailed
    | AttemptFailed
    | TaskKeyKept
    | TaskCheckpointed
    | TaskAbandoned
    | PolicyEvaluated
    | VariablesSet
    | TaskLoopStarted
    | TaskItemDone
    | TaskItemFailed
    | TaskCallDone
    | TaskCallFailed
)
#: Of a loop that has begun.
IterationFact: TypeAlias = (
    LoopClaimed
    | LoopDone
    | LoopGrown
    | IterationStarted
    | IterationSuspended
    | IterationResumed
    | IterationDone
    | IterationFailed
    | IterationCancelled
)
#: Of loops.
LoopFact: TypeAlias = LoopStarted | IterationFact
#: Of playbooks that are called.
ChildFact: TypeAlias = ChildRequested | ChildWaiting | ChildEnded
#: Of playbooks that were called, and undo what they have done.
UndoFact: TypeAlias = ChildUndoRequested | ChildUndone
#: Of instants.
TimerFact: TypeAlias = TimerScheduled | TimerFired
#: Of what tasks wait for.
WaitFact: TypeAlias = (
    SignalReceived
    | SignalExpired
    | ApprovalAnswered
    | CallbackReceived
    | WaitMatched
    | WaitFailed
    | WaitTimedOut
)
#: Of slots, and of what is paused.
SlotFact: TypeAlias = SlotRequested | SlotGranted | StepPauseRequested | StepPauseEnded

Fact: TypeAlias = (
    LifeFact
    | SteeringFact
    | RetryFact
    | TokenFact
    | RegionFact
    | CommandFact
    | StepFact
    | TaskFact
    | LoopFact
    | ChildFact
    | UndoFact
    | TimerFact
    | WaitFact
    | SlotFact
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
    #: The id of the event, in another execution's log, that this is a copy of.
    origin: str | None = None
    #: Who asked for it, of what was asked for from outside.
    caller: Caller | None = None


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
