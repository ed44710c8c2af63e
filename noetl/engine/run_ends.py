"""How runs end, and what the end of one changes in a state: the record of its step, what it waited
for and held, what has to be undone of it, and the branch that it fails.

A run that is *released* is done for its step, which is routed, and lives on until the last of its
iterations has ended.
"""

from __future__ import annotations

from collections.abc import Iterable

from noetl.engine.changes import replace
from noetl.engine.children import drop_children
from noetl.engine.iterations import fold_iteration, loop_result
from noetl.engine.run_state import Run, RunStatus, SparseValues
from noetl.engine.slots import drop_slots
from noetl.engine.state import State, StepRecord
from noetl.engine.timers import drop_timers
from noetl.engine.undoing import fold_handled, remember_run
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
    state = remember(_settle(state, run), run.step, run.status)
    record = replace(state.steps[run.step], error=run.error)
    if run.status == "done":
        record = _pass_iterations(replace(record, result=run.result, results=run.results), run)
        # What undoes or cleans up is not what the execution comes to.
        state = state if run.handling is not None and run.final else replace(state, last_step=run.step)
    return _with_record(state, run.step, record)


def _settle(state: State, run: Run) -> State:
    """A run that has ended waits for nothing and holds nothing; what it has done may have to be
    undone, and what it was run for is done."""
    state = drop_waits(drop_children(with_run(state, run), run.id), run.id)
    state = drop_slots(drop_timers(state, run.id), run.id)
    return remember_run(fold_handled(state, run), run)


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


def drop_run(state: State, run: Run) -> State:
    """The run is withdrawn, and routed no more. It is there until it is cleaned up. The final step
    runs again at the end of an execution that is cancelled, as what cleans up does."""
    if run.final and run.handling is None and state.cancelling:
        state = replace(state, final_ran=False)
    run = replace(run, status="cancelled", withdrawn=True)
    state = end_run(state, run) if run.released == "no" else _settle(state, run)
    return inherit(_leave(state, run), (run.id,), ())


def _leave(state: State, run: Run) -> State:
    return state if run.cleanup == "wanted" else without_run(state, run.id)


# --- runs that were routed ------------------------------------------------------------------------


def leave_routed(state: State, run_id: str) -> State:
    """The run was routed. It is gone, unless iterations of it run on."""
    run = state.runs.get(run_id)
    if run is not None and run.released == "due" and not run.ended:
        return with_run(state, replace(run, released="routed"))
    return _finish_handler(without_run(state, run_id), run)


def _finish_handler(state: State, run: Run | None) -> State:
    """Whoever waited for `run`, to be cleaned up by it, is. One that was routed before is gone."""
    handling = run.handling if run is not None else None
    if handling is None or handling.purpose != "finally" or handling.run_id not in state.runs:
        return state
    owner = replace(state.runs[handling.run_id], cleanup="done")
    return with_run(state, owner) if owner.puts_tokens else without_run(state, owner.id)


# --- runs that are released -----------------------------------------------------------------------


def release_run(state: State, run: Run, fact: e.StepDone) -> State:
    """The step is done, and its loop goes on. What its iterations have come to so far is in the
    result; what they wrote to ctx was folded."""
    loop = run.loop
    if loop is None:
        return state
    run = replace(
        run,
        result=result_of_run(run, fact),
        released="due",
        loop=replace(loop, writes=SparseValues(loop.count)),
    )
    state = remember(with_run(state, run), run.step, "done")
    record = replace(state.steps[run.step], result=run.result, results=run.results, error=None)
    return replace(_with_record(state, run.step, record), last_step=run.step)


def end_released(state: State, run: Run, fact: e.LoopDone) -> State:
    """The last iteration of a run whose step is done has ended, or its loop has failed. A run that
    is still to be routed is routed as any that has ended well."""
    loop = fold_iteration(run.loop, -1, fact) if run.loop is not None else None
    status: RunStatus = "done" if fact.failure is None else "failed"
    run = replace(run, loop=loop, status=status, error=fact.failure)
    if fact.failure is None:
        run = replace(run, released="no" if run.puts_tokens else "routed")
        state = _settle(state, run)
        state = _with_record(state, run.step, _pass_iterations(state.steps[run.step], run))
    else:
        run = replace(run, released="routed")
        state = inherit(_settle(state, run), (run.id,), ())
        record = replace(state.steps[run.step], status="failed", error=fact.failure)
        state = fail_branch(_with_record(state, run.step, record), fact.failure, fact.stops)
    return state if run.puts_tokens else _finish_handler(_leave(state, run), run)
