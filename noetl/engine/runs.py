"""What events of steps, their commands and their tasks change in the runs of a state."""

from __future__ import annotations

from typing import assert_never

from noetl.engine.changes import replace
from noetl.engine.children import drop_child, waits_for_child
from noetl.engine.iterations import (
    cut_short,
    fold_iteration,
    lose_lane,
    new_loop,
    note_begun,
    with_lanes,
)
from noetl.engine.run_ends import (
    drop_run,
    end_released,
    end_run,
    release_run,
    result_of_run,
    with_run,
)
from noetl.engine.run_state import LastTask, LockedCall, Run
from noetl.engine.slots import drop_part
from noetl.engine.state import State
from noetl.engine.waits import begin_wait, drop_wait
from noetl.facts import events as e
from noetl.facts.json import Json, assign
from noetl.facts.outcome import ErrorInfo


def place_of(draft: e.Draft) -> tuple[str, str]:
    """Step and run of a draft. Raises ValueError where it names none."""
    if draft.step is None or draft.run_id is None:
        raise ValueError(f"{draft.fact.type} needs a step and a run")
    return draft.step, draft.run_id


def fold_command(state: State, fact: e.CommandFact, draft: e.Draft) -> State:
    match fact:
        case e.CommandIssued():
            return _issue(state, fact, draft)
        case e.CommandLost():
            run = state.runs.get(draft.run_id or "")
            if run is None or run.loop is None:
                return state
            return with_run(state, replace(run, loop=lose_lane(run.loop)))
        case e.ResultDiscarded():
            return state
        case _:
            assert_never(fact)


def _issue(state: State, fact: e.CommandIssued, draft: e.Draft) -> State:
    run = state.runs[place_of(draft)[1]]
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
    return with_run(state, run)


def fold_step(state: State, fact: e.StepFact, draft: e.Draft) -> State:
    run = state.runs.get(draft.run_id or "")
    if run is None or run.ended:
        return state
    match fact:
        case e.StepStarted() | e.StepResumed():
            return with_run(state, replace(run, status="running", locked=None))
        case e.StepSuspended():
            due, locked = fact.due_at or "", LockedCall.of(fact)
            timed = replace(run, status="waiting", resume_at=due, locked=locked)
            return _leave_worker(state, run, None, fact) or with_run(state, timed)
        case e.StepDone():
            return _end_well(state, run, fact)
        case e.StepFailed():
            timed_out = isinstance(fact, e.StepTimedOut)
            return end_run(state, replace(run, status="failed", error=fact.error, timed_out=timed_out))
        case e.StepCancelRequested():
            return with_run(state, _ask_to_end(run, draft.iteration, fact.reason))
        case e.StepCancelled(asked=True) if run.puts_tokens:
            error = ErrorInfo("cancelled", fact.reason, step=run.step)
            return end_run(state, replace(run, status="cancelled", error=error))
        case e.StepCancelled():
            return drop_run(state, run)
        case _:
            assert_never(fact)


def _end_well(state: State, run: Run, fact: e.StepDone) -> State:
    if fact.released:
        return release_run(state, run, fact)
    if fact.forced_by is not None and run.loop is not None:
        # Logs of before say so here alone, and not in `loop.done`.
        run = replace(run, loop=cut_short(run.loop))
    return end_run(state, replace(run, status="done", result=result_of_run(run, fact)))


def _leave_worker(
    state: State, run: Run, iteration: int | None, fact: e.StepSuspended | e.IterationSuspended
) -> State | None:
    """The pipeline waits for a playbook, or for what else may come; None where it waits for time
    alone."""
    if fact.child is not None:
        return waits_for_child(state, run, iteration, fact)
    return begin_wait(state, run, iteration, fact) if fact.wait is not None else None


def _ask_to_end(run: Run, iteration: int | None, reason: str) -> Run:
    if iteration is None:
        return replace(run, unwanted=reason)
    loop = run.loop
    if loop is None or loop.ended >> iteration & 1 or iteration >= loop.count:
        return run
    return replace(run, loop=replace(loop, unwanted={**loop.unwanted, iteration: reason}))


def fold_task(state: State, fact: e.TaskFact, draft: e.Draft) -> State:
    run = state.runs.get(draft.run_id or "")
    if run is None or run.ended:
        return state
    match fact:
        case e.TaskDone():
            return with_run(state, _end_task(run, draft.iteration, fact, fact.result))
        case e.TaskFailed():
            state = _pass_error(state, run.step, fact)
            return with_run(state, _end_task(run, draft.iteration, fact, None))
        case e.TaskItemFailed() | e.TaskCallFailed():
            return _pass_error(state, run.step, fact)
        case e.VariablesSet():
            if not fact.step:
                return state
            return with_run(state, replace(run, variables=assign(run.variables, fact.step)))
        case (
            e.TaskStarted()
            | e.AttemptFailed()
            | e.TaskKeyKept()
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


def _pass_error(state: State, step: str, fact: e.TaskFailed | e.TaskItemFailed | e.TaskCallFailed) -> State:
    record = state.steps[step]
    passed = record.passed.after_task(fact)
    if passed is record.passed:
        return state
    return replace(state, steps={**state.steps, step: replace(record, passed=passed)})


def _end_task(run: Run, iteration: int | None, fact: e.TaskDone | e.TaskFailed, result: Json) -> Run:
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


def fold_loop(state: State, fact: e.LoopFact, draft: e.Draft) -> State:
    run = state.runs.get(draft.run_id or "")
    if run is None or run.ended:
        return state
    if isinstance(fact, e.LoopStarted):
        return with_run(state, replace(run, loop=new_loop(fact)))
    loop = run.loop
    if loop is None:
        return state
    index = draft.iteration if draft.iteration is not None else -1
    if index >= 0 and loop.ended >> index & 1:
        return state
    if isinstance(fact, e.LoopDone) and run.released != "no":
        return end_released(state, run, fact)
    if isinstance(fact, e.IterationSuspended) and (left := _leave_worker(state, run, index, fact)):
        return left
    if isinstance(fact, e.IterationCancelled):
        state = drop_wait(drop_child(state, run.id, index), run.id, index)
        loop = note_begun(run.issues, loop, index)
    if isinstance(fact, e.IterationCancelled | e.IterationDone | e.IterationFailed):
        state = drop_part(state, run.id, f"i{index}")
        if run.undo:
            loop = replace(loop, ended_at=loop.ended_at.put(index, state.version))
    return with_run(state, replace(run, loop=fold_iteration(loop, index, fact)))
