"""How runs end, and what the end of one changes in a state: the record of its step, what it had
timers for, and the branch that it fails.

A run that is *released* is done for its step, which is routed, and lives on until the last of its
iterations has ended.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from noetl.engine.children import drop_children
from noetl.engine.iterations import fold_iteration, loop_result
from noetl.engine.state import Run, RunStatus, Slots, State, StepRecord
from noetl.engine.timers import drop_timers
from noetl.engine.waits import drop_waits
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo


def inherit(state: State, gone: Iterable[str], heirs: Iterable[str]) -> State:
    """Rounds follow what lived when they fired: `heirs` take the place of what is `gone`."""
    if not state.rounds:
        return state
    lost, new = frozenset(gone), frozenset(heirs)
    rounds = {
        step: replace(r, outstanding=(r.outstanding - lost) | new) if r.outstanding & lost else r
        for step, r in state.rounds.items()
    }
    return replace(state, rounds=rounds)


def with_run(state: State, run: Run) -> State:
    return replace(state, runs={**state.runs, run.id: run})


def without_run(state: State, run_id: str) -> State:
    return replace(state, runs={key: run for key, run in state.runs.items() if key != run_id})


def end_run(state: State, run: Run) -> State:
    state = _forget_waits(with_run(state, run), run.id)
    state = remember(state, run.step, run.status)
    record = replace(state.steps[run.step], error=run.error)
    if run.status == "done":
        record = _with_result(record, run)
        if run.loop is not None:
            record = _pass_iterations(record, run)
        state = replace(state, last_step=run.step)
    return _with_record(state, run.step, record)


def _forget_waits(state: State, run_id: str) -> State:
    """Nothing is waited for by the run any more."""
    return drop_timers(drop_waits(drop_children(state, run_id), run_id), run_id)


def _with_result(record: StepRecord, run: Run) -> StepRecord:
    return replace(record, result=run.result, results=run.results)


def _pass_iterations(record: StepRecord, run: Run) -> StepRecord:
    """With the iterations that failed in a loop which was done all the same."""
    loop = run.loop
    if loop is None or not loop.errors:
        return record
    return replace(record, passed=record.passed.after_loop(loop.errors, loop.count))


def _with_record(state: State, step: str, record: StepRecord) -> State:
    return replace(state, steps={**state.steps, step: record})


def remember(state: State, step: str, status: RunStatus) -> State:
    record = state.steps.get(step, StepRecord())
    counts = {**record.counts, status: record.counts.get(status, 0) + 1}
    return _with_record(state, step, replace(record, status=status, counts=counts))


def result_of_run(run: Run, fact: e.StepDone) -> Json:
    if run.loop is not None:
        return fact.result if fact.result is not None else loop_result(run.loop)
    return run.results.get(fact.task) if fact.task is not None else fact.result


def fail_branch(state: State, error: ErrorInfo, stops: bool) -> State:
    return replace(state, failures=(*state.failures, error), stopping=state.stopping or stops)


# --- runs that are released -----------------------------------------------------------------------


def release_run(state: State, run: Run, fact: e.StepDone) -> State:
    """The step is done, and its loop goes on. What its iterations have come to so far is in the
    result; what they wrote to ctx was folded."""
    loop = run.loop
    if loop is None:
        return state
    result = result_of_run(run, fact)
    empty = Slots(loop.count)
    loop = replace(loop, results=empty, writes=empty)
    run = replace(run, result=result, released="due", loop=loop)
    state = remember(with_run(state, run), run.step, "done")
    record = replace(_with_result(state.steps[run.step], run), error=None)
    return replace(_with_record(state, run.step, record), last_step=run.step)


def end_released(state: State, run: Run, fact: e.LoopDone) -> State:
    """The last iteration of a run that was routed has ended, or its loop has failed."""
    if run.loop is not None:
        run = replace(run, loop=fold_iteration(run.loop, -1, fact))
    state = without_run(_forget_waits(state, run.id), run.id)
    record = state.steps[run.step]
    if fact.failure is None:
        return _with_record(state, run.step, _pass_iterations(record, run))
    record = replace(record, status="failed", error=fact.failure)
    return fail_branch(_with_record(state, run.step, record), fact.failure, fact.stops)


def drop_run(state: State, run: Run) -> State:
    """The run is withdrawn, and routed no more."""
    if run.released == "no":
        state = end_run(state, replace(run, status="cancelled"))
    else:
        state = _forget_waits(state, run.id)
    return inherit(without_run(state, run.id), (run.id,), ())
