"""evolve: one event onto a state. Total over the closed union of facts, and blind to the Net.

What a fact means is decided here and nowhere else; whoever needs to know what is true folds.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from noetl.engine.children import fold_child, waits_for_child, without_children
from noetl.engine.iterations import loop_result, moved, new_loop, not_drained, with_lanes
from noetl.engine.state import LastTask, Round, Run, RunStatus, State, StepRecord, Waiting
from noetl.errors import VersionConflict
from noetl.facts import events as e
from noetl.facts.json import Json, JsonMap, deep_merge, set_path
from noetl.facts.outcome import ErrorInfo


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
    return _folded(replace(state, version=version, notices=state.notices.after(draft)), draft)


def _folded(state: State, draft: e.Draft) -> State:
    match draft.fact:
        case (
            e.Requested()
            | e.Evaluated()
            | e.WorkflowStarted()
            | e.WorkflowFinished()
            | e.Processed()
            | e.Cancelled()
        ):
            return _life(state, draft.fact)
        case e.PauseRequested() | e.Paused() | e.Resumed() | e.CancelRequested() | e.CtxPatched():
            return _outside(state, draft.fact)
        case (
            e.AdmitEvaluated() | e.StepScheduled() | e.StepSkipped() | e.NextEvaluated() | e.JoinUnsatisfied()
        ):
            return _tokens(state, draft.fact, draft)
        case e.CommandIssued() | e.CommandLost() | e.ResultDiscarded():
            return _command(state, draft.fact, draft)
        case (
            e.StepStarted()
            | e.StepSuspended()
            | e.StepResumed()
            | e.StepDone()
            | e.StepFailed()
            | e.StepCancelled()
        ):
            return _step(state, draft.fact, draft)
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
            return _task(state, draft.fact, draft)
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
            return _loop(state, draft.fact, draft)
        case e.ChildRequested() | e.ChildWaiting() | e.ChildEnded():
            return fold_child(state, draft.fact, draft)
        case _:
            assert_never(draft.fact)


# --- the life of the execution ------------------------------------------------------------------


def _life(
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
            return replace(_put_tokens(state, fact.tokens), started=True, phase="running", status="running")
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


def _outside(
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
            return replace(state, ctx=patched(state.ctx, fact.patch), ctx_version=state.version)
        case _:
            assert_never(fact)


def patched(ctx: JsonMap, patch: JsonMap) -> JsonMap:
    """`ctx` after the assignments of `patch` (dotted name → value), in order."""
    for name, value in patch.items():
        ctx = set_path(ctx, name, value)
    return ctx


# --- tokens -----------------------------------------------------------------------------------------


def _tokens(
    state: State,
    fact: e.AdmitEvaluated | e.StepScheduled | e.StepSkipped | e.NextEvaluated | e.JoinUnsatisfied,
    draft: e.Draft,
) -> State:
    match fact:
        case e.AdmitEvaluated():
            return _admitted(state, fact)
        case e.StepScheduled():
            return _scheduled(state, fact, draft)
        case e.StepSkipped():
            return _skipped(state, fact, draft)
        case e.NextEvaluated():
            return _routed(state, fact, draft)
        case e.JoinUnsatisfied():
            state = _drop_tokens(state, fact.tokens, ())
            return _branch_failed(state, fact.error, fact.stops)
        case _:
            assert_never(fact)


def _put_tokens(state: State, tokens: Iterable[e.Token]) -> State:
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
    return _inherit(replace(state, tokens=left), gone, heirs)


def _inherit(state: State, gone: Iterable[str], heirs: Iterable[str]) -> State:
    """Rounds follow what lived when they fired: `heirs` take the place of what is `gone`."""
    if not state.rounds:
        return state
    lost, new = frozenset(gone), frozenset(heirs)
    rounds = {
        step: replace(r, outstanding=(r.outstanding - lost) | new) if r.outstanding & lost else r
        for step, r in state.rounds.items()
    }
    return replace(state, rounds=rounds)


def _admitted(state: State, fact: e.AdmitEvaluated) -> State:
    if fact.allow or fact.token not in state.tokens:
        return state
    waiting = replace(state.tokens[fact.token], denied_at=fact.ctx_version)
    return replace(state, tokens={**state.tokens, fact.token: waiting})


def _scheduled(state: State, fact: e.StepScheduled, draft: e.Draft) -> State:
    step, run_id = _place(draft)
    arcs = frozenset(state.tokens[token].token.arc for token in fact.tokens if token in state.tokens)
    state = _drop_tokens(state, fact.tokens, (run_id,))
    if fact.round:
        alive = frozenset(state.tokens) | frozenset(state.runs)
        state = replace(state, rounds={**state.rounds, step: Round(fact.round, arcs, alive)})
    record = state.steps.get(step, StepRecord())
    run = Run(run_id, step, fact.args, state.version, final=fact.final)
    return replace(
        state,
        runs={**state.runs, run_id: run},
        steps={**state.steps, step: replace(record, runs=record.runs + 1, status="running")},
        final_ran=state.final_ran or fact.final,
    )


def _skipped(state: State, fact: e.StepSkipped, draft: e.Draft) -> State:
    if (run := state.runs.get(draft.run_id or "")) is not None:
        return state if run.ended else _end(state, replace(run, status="skipped"))
    state = _drop_tokens(state, fact.tokens, ())
    return _remember(state, draft.step or "", "skipped")


def _routed(state: State, fact: e.NextEvaluated, draft: e.Draft) -> State:
    step, run_id = _place(draft)
    runs = {key: run for key, run in state.runs.items() if key != run_id}
    state = _put_tokens(replace(state, runs=runs), fact.tokens)
    state = _inherit(state, (run_id,), (token.id for token in fact.tokens if not token.absorbed))
    if fact.failure is None:
        return state
    record = state.steps[step]
    if record.status == "done":
        record = replace(record, status="failed", error=fact.failure)
        state = replace(state, steps={**state.steps, step: record})
    return _branch_failed(state, fact.failure, fact.stops)


def _branch_failed(state: State, error: ErrorInfo, stops: bool) -> State:
    return replace(state, failures=(*state.failures, error), stopping=state.stopping or stops)


# --- commands ------------------------------------------------------------------------------------


def _command(
    state: State, fact: e.CommandIssued | e.CommandLost | e.ResultDiscarded, draft: e.Draft
) -> State:
    match fact:
        case e.CommandIssued():
            return _issued(state, fact, draft)
        case e.CommandLost():
            return _lost(state, draft)
        case e.ResultDiscarded():
            return state
        case _:
            assert_never(fact)


def _issued(state: State, fact: e.CommandIssued, draft: e.Draft) -> State:
    run = state.runs[_place(draft)[1]]
    run = replace(
        run,
        issues={**run.issues, fact.part: fact.issue},
        commands={**run.commands, fact.part: fact.command_id},
    )
    loop = run.loop
    if loop is None:
        run = replace(run, resume_at=None)
    elif draft.iteration is not None:
        suspended = {k: v for k, v in loop.suspended.items() if k != draft.iteration}
        run = replace(run, loop=replace(loop, suspended=suspended))
    else:
        run = replace(run, loop=with_lanes(loop, fact.generation))
    return _with_run(state, run)


def _lost(state: State, draft: e.Draft) -> State:
    run = state.runs.get(draft.run_id or "")
    if run is None or run.loop is None:
        return state
    return _with_run(state, replace(run, loop=not_drained(run.loop)))


# --- steps ---------------------------------------------------------------------------------------


def _step(
    state: State,
    fact: e.StepStarted | e.StepSuspended | e.StepResumed | e.StepDone | e.StepFailed | e.StepCancelled,
    draft: e.Draft,
) -> State:
    run = state.runs.get(draft.run_id or "")
    if run is None or run.ended:
        return state
    match fact:
        case e.StepStarted() | e.StepResumed():
            return _with_run(state, replace(run, status="running"))
        case e.StepSuspended(child=e.ChildCall()):
            return waits_for_child(state, run, None, fact)
        case e.StepSuspended():
            return _with_run(state, replace(run, status="waiting", resume_at=fact.due_at or ""))
        case e.StepDone():
            result = _result_of(run, fact)
            return _end(state, replace(run, status="done", result=result))
        case e.StepFailed():
            return _end(state, replace(run, status="failed", error=fact.error))
        case e.StepCancelled():
            state = _end(state, replace(run, status="cancelled"))
            runs = {key: other for key, other in state.runs.items() if key != run.id}
            return _inherit(replace(state, runs=runs), (run.id,), ())
        case _:
            assert_never(fact)


def _result_of(run: Run, fact: e.StepDone) -> Json:
    if run.loop is not None:
        return fact.result if fact.result is not None else loop_result(run.loop)
    return run.results.get(fact.task) if fact.task is not None else fact.result


def _end(state: State, run: Run) -> State:
    state = _remember(without_children(_with_run(state, run), run.id), run.step, run.status)
    record = replace(state.steps[run.step], error=run.error)
    if run.status == "done":
        record = replace(record, result=run.result, results=run.results)
        if run.loop is not None and run.loop.errors:
            record = replace(record, passed=record.passed.after_loop(run.loop.errors, run.loop.count))
        state = replace(state, last_step=run.step)
    return replace(state, steps={**state.steps, run.step: record})


def _remember(state: State, step: str, status: RunStatus) -> State:
    record = state.steps.get(step, StepRecord())
    counts = {**record.counts, status: record.counts.get(status, 0) + 1}
    return replace(state, steps={**state.steps, step: replace(record, status=status, counts=counts)})


# --- tasks ---------------------------------------------------------------------------------------


def _task(
    state: State,
    fact: e.TaskStarted
    | e.TaskDone
    | e.TaskFailed
    | e.AttemptFailed
    | e.TaskCheckpointed
    | e.TaskAbandoned
    | e.PolicyEvaluated
    | e.VariablesSet
    | e.TaskLoopStarted
    | e.TaskItemDone
    | e.TaskItemFailed
    | e.TaskCallDone
    | e.TaskCallFailed,
    draft: e.Draft,
) -> State:
    run = state.runs.get(draft.run_id or "")
    if run is None or run.ended:
        return state
    match fact:
        case e.TaskDone():
            return _with_run(state, _task_ended(run, draft.iteration, fact, fact.result))
        case e.TaskFailed():
            state = _with_passed(state, run.step, fact)
            return _with_run(state, _task_ended(run, draft.iteration, fact, None))
        case e.TaskItemFailed() | e.TaskCallFailed():
            return _with_passed(state, run.step, fact)
        case e.VariablesSet():
            if not fact.step:
                return state
            return _with_run(state, replace(run, variables=patched(run.variables, fact.step)))
        case (
            e.TaskStarted()
            | e.AttemptFailed()
            | e.TaskCheckpointed()
            | e.TaskAbandoned()
            | e.PolicyEvaluated()
            | e.TaskLoopStarted()
            | e.TaskItemDone()
            | e.TaskCallDone()
        ):
            return state
        case _:
            assert_never(fact)


def _with_passed(state: State, step: str, fact: e.TaskFailed | e.TaskItemFailed | e.TaskCallFailed) -> State:
    record = state.steps[step]
    passed = record.passed.after_task(fact)
    if passed is record.passed:
        return state
    return replace(state, steps={**state.steps, step: replace(record, passed=passed)})


def _task_ended(run: Run, iteration: int | None, fact: e.TaskDone | e.TaskFailed, result: Json) -> Run:
    fatal = isinstance(fact, e.TaskFailed) and fact.fatal
    last = LastTask(fatal, fact.meta, fact.extras)
    if iteration is None:
        run = replace(run, results={**run.results, fact.task: result})
        return run if fact.after else replace(run, last_task=last)
    loop = run.loop
    if loop is None or loop.ended >> iteration & 1:
        return run
    tasks = {**loop.partial.get(iteration, {}), fact.task: result}
    run = replace(run, loop=replace(loop, partial={**loop.partial, iteration: tasks}))
    # A loop fails with the error of the iteration that failed first.
    return replace(run, last_task=last) if fatal and not fact.after and not loop.errors else run


# --- loops ---------------------------------------------------------------------------------------


def _loop(
    state: State,
    fact: e.LoopStarted
    | e.LoopClaimed
    | e.LoopDone
    | e.IterationStarted
    | e.IterationSuspended
    | e.IterationResumed
    | e.IterationDone
    | e.IterationFailed,
    draft: e.Draft,
) -> State:
    run = state.runs.get(draft.run_id or "")
    if run is None or run.ended:
        return state
    if isinstance(fact, e.LoopStarted):
        return _with_run(state, replace(run, loop=new_loop(fact)))
    loop = run.loop
    if loop is None:
        return state
    index = draft.iteration if draft.iteration is not None else -1
    if index >= 0 and loop.ended >> index & 1:
        return state
    if isinstance(fact, e.IterationSuspended) and fact.child is not None:
        return waits_for_child(state, run, index, fact)
    return _with_run(state, replace(run, loop=moved(loop, index, fact)))


# --- small things --------------------------------------------------------------------------------


def _place(draft: e.Draft) -> tuple[str, str]:
    if draft.step is None or draft.run_id is None:
        raise ValueError(f"{draft.fact.type} needs a step and a run")
    return draft.step, draft.run_id


def _with_run(state: State, run: Run) -> State:
    return replace(state, runs={**state.runs, run.id: run})
