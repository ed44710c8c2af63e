"""evolve: one event onto a state. Total over the closed union of facts, and blind to the Net.

What a fact means is decided here and nowhere else: to know what is true, fold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final, assert_never

from noetl.engine.changes import replace
from noetl.engine.children import fold_child
from noetl.engine.forks import fold_fork
from noetl.engine.regions import fold_region
from noetl.engine.retries import fold_behind_end
from noetl.engine.run_ends import end_run, fail_branch, inherit, leave_routed, remember
from noetl.engine.run_state import Run
from noetl.engine.runs import fold_command, fold_loop, fold_step, fold_task, place_of
from noetl.engine.scope_state import Termination
from noetl.engine.slots import fold_slots
from noetl.engine.state import Round, State, StepRecord, Waiting
from noetl.engine.timers import fold_timer, put_off
from noetl.engine.undoing import fold_undo
from noetl.engine.waits import fold_wait
from noetl.errors import VersionConflict
from noetl.facts import events as e
from noetl.facts.ids import version_of
from noetl.facts.json import assign, deep_merge
from noetl.facts.outcome import REUSED


def replay(state: State, events: Iterable[e.Event]) -> State:
    """Folds `events` onto `state`. Raises VersionConflict where a version is missing or doubled."""
    for event in events:
        if event.version != state.version + 1:
            raise VersionConflict(state.execution_id, state.version + 1, event.version)
        state = evolve(state, event.draft)
    return state


def evolve(state: State, draft: e.Draft) -> State:
    """The state one version later. After a terminal event nothing changes but the version, and
    whether the execution is retried by itself."""
    version = state.version + 1
    if state.ended:
        return fold_behind_end(replace(state, version=version), draft.fact)
    state = replace(state, version=version, notices=state.notices.after(draft))
    state = _fold(state, draft)
    if draft.origin is not None:
        state = _mark_copied(state, draft, draft.origin)
    return _count_reused(state, draft, draft.fact) if isinstance(draft.fact, e.TaskDone) else state


def _mark_copied(state: State, draft: e.Draft, origin: str) -> State:
    """The run of a copied event has come to the version that the event had; where it was given from
    outside, the execution has."""
    run = state.runs.get(draft.run_id or "")
    if run is None:
        is_given = isinstance(draft.fact, e.CtxPatched | e.SignalReceived | e.ApprovalAnswered)
        return replace(state, given=state.given + 1) if is_given else state
    return replace(state, runs={**state.runs, run.id: replace(run, copied=version_of(origin))})


def _count_reused(state: State, draft: e.Draft, done: e.TaskDone) -> State:
    """Results of tasks that were not called are counted at their step."""
    run = state.runs.get(draft.run_id or "")
    if run is None or not (draft.origin or REUSED in done.meta):
        return state
    record = state.steps[run.step]
    return replace(state, steps={**state.steps, run.step: replace(record, reused=record.reused + 1)})


def _fold(state: State, draft: e.Draft) -> State:
    fact = draft.fact
    if isinstance(fact, e.LifeFact):
        return _fold_life(state, fact)
    if isinstance(fact, e.SteeringFact):
        return _fold_steering(state, fact)
    if isinstance(fact, e.TokenFact):
        return fold_tokens(state, fact, draft)
    if isinstance(fact, e.RegionFact):
        return _fold_region(state, fact)
    if isinstance(fact, e.CommandFact | e.StepFact | e.TaskFact | e.LoopFact):
        return _fold_run(state, fact, draft)
    if isinstance(fact, e.ChildFact | e.TimerFact | e.WaitFact | e.SlotFact):
        return _fold_wait(state, fact, draft)
    if isinstance(fact, e.UndoFact):
        return _fold_undo(state, fact)
    if isinstance(fact, e.RetryFact):
        # They stand behind an end alone.
        return state
    assert_never(fact)


def _fold_run(
    state: State, fact: e.CommandFact | e.StepFact | e.TaskFact | e.LoopFact, draft: e.Draft
) -> State:
    """What runs do."""
    if isinstance(fact, e.TaskFact):
        return fold_task(state, fact, draft)
    if isinstance(fact, e.LoopFact):
        return fold_loop(state, fact, draft)
    if isinstance(fact, e.StepFact):
        return fold_step(state, fact, draft)
    return fold_command(state, fact, draft)


def _fold_wait(
    state: State, fact: e.ChildFact | e.TimerFact | e.WaitFact | e.SlotFact, draft: e.Draft
) -> State:
    """What runs wait for."""
    if isinstance(fact, e.ChildFact):
        return fold_child(state, fact, draft)
    if isinstance(fact, e.TimerFact):
        return fold_timer(state, fact, draft)
    if isinstance(fact, e.WaitFact):
        return fold_wait(state, fact, draft)
    return fold_slots(state, fact, draft)


def _fold_region(state: State, fact: e.RegionFact) -> State:
    state = fold_region(state, fact)
    if not isinstance(fact, e.RegionEnded) or fact.failure is None:
        return state
    return fail_branch(state, fact.failure, fact.stops)


def _fold_undo(state: State, fact: e.UndoFact) -> State:
    state = fold_undo(state, fact)
    failure = fact.error if isinstance(fact, e.ChildUndone) else None
    # What else is to be undone still is.
    return state if failure is None else fail_branch(state, failure, stops=False)


# --- the life of the execution ------------------------------------------------------------------


def _fold_life(state: State, fact: e.LifeFact) -> State:
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
                retry=fact.retry,
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
            ended = _end(state, fact.status)
            return replace(ended, result_step=fact.result_step, error=fact.error)
        case e.Cancelled():
            reason = state.cancel_reason or fact.reason
            return _end(replace(state, tokens={}, runs={}, cancel_reason=reason), "cancelled")
        case e.Closing():
            # A pause that was asked for before does not keep it from its end.
            return replace(state, closing=fact.status, pause_requested=False, paused=False, tokens={})
        case e.Forked():
            return fold_fork(state, fact)
        case _:
            assert_never(fact)


#: What an execution that has ended waits for, and holds.
_NOTHING_LEFT: Final[Mapping[str, Any]] = {
    "children": {},
    "timers": {},
    "waits": {},
    "signals": (),
    "answers": (),
    "callbacks": {},
    "holders": {},
}


def _end(state: State, status: str) -> State:
    return replace(state, phase="ended", status=status, **_NOTHING_LEFT)


def _fold_steering(state: State, fact: e.SteeringFact) -> State:
    match fact:
        case e.PauseRequested():
            return replace(state, pause_requested=True, paused_at=fact.at)
        case e.Paused():
            return replace(state, paused=True)
        case e.Resumed():
            state = put_off(state, state.paused_at, fact.at)
            return replace(state, pause_requested=False, paused=False, paused_at=None)
        case e.CancelRequested():
            return replace(state, cancel_deadline=fact.deadline, cancel_reason=fact.reason)
        case e.CtxPatched():
            return replace(state, ctx=assign(state.ctx, fact.patch), ctx_version=state.version)
        case _:
            assert_never(fact)


def fold_tokens(state: State, fact: e.TokenFact, draft: e.Draft) -> State:
    match fact:
        case e.AdmitEvaluated():
            if fact.allow or fact.token not in state.tokens:
                return state
            waiting = replace(state.tokens[fact.token], denied_at=fact.ctx_version)
            return replace(state, tokens={**state.tokens, fact.token: waiting})
        case e.MilestoneEvaluated():
            return _wait_for_milestone(state, fact)
        case e.StepScheduled():
            return _schedule(state, fact, draft)
        case e.StepSkipped():
            return _skip(state, fact, draft)
        case e.NextEvaluated():
            return _route(state, fact, draft)
        case e.JoinUnsatisfied():
            state = _drop_tokens(state, fact.tokens, ())
            return fail_branch(state, fact.error, fact.stops)
        case _:
            assert_never(fact)


def _wait_for_milestone(state: State, fact: e.MilestoneEvaluated) -> State:
    waiting = state.tokens.get(fact.token)
    if waiting is None:
        return state
    waiting = replace(waiting, early=fact.stage == "early")
    return replace(state, tokens={**state.tokens, fact.token: waiting})


def put_tokens(state: State, tokens: Iterable[e.Token]) -> State:
    waiting = dict(state.tokens)
    rounds = state.rounds
    for token in tokens:
        if not token.absorbed:
            waiting[token.id] = Waiting(token)
        elif token.step in rounds:
            current = rounds[token.step]
            rounds = {**rounds, token.step: replace(current, arrived=current.arrived | {token.arc})}
    return replace(state, tokens=waiting, rounds=rounds)


def _drop_tokens(state: State, ids: Iterable[str], heirs: Iterable[str]) -> State:
    gone = set(ids)
    left = {token_id: waiting for token_id, waiting in state.tokens.items() if token_id not in gone}
    return inherit(replace(state, tokens=left), gone, heirs)


def _schedule(state: State, fact: e.StepScheduled, draft: e.Draft) -> State:
    step, run_id = place_of(draft)
    arcs = frozenset(state.tokens[token].token.arc for token in fact.tokens if token in state.tokens)
    state = _drop_tokens(state, fact.tokens, (run_id,))
    if fact.round:
        alive = frozenset(state.tokens) | {key for key, run in state.runs.items() if run.puts_tokens}
        state = replace(state, rounds={**state.rounds, step: Round(fact.round, arcs, alive)})
    record = state.steps.get(step, StepRecord())
    handling = fact.handling
    # Where a region that was cancelled lets the flow go on, the run is one of it.
    apart = handling is not None and not (handling.purpose == "on_cancel" and handling.region)
    run = Run(
        run_id,
        step,
        fact.args,
        state.version,
        final=fact.final or apart,
        reuse=fact.reuse,
        handling=handling,
        undo=fact.undo,
        cleanup="wanted" if fact.cleanup else "",
        regions=fact.regions,
        queue=fact.queue,
    )
    taken = fact.reuse.run_id if fact.reuse is not None and fact.reuse.how != "none" else None
    return replace(
        state,
        runs={**state.runs, run_id: run},
        steps={**state.steps, step: replace(record, runs=record.runs + 1, status="running")},
        final_ran=state.final_ran or fact.final,
        taken=state.taken if taken is None else (*state.taken, taken),
    )


def _skip(state: State, fact: e.StepSkipped, draft: e.Draft) -> State:
    if (run := state.runs.get(draft.run_id or "")) is not None:
        return state if run.ended else end_run(state, replace(run, status="skipped", cleanup=""))
    state = _drop_tokens(state, fact.tokens, ())
    return remember(state, draft.step or "", "skipped")


def _route(state: State, fact: e.NextEvaluated, draft: e.Draft) -> State:
    step, run_id = place_of(draft)
    state = leave_routed(state, run_id)
    state = put_tokens(state, fact.tokens)
    state = inherit(state, (run_id,), (token.id for token in fact.tokens if not token.absorbed))
    if fact.terminates is not None:
        return replace(state, stopping=True, termination=Termination(step, fact.terminates, fact.failure))
    if fact.failure is None:
        return state
    record = state.steps[step]
    if record.status == "done":
        record = replace(record, status="failed", error=fact.failure)
        state = replace(state, steps={**state.steps, step: record})
    return fail_branch(state, fact.failure, fact.stops)
