"""The ends of scopes: what runs when a run, a region or the execution has ended, in which order.

An inner scope comes before an outer one. In each the runs that have done something are undone
first, if it has failed or was cancelled; then follows what is run when it was cancelled, and then
what is run behind every end (`finally`). In an execution that fails or is cancelled all of that
waits until nothing else runs any more (`playbook.closing`).
"""

from __future__ import annotations

from typing import assert_never

from noetl.engine.firing import skip_token, start_run, withdraw
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.regions import find_cause, is_decided, is_empty, open_regions
from noetl.engine.run_state import Run
from noetl.engine.scope_state import RegionState, UndoableCall
from noetl.engine.state import State
from noetl.engine.termination import reason_of
from noetl.engine.undoing import describe_undoable, handling_of, next_undoable, request_undo
from noetl.errors import TemplateError
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.scopes import EndStatus, Handling
from noetl.net.model import Region

# --- regions --------------------------------------------------------------------------------------


def cancel_regions(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """The first region for whose end there is a cause loses all that runs or waits in it."""
    for region, now in open_regions(plan, state):
        if now.cancelled is not None and (left := _withdraw_runs(state, region, now.cancelled)):
            # In a fork, of which the log was cut in between.
            return left
        if is_decided(state, region, now):
            continue
        try:
            reason = find_cause(plan, state, inputs, region, now)
        except TemplateError as error:
            problem = ErrorInfo("template", f"cancel_on of region {region.name!r}: {error.message}")
            return _cancel(state, region, problem.message, problem)
        if reason is not None:
            return _cancel(state, region, reason, now.error)
    return []


def _cancel(state: State, region: Region, reason: str, error: ErrorInfo | None) -> list[Draft]:
    number = state.regions[region.name].number
    cancelled = e.RegionCancelled(region.name, reason, error)
    why, runs = _say_why(region, reason), _withdraw_runs(state, region, reason)
    inside = (one.token for one in state.tokens.values() if one.token.step in region.steps)
    tokens = [skip_token(token, why) for token in inside]
    return [Draft(cancelled, dedup_key=f"cancelled:{region.name}#{number}"), *runs, *tokens]


def _withdraw_runs(state: State, region: Region, reason: str) -> list[Draft]:
    return [
        withdraw(run, _say_why(region, reason))
        for run in state.runs.values()
        if run.step in region.steps and run.handling is None and not run.ended
    ]


def _say_why(region: Region, reason: str) -> str:
    return f"region {region.name!r} was cancelled: {reason}"


def close_regions(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """The next thing that a region wants done of which nothing is left, or its end."""
    inner: set[str] = set()
    for region, now in open_regions(plan, state):
        if inner.isdisjoint(region.steps) and is_empty(state, region, now):
            return _close(plan, state, inputs, region, now)
        inner.update(region.steps)
    return []


def _close(plan: Plan, state: State, inputs: Inputs, region: Region, now: RegionState) -> list[Draft]:
    status = _status_of(state, now)
    handler = _next_handler(state, region, now, status)
    if handler is not None and not may_handle(state):
        return []
    if handler is None:
        return [_end(plan, region, now, status)]
    match handler.purpose:
        case "compensate":
            return _undo(plan, state, inputs, region)
        case "on_cancel" | "finally":
            name = region.on_cancel if handler.purpose == "on_cancel" else region.cleanup
            return _run(plan, state, inputs, name or "", handler, _say(status, now))
        case _:
            assert_never(handler.purpose)


def _next_handler(state: State, region: Region, now: RegionState, status: str) -> Handling | None:
    """What is to be run next for a region of which nothing is left."""
    if status != "completed" and region.compensate and next_undoable(state, region) is not None:
        return Handling("compensate", region.name)
    is_cancelled = now.cancelled is not None and _end_of(state) is None
    if is_cancelled and region.on_cancel is not None and "on_cancel" not in now.ran:
        return Handling("on_cancel", region.name)
    if region.cleanup is not None and "finally" not in now.ran:
        return Handling("finally", region.name)
    return None


def _status_of(state: State, now: RegionState) -> EndStatus:
    return "cancelled" if now.cancelled is not None else _end_of(state) or "completed"


def _say(status: EndStatus, now: RegionState) -> JsonMap:
    error = _error_of(now)
    return {
        "status": status,
        "reason": now.cancelled,
        "error": None if error is None else error.as_json(),
    }


def _error_of(now: RegionState) -> ErrorInfo | None:
    """The failure that it was cancelled as; that of a cancel which came too late is none."""
    return None if now.cancelled is None else now.error


def _end(plan: Plan, region: Region, now: RegionState, status: EndStatus) -> Draft:
    """A failure that nothing was made of is that of the branch."""
    failure = _error_of(now) if region.on_cancel is None else None
    strict = plan.net.failure.mode != "best_effort"
    fact = e.RegionEnded(region.name, status, failure, failure is not None and strict)
    return Draft(fact, dedup_key=f"end:{region.name}#{now.number}")


# --- the execution --------------------------------------------------------------------------------


def _end_of(state: State) -> EndStatus | None:
    """How the execution ends before all of its steps have, if it does."""
    if state.cancelling:
        return "cancelled"
    if state.termination is not None:
        return state.termination.status
    return "failed" if state.stopping else None


def may_handle(state: State) -> bool:
    """Whether handlers run now: in an execution that fails or is cancelled behind all else."""
    return _end_of(state) is None or state.closing is not None


def begin_closing(plan: Plan, state: State, _inputs: Inputs) -> list[Draft]:
    """All that ran has ended, of an execution that has failed or was cancelled and has something to
    do yet."""
    status = _end_of(state)
    waits = state.pause_requested and not state.cancelling
    if status is None or state.closing or not state.started or waits:
        return []
    if any(not run.ended for run in state.runs.values()) or not _has_more(plan, state, status):
        return []
    return [Draft(e.Closing(status), dedup_key="closing")]


def _has_more(plan: Plan, state: State, status: EndStatus) -> bool:
    if state.undoable and status != "completed":
        return True
    if any(run.cleanup == "wanted" for run in state.runs.values()):
        return True
    if any(region.cleanup is not None for region, _ in open_regions(plan, state)):
        return True
    # But for a cancel, the final step runs as it does in one that went well.
    final = plan.net.final_step if state.cancelling else None
    return status == "cancelled" and (plan.net.on_cancel or final) is not None


def close_execution(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """What is done before the final step, where it has failed or was cancelled."""
    if state.closing is None:
        return []
    if state.undoable and state.closing != "completed":
        return _undo(plan, state, inputs, None)
    if state.closing == "cancelled" and plan.net.on_cancel is not None and not state.on_cancel_ran:
        reason = state.cancel_reason or (reason_of(state.termination) if state.termination else "")
        args = {"status": "cancelled", "reason": reason, "error": None}
        return _run(plan, state, inputs, plan.net.on_cancel, Handling("on_cancel"), args)
    return []


def _undo(plan: Plan, state: State, inputs: Inputs, region: Region | None) -> list[Draft]:
    one = next_undoable(state, region)
    assert one is not None, "something is to be undone"
    if isinstance(one, UndoableCall):
        return request_undo(state, inputs, one)
    handling = handling_of(one, "" if region is None else region.name)
    undoing = plan.step(one.step).compensate
    assert undoing is not None, "its step says what undoes it"
    args = describe_undoable(one, inputs)
    return _run(plan, state, inputs, undoing.step, handling, args)


# --- a run ----------------------------------------------------------------------------------------


def clean_up(plan: Plan, state: State, inputs: Inputs, run: Run) -> list[Draft]:
    """The handler of a run that has ended and is to be cleaned up."""
    handler = plan.step(run.step).cleanup
    begun = any(
        one.handling is not None and one.handling.purpose == "finally" and one.handling.run_id == run.id
        for one in state.runs.values()
    )
    if handler is None or begun or not may_handle(state):
        return []
    args: JsonMap = {
        "of": run.step,
        "run": run.id,
        "given": run.args,
        "status": run.status,
        "result": run.result,
        "error": None if run.error is None else run.error.as_json(),
    }
    return _run(plan, state, inputs, handler, Handling("finally", run_id=run.id), args)


def _run(
    plan: Plan, state: State, inputs: Inputs, step: str, handling: Handling, args: JsonMap
) -> list[Draft]:
    return start_run(plan, state, inputs, plan.step(step), (), args, handling=handling)
