"""Regions: steps that belong together, from the first run of one of them until nothing of them is
left.

A region that was cancelled loses all that runs or waits in it at once. Then its runs are undone,
the flow goes on where it says so, and what has to be done behind every end is done; only then is
what left it let go on, and what would enter it again let in. What it comes to is certain once
nothing is left in it: nothing cancels it any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, assert_never

from noetl.engine.asking import ask_for_region, priority_of_execution
from noetl.engine.changes import replace
from noetl.engine.inputs import Inputs
from noetl.engine.names import step_names
from noetl.engine.plan import Plan
from noetl.engine.run_state import Run
from noetl.engine.scope_state import RegionState
from noetl.engine.slots import drop_slots, lacks_region, request_region_slots
from noetl.engine.state import State
from noetl.engine.timers import drop_timer, schedule_timer
from noetl.engine.undoing import undoes_in
from noetl.engine.wait_state import Timer
from noetl.errors import TemplateError
from noetl.expressions import evaluate, truth
from noetl.facts import events as e
from noetl.facts.durations import compact, seconds
from noetl.facts.events import Draft, Token
from noetl.facts.limits import region_run
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import Region, Transition

# --- folding --------------------------------------------------------------------------------------


def fold_region(state: State, fact: e.RegionFact) -> State:
    match fact:
        case e.RegionEntered():
            done = {name: record.counts.get("done", 0) for name, record in state.steps.items()}
            entered = RegionState(fact.number, state.version, done_before=done)
            return _with(state, fact.region, entered)
        case e.RegionCancelRequested():
            now = state.regions.get(fact.region)
            if now is None or not now.is_open or now.cancelled is not None or now.unwanted is not None:
                return state
            return _with(state, fact.region, replace(now, unwanted=fact.reason, error=fact.error))
        case e.RegionCancelled():
            now = state.regions[fact.region]
            return _with(state, fact.region, replace(now, cancelled=fact.reason, error=fact.error))
        case e.RegionEnded():
            now = state.regions[fact.region]
            state = drop_timer(state, _timer_id(fact.region, now))
            state = drop_slots(state, region_run(fact.region, now.number))
            return _with(state, fact.region, replace(now, is_open=False))
        case _:
            assert_never(fact)


def _with(state: State, name: str, region: RegionState) -> State:
    return replace(state, regions={**state.regions, name: region})


def _timer_id(name: str, now: RegionState) -> str:
    return f"region:{name}#{now.number}"


# --- looking --------------------------------------------------------------------------------------


def open_regions(plan: Plan, state: State) -> Iterator[tuple[Region, RegionState]]:
    """Those that were entered and have not ended, the inner ones first."""
    if not state.regions:
        return
    for region in plan.net.regions:
        now = state.regions.get(region.name)
        if now is not None and now.is_open:
            yield region, now


def is_held_back(plan: Plan, state: State, token: Token) -> bool:
    """Whether a token waits for a region: it has left one that has more to do first, or would enter
    one that is about to end, or that has no slot yet."""
    for region, now in open_regions(plan, state):
        inside, arc = token.step in region.steps, plan.net.arcs.get(token.arc)
        if inside and (is_decided(state, region, now) or lacks_region(state, region.name, now.number)):
            return True
        if inside or arc is None or (region.cleanup is None and now.cancelled is None):
            continue
        if arc.source in region.steps or (now.cancelled is not None and arc.source == region.on_cancel):
            return True
    return False


def leads_on(plan: Plan, state: State) -> frozenset[str]:
    """The steps at which the flow will go on once regions that were cancelled are undone."""
    return frozenset(
        region.on_cancel
        for region, now in open_regions(plan, state)
        if region.on_cancel is not None and now.cancelled is not None and "on_cancel" not in now.ran
    )


def runs_inside(state: State, region: Region, now: RegionState) -> list[Run]:
    """The runs that the region waits for: of its steps, and its handlers."""
    also = region.on_cancel if now.cancelled is not None else None
    return [
        run
        for run in state.runs.values()
        if run.step == also
        or (run.step in region.steps and run.handling is None)
        or (run.handling is not None and run.handling.region == region.name)
    ]


def is_empty(state: State, region: Region, now: RegionState) -> bool:
    """Whether nothing of it is left. What lies before its steps while it ends would enter it
    again."""
    if runs_inside(state, region, now) or undoes_in(state, region):
        return False
    if is_decided(state, region, now):
        return True
    return not any(waiting.token.step in region.steps for waiting in state.tokens.values())


def is_decided(state: State, region: Region, now: RegionState) -> bool:
    """Whether it is certain what it comes to: it was cancelled, or what is done at its end has
    begun."""
    if now.cancelled is not None or now.ran or state.closing is not None:
        return True
    handlers = (run.handling for run in state.runs.values() if run.handling is not None)
    return undoes_in(state, region) or any(one.region == region.name for one in handlers)


# --- deciding -------------------------------------------------------------------------------------


def regions_around(plan: Plan, step: str) -> tuple[str, ...]:
    """The regions that a step is a part of, the inner ones first."""
    return tuple(region.name for region in plan.net.regions if step in region.steps)


def must_ask(plan: Plan, state: State, step: str) -> bool:
    """Whether a region that a run of `step` would enter needs a slot first."""
    return any(region.concurrency for region in _closed_around(plan, state, step))


def _closed_around(plan: Plan, state: State, step: str) -> list[Region]:
    """The regions that a run of `step` enters, the outer ones first."""
    return [
        region
        for region in reversed(plan.net.regions)
        if step in region.steps and not is_open(state, region.name)
    ]


def is_open(state: State, region: str) -> bool:
    now = state.regions.get(region)
    return now is not None and now.is_open


def enter_regions(
    plan: Plan, state: State, inputs: Inputs, step: Transition, names: Mapping[str, Any]
) -> list[Draft]:
    """What a run of `step` begins besides itself: the regions that it is the first one of, and the
    requests for their slots. Raises TemplateError for a deadline that is no time, and for a slot
    that cannot be."""
    drafts: list[Draft] = []
    for region in _closed_around(plan, state, step.name):
        now = state.regions.get(region.name)
        number = 1 if now is None else now.number + 1
        drafts += _enter(region, number, inputs, names)
        if region.concurrency:
            slots, priority = ask_for_region(plan, inputs, region, names), priority_of_execution(plan)
            drafts.append(request_region_slots(state, region.name, number, slots, priority))
    return drafts


def _enter(region: Region, number: int, inputs: Inputs, names: Mapping[str, Any]) -> Iterator[Draft]:
    yield Draft(e.RegionEntered(region.name, number), dedup_key=f"region:{region.name}#{number}")
    given = None if region.deadline is None else evaluate(region.deadline, names, load=inputs.load)
    if given is None:
        return
    try:
        length = seconds(given)
    except ValueError as error:
        raise TemplateError(f"deadline of region {region.name!r}: {error}", str(given)) from error
    name = f"region:{region.name}#{number}"
    yield schedule_timer(Timer(name, "region", "", None, length, None, region.name), None, inputs)


def overdue(plan: Plan, state: State, timer: Timer) -> list[Draft]:
    """The region has not ended by its deadline, which is too late where it is certain what it comes
    to."""
    region = next(one for one in plan.net.regions if one.name == timer.awaited)
    if is_decided(state, region, state.regions[region.name]):
        return []
    message = (
        f"Region {timer.awaited!r} did not end within its deadline of {compact(timer.seconds or 0.0)}, which "
        "counts from its first run."
    )
    error = ErrorInfo("timeout", message, type="RegionDeadline")
    fact = e.RegionCancelRequested(region.name, "its deadline has come", error)
    return [Draft(fact, dedup_key=f"cancel:{timer.id}")]


def find_cause(plan: Plan, state: State, inputs: Inputs, region: Region, now: RegionState) -> str | None:
    """Why the region is cancelled now, if it is. What was asked for comes too late where nothing is
    left of it. Raises TemplateError."""
    if now.unwanted is not None and not is_empty(state, region, now):
        return now.unwanted
    for name in region.cancel_on:
        record = state.steps.get(name)
        if record is not None and record.counts.get("done", 0) > now.done_before.get(name, 0):
            return f"step {name!r} is done"
    if region.cancel_when is None:
        return None
    names = step_names(state, inputs, plan.step(region.steps[0]), {})
    return f"{region.cancel_when} holds" if truth(region.cancel_when, names, load=inputs.load) else None
