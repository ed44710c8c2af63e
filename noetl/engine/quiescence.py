"""What follows when nothing moves any more: joins are settled, scopes closed, the end comes."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.engine.firing import fire, start_run
from noetl.engine.inputs import Inputs
from noetl.engine.milestones import error_of_waiting
from noetl.engine.plan import Plan
from noetl.engine.scopes import begin_closing, close_execution
from noetl.engine.slots import is_step_paused, lacks_region
from noetl.engine.state import State
from noetl.engine.termination import conclude, errors_of, stops, verdict
from noetl.engine.tokens import Enabled, tokens_at
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import Transition


def end(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """Quiescence: nothing enabled, in flight or timed. Pending joins are settled before the end."""
    if closing := begin_closing(plan, state, inputs):
        # Runs that were withdrawn are there yet, and wait for that to be cleaned up.
        return closing
    if state.runs or state.undos or state.pause_requested or not state.started or _is_held_up(state):
        return []
    if not state.stopping and not state.closing:
        if any(one.denied_at is not None for one in state.tokens.values()):
            return []
        if settled := _settle(plan, state, inputs):
            return settled
    if closing := close_execution(plan, state, inputs):
        return closing
    if final := _final_step(plan, state, inputs):
        return final
    return conclude(plan, state)


def _is_held_up(state: State) -> bool:
    """Whether a token waits before a step that is paused, or a region that has no slot yet."""
    if state.stopping or state.closing is not None:
        return False
    if any(now.is_open and lacks_region(state, name, now.number) for name, now in state.regions.items()):
        return True
    return any(is_step_paused(state, one.token.step) for one in state.tokens.values())


def _settle(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """The first join in document order that waits: an OR-join fires with what has come, others
    fail."""
    waiting = {one.token.step for one in state.tokens.values()} - {plan.net.final_step}
    early = {one.token.step for one in state.tokens.values() if one.early}
    # Those before a milestone are the last: what other joins come to may reach it.
    for name in sorted(waiting, key=lambda name: (name in early, plan.order[name])):
        step = plan.step(name)
        tokens = [one.token for one in tokens_at(state, name)]
        if step.milestone is not None and name in early:
            return [_fail_waiting(step, tokens, error_of_waiting(step, step.milestone))]
        if plan.is_or_join(step):
            return fire(plan, state, inputs, Enabled(name, tuple(tokens)))
        message = f"Join {name!r} can no longer fill: {_count_come(plan, step, tokens)} came."
        error = ErrorInfo("join", message, step=name, line=step.line or None)
        return [_fail_waiting(step, tokens, error)]
    return []


def _fail_waiting(step: Transition, tokens: Sequence[e.Token], error: ErrorInfo) -> Draft:
    fact = e.JoinUnsatisfied(tuple(token.id for token in tokens), error, stops(step))
    return Draft(fact, step=step.name)


def _count_come(plan: Plan, step: Transition, tokens: Sequence[e.Token]) -> str:
    if step.join.mode == "tokens":
        return f"{len(tokens)} of {step.join.count} tokens"
    needed = step.join.count if step.join.mode == "count" else len(plan.net.incoming[step.name])
    return f"{len({token.arc for token in tokens})} of {needed} branches"


def _final_step(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    name = plan.net.final_step
    if name is None or state.final_ran:
        return []
    counts = [record.counts for record in state.steps.values()]
    total = {key: sum(c.get(key, 0) for c in counts) for key in ("done", "failed", "skipped")}
    errors = [error.as_json() for error in errors_of(state)]
    come = Enabled(name, tuple(one.token for one in tokens_at(state, name)))
    args: JsonMap = {**come.args(inputs), "status": verdict(plan, state), "steps": total, "errors": errors}
    return start_run(plan, state, inputs, plan.step(name), come.ids, args, final=True)
