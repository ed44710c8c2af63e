"""decide: what follows from a state. Pure: the same net, state and inputs yield the same drafts.

`decide` asks its rules in order, folds what the first one with an answer says, and asks again until
none has anything to add. Every rule changes the state so that it does not answer the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from noetl.engine.children import end_overdue, request_children
from noetl.engine.decision import Decision, Fold
from noetl.engine.firing import fire
from noetl.engine.inputs import Inputs
from noetl.engine.joins import find_enabled
from noetl.engine.life import begin, cancel, end, is_halted, pause, stop
from noetl.engine.loops import resume_command, stop_reason, tend_loop
from noetl.engine.plan import Plan
from noetl.engine.routing import route
from noetl.engine.state import State
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.outcome import ErrorInfo

Rule = Callable[[Plan, State, Inputs], list[Draft]]


def decide(plan: Plan, state: State, inputs: Inputs) -> Decision:
    """All that follows now."""
    fold = Fold(plan, state, inputs)
    while batch := _next(plan, fold.state, inputs):
        fold.add(batch)
        inputs = _with_commands(inputs, batch)
    return fold.decision()


def fail(plan: Plan, state: State, inputs: Inputs, error: ErrorInfo) -> Decision:
    """The end of an execution that cannot be decided on."""
    fold = Fold(plan, state, inputs)
    fold.add([Draft(e.Processed("failed", None, error), dedup_key="processed")])
    return fold.decision()


def _next(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if state.ended or not state.digest:
        return []
    for rule in _RULES:
        if batch := rule(plan, state, inputs):
            return batch
    return []


def _with_commands(inputs: Inputs, batch: Iterable[Draft]) -> Inputs:
    """Commands that were just issued are open too."""
    issued = {d.fact.command_id: False for d in batch if isinstance(d.fact, e.CommandIssued)}
    return replace(inputs, commands={**inputs.commands, **issued}) if issued else inputs


def _route_ended(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    for run in state.runs.values():
        if run.ended:
            return route(plan, state, inputs, run)
    return []


def _tend_loops(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if state.cancelling:
        return []
    for run in state.runs.values():
        if run.loop is not None and (batch := tend_loop(plan, state, inputs, run)):
            return batch
    return []


def _resume_runs(plan: Plan, state: State, _inputs: Inputs) -> list[Draft]:
    if is_halted(state):
        return []
    return [
        resume_command(state, plan.step(run.step), run, "-", run.resume_at or None, None)
        for run in state.runs.values()
        if run.resume_at is not None and (run.final or not state.stopping)
    ]


def _call_children(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if is_halted(state) or not state.children:
        return []
    if overdue := end_overdue(state, inputs.now):
        return overdue
    # A loop that has failed begins nothing new while it waits for its last lanes.
    failed_loops = {
        run.id
        for run in state.runs.values()
        if run.loop is not None and stop_reason(plan.step(run.step), run.loop) is not None
    }
    return request_children(state, inputs, failed_loops)


def _fire_enabled(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if state.stopping or is_halted(state):
        return []
    for one in find_enabled(plan, state):
        return fire(plan, state, inputs, one)
    return []


_RULES: tuple[Rule, ...] = (
    begin,
    cancel,
    _route_ended,
    _tend_loops,
    stop,
    pause,
    _resume_runs,
    _call_children,
    _fire_enabled,
    end,
)
