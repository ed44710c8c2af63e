"""evolve: one event onto a state. Total over the closed union of facts, and blind to the Net.

What a fact means is decided here and nowhere else; whoever needs to know what is true folds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from noetl.engine.assignments import assign
from noetl.engine.children import fold_child
from noetl.engine.runs import fold_command, fold_loop, fold_step, fold_task
from noetl.engine.state import State
from noetl.engine.tokens import fold_tokens, put_tokens
from noetl.errors import VersionConflict
from noetl.facts import events as e
from noetl.facts.json import deep_merge


def replay(state: State, events: Iterable[e.Event]) -> State:
    """Folds `events` onto `state`. Raises VersionConflict where a version is missing or doubled."""
    for event in events:
        if event.version != state.version + 1:
            raise VersionConflict(state.execution_id, state.version + 1, event.version)
        state = evolve(state, event.draft)
    return state


def evolve(state: State, draft: e.Draft) -> State:
    """The state one version later. After a terminal event nothing but the version changes."""
    version = state.version + 1
    if state.ended:
        return replace(state, version=version)
    return _fold(replace(state, version=version, notices=state.notices.after(draft)), draft)


def _fold(state: State, draft: e.Draft) -> State:
    match draft.fact:
        case (
            e.Requested()
            | e.Evaluated()
            | e.WorkflowStarted()
            | e.WorkflowFinished()
            | e.Processed()
            | e.Cancelled()
        ):
            return _fold_life(state, draft.fact)
        case e.PauseRequested() | e.Paused() | e.Resumed() | e.CancelRequested() | e.CtxPatched():
            return _fold_requests(state, draft.fact)
        case (
            e.AdmitEvaluated() | e.StepScheduled() | e.StepSkipped() | e.NextEvaluated() | e.JoinUnsatisfied()
        ):
            return fold_tokens(state, draft.fact, draft)
        case e.CommandIssued() | e.CommandLost() | e.ResultDiscarded():
            return fold_command(state, draft.fact, draft)
        case (
            e.StepStarted()
            | e.StepSuspended()
            | e.StepResumed()
            | e.StepDone()
            | e.StepFailed()
            | e.StepCancelled()
        ):
            return fold_step(state, draft.fact, draft)
        case (
            e.TaskStarted()
            | e.TaskDone()
            | e.TaskFailed()
            | e.AttemptFailed()
            | e.TaskCheckpointed()
            | e.TaskAbandoned()
            | e.PolicyEvaluated()
            | e.VariablesSet()
            | e.TaskLoopStarted()
            | e.TaskItemDone()
            | e.TaskItemFailed()
            | e.TaskCallDone()
            | e.TaskCallFailed()
        ):
            return fold_task(state, draft.fact, draft)
        case (
            e.LoopStarted()
            | e.LoopClaimed()
            | e.LoopDone()
            | e.IterationStarted()
            | e.IterationSuspended()
            | e.IterationResumed()
            | e.IterationDone()
            | e.IterationFailed()
        ):
            return fold_loop(state, draft.fact, draft)
        case e.ChildRequested() | e.ChildWaiting() | e.ChildEnded():
            return fold_child(state, draft.fact, draft)
        case _:
            assert_never(draft.fact)


# --- the life of the execution ------------------------------------------------------------------


def _fold_life(
    state: State,
    fact: e.Requested | e.Evaluated | e.WorkflowStarted | e.WorkflowFinished | e.Processed | e.Cancelled,
) -> State:
    match fact:
        case e.Requested():
            return replace(
                state,
                path=fact.path,
                playbook_version=fact.playbook_version,
                digest=fact.digest,
                payload=fact.payload,
                overrides=fact.overrides,
                parent=fact.parent,
            )
        case e.Evaluated():
            # What somebody has patched meanwhile is newer than what ctx begins with.
            ctx = deep_merge(fact.ctx, state.ctx) if fact.ctx else state.ctx
            return replace(state, accepted=fact.accepted, workload=fact.workload, error=fact.error, ctx=ctx)
        case e.WorkflowStarted():
            return replace(put_tokens(state, fact.tokens), started=True, phase="running", status="running")
        case e.WorkflowFinished():
            return replace(state, finished=True, result_step=fact.result_step, error=fact.error)
        case e.Processed():
            return replace(
                state,
                phase="ended",
                status=fact.status,
                result_step=fact.result_step,
                error=fact.error,
                children={},
            )
        case e.Cancelled():
            return replace(state, phase="ended", status="cancelled", tokens={}, runs={}, children={})
        case _:
            assert_never(fact)


def _fold_requests(
    state: State, fact: e.PauseRequested | e.Paused | e.Resumed | e.CancelRequested | e.CtxPatched
) -> State:
    match fact:
        case e.PauseRequested():
            return replace(state, pause_requested=True)
        case e.Paused():
            return replace(state, paused=True)
        case e.Resumed():
            return replace(state, pause_requested=False, paused=False)
        case e.CancelRequested():
            return replace(state, cancel_deadline=fact.deadline, cancel_reason=fact.reason)
        case e.CtxPatched():
            return replace(state, ctx=assign(state.ctx, fact.patch), ctx_version=state.version)
        case _:
            assert_never(fact)
