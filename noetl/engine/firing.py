"""Fires steps: admission, what a join withdraws, and how the new run begins."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import reduce
from typing import Any, Final, Literal, assert_never

from noetl.engine.asking import is_limited
from noetl.engine.commands import issue_command
from noetl.engine.evolve import evolve
from noetl.engine.inputs import Inputs
from noetl.engine.loop_ends import fail_run
from noetl.engine.loops import start_loop
from noetl.engine.milestones import ask_milestone
from noetl.engine.names import step_names
from noetl.engine.plan import Plan
from noetl.engine.queues import render_queue
from noetl.engine.regions import enter_regions, must_ask, regions_around
from noetl.engine.reuse import choose, depends_on
from noetl.engine.run_state import Run
from noetl.engine.state import State
from noetl.engine.timers import set_deadline
from noetl.engine.tokens import Enabled, rest_of
from noetl.errors import TemplateError
from noetl.expressions import evaluate_at, truth, values_read
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.ids import run_id
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.warnings import Warned
from noetl.net.model import Admission, AdmitRule, Transition

_DENIED: Final = "admission was denied"


def fire(plan: Plan, state: State, inputs: Inputs, one: Enabled) -> list[Draft]:
    step = plan.step(one.step)
    stage, asked = ask_milestone(state, step, one.ids)
    if stage != "reached":
        return asked
    return [*asked, *_fire(plan, _fold(state, asked), inputs, step, one)]


def _fold(state: State, drafts: Iterable[Draft]) -> State:
    return reduce(evolve, drafts, state)


def _fire(plan: Plan, state: State, inputs: Inputs, step: Transition, one: Enabled) -> list[Draft]:
    try:
        verdict = _admit(state, inputs, step, step.admit, one) if step.admit else None
    except TemplateError as error:
        problem = ErrorInfo("template", error.message, step=step.name, line=step.line or None)
        return _fail_at_once(state, inputs, step, one, problem)
    if verdict is None:
        return [*_start_admitted(plan, state, inputs, step, one)]
    draft, fact = verdict
    if fact.allow:
        return [draft, *_start_admitted(plan, evolve(state, draft), inputs, step, one)]
    return [draft, *_deny(plan, evolve(state, draft), inputs, step, one, fact.on_deny)]


def _why_passed(admission: Admission | None) -> str:
    """Why a step was passed by: where one guard alone lets tokens in, it is what did not hold."""
    match admission.rules if admission is not None else ():
        case (AdmitRule(when=str() as when, allow=True), AdmitRule(when=None, allow=False)):
            return f"`{when.strip()}` does not hold"
        case _:
            return _DENIED


def _deny(
    plan: Plan,
    state: State,
    inputs: Inputs,
    step: Transition,
    one: Enabled,
    on_deny: Literal["pending", "skip", "pass", "fail"],
) -> Iterable[Draft]:
    match on_deny:
        case "pending":
            return
        case "skip":
            yield Draft(e.StepSkipped(one.ids, _DENIED), step=step.name)
        case "pass":
            if step.join.cancel_rest:
                yield from _withdraw_rest(plan, state, step, one)
            begin = _schedule(state, step, one.ids, one.args(inputs), round=one.round)
            yield begin
            skipped = e.StepSkipped(one.ids, _why_passed(step.admit))
            yield Draft(skipped, step=step.name, run_id=begin.run_id, dedup_key=f"end:{begin.run_id}")
        case "fail":
            message = f"Admission to step {step.name!r} was denied by its policy."
            denied = ErrorInfo("client_error", message, step=step.name)
            yield from _fail_at_once(state, inputs, step, one, denied)
        case _:
            assert_never(on_deny)


def _fail_at_once(
    state: State, inputs: Inputs, step: Transition, one: Enabled, error: ErrorInfo
) -> list[Draft]:
    """A run that fails before it does anything."""
    begin = _schedule(state, step, one.ids, one.args(inputs), round=one.round)
    return [begin, fail_run(evolve(state, begin).runs[begin.run_id or ""], error)]


def _admit(
    state: State, inputs: Inputs, step: Transition, admission: Admission, one: Enabled
) -> tuple[Draft, e.AdmitEvaluated] | None:
    """The first rule that matches. Raises TemplateError where a rule before it cannot be
    evaluated."""
    names = step_names(state, inputs, step, one.args(inputs))
    for rule in admission.rules:
        if rule.when is not None and not truth(rule.when, names, load=inputs.load):
            continue
        when = None if rule.when is None else str(rule.when)
        read = values_read(rule.when, names, guard=True) if isinstance(rule.when, str) else {}
        fact = e.AdmitEvaluated(one.ids[0], rule.allow, admission.on_deny, when, read, state.ctx_version)
        return Draft(fact, step=one.step), fact
    return None


def _start_admitted(
    plan: Plan, state: State, inputs: Inputs, step: Transition, one: Enabled
) -> Iterable[Draft]:
    if must_ask(plan, state, step.name):
        # Its tokens wait until the region that it would enter has its slots.
        yield from _ask_for_regions(plan, state, inputs, step, one)
        return
    if step.join.cancel_rest:
        yield from _withdraw_rest(plan, state, step, one)
    yield from start_run(plan, state, inputs, step, one.ids, one.args(inputs), round=one.round)


def _ask_for_regions(plan: Plan, state: State, inputs: Inputs, step: Transition, one: Enabled) -> list[Draft]:
    names = step_names(state, inputs, step, one.args(inputs))
    try:
        return enter_regions(plan, state, inputs, step, names)
    except TemplateError as error:
        problem = ErrorInfo("template", error.message, step=step.name, line=step.line or None)
        return _fail_at_once(state, inputs, step, one, problem)


def _withdraw_rest(plan: Plan, state: State, step: Transition, one: Enabled) -> Iterable[Draft]:
    runs, tokens = rest_of(plan, state, step.name, one.ids)
    reason = f"join {step.name!r} fired without it"
    for run in runs:
        yield withdraw(state.runs[run], reason)
    for token in tokens:
        yield skip_token(state.tokens[token].token, reason)


def skip_token(token: e.Token, reason: str) -> Draft:
    """The end of a token that has fired nothing."""
    return Draft(e.StepSkipped((token.id,), reason), step=token.step)


def _schedule(state: State, step: Transition, tokens: tuple[str, ...], args: JsonMap, **more: Any) -> Draft:
    record = state.steps.get(step.name)
    number = record.runs + 1 if record else 1
    run = run_id(step.name, number)
    fact = e.StepScheduled(tokens, args, **more)
    return Draft(fact, step=step.name, run_id=run, dedup_key=f"scheduled:{run}")


def start_run(
    plan: Plan,
    state: State,
    inputs: Inputs,
    step: Transition,
    tokens: tuple[str, ...],
    args: JsonMap,
    **more: Any,
) -> list[Draft]:
    """`step.scheduled` and what it starts: a loop, a command, or the end of a step without a
    tool."""
    names = step_names(state, inputs, step, args, known=plan.net.steps)
    problem: ErrorInfo | None = None
    warnings: list[Warned] = []
    try:
        args = {**_evaluate_args(step.args, names, inputs, warnings), **args}
        names = step_names(state, inputs, step, args, known=plan.net.steps)
        more["queue"] = render_queue(step, names, inputs)
    except TemplateError as error:
        problem = ErrorInfo("template", error.message, step=step.name, line=step.line or None)
    # What a handler does is always done.
    if step.tasks and problem is None and "handling" not in more:
        more |= _compare(plan, state, inputs, step, args, names)
    more |= _ends(plan, step, more)
    begin = _schedule(state, step, tokens, args, warnings=tuple(warnings), **more)
    state = evolve(state, begin)
    run = state.runs[begin.run_id or ""]
    if problem is not None:
        return [begin, fail_run(run, problem)]
    try:
        entered = enter_regions(plan, state, inputs, step, names) if run.handling is None else []
        begun = [begin, *entered, *set_deadline(step, run, names, inputs)]
    except TemplateError as error:
        problem = ErrorInfo("template", error.message, step=step.name, line=step.line or None)
        return [begin, fail_run(run, problem)]
    if step.loop is not None:
        return [*begun, *start_loop(plan, state, inputs, step.loop, run, names)]
    if step.tasks:
        # What stands of an earlier execution comes first, and slots before what is called.
        if run.takes or is_limited(step, run, inputs):
            return begun
        return [*begun, issue_command(state, step, run, "pipeline", "-", 1)]
    done = e.StepDone(result=run.args)
    return [begin, *entered, Draft(done, step=step.name, run_id=run.id, dedup_key=f"end:{run.id}")]


def _compare(
    plan: Plan, state: State, inputs: Inputs, step: Transition, args: JsonMap, names: Mapping[str, Any]
) -> dict[str, Any]:
    """What the run depends on, and what it takes of the execution that is run again, where there is
    one: for `step.scheduled`."""
    depends = depends_on(plan, state, inputs, step, args, names)
    found: dict[str, Any] = {"code": depends.code, "reads": depends.reads}
    if state.retry is not None:
        found["reuse"] = choose(plan, state, inputs, step, depends)
    return found


def _ends(plan: Plan, step: Transition, more: Mapping[str, Any]) -> dict[str, Any]:
    """What the run is a part of, and what has to be done when it has ended, for `step.scheduled`:
    nothing for what is run at an end itself."""
    if "handling" in more or "final" in more:
        return {}
    undo = "" if step.compensate is None else step.compensate.when
    regions = regions_around(plan, step.name)
    return {"undo": undo, "cleanup": step.cleanup is not None, "regions": regions}


def _evaluate_args(
    templates: Mapping[str, Json], names: Mapping[str, Any], inputs: Inputs, warnings: list[Warned]
) -> dict[str, Json]:
    return {
        key: inputs.hold(evaluate_at(f"input.{key}", value, names, warnings, load=inputs.load))
        for key, value in templates.items()
    }


def withdraw(run: Run, reason: str, *, asked: bool = False) -> Draft:
    """The end of a run that has not ended, whatever it was about to come to."""
    fact = e.StepCancelled(reason, asked)
    return Draft(fact, step=run.step, run_id=run.id, dedup_key=f"cancelled:{run.id}")
