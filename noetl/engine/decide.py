"""decide: what follows from a state. Pure: the same net, state and inputs yield the same drafts.

`decide` asks its rules in order, folds what the first one with an answer says, and asks again until
none has anything to add. Every rule changes the state so that it does not answer the same again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any, Final, Literal, assert_never

from noetl.engine.children import end_overdue, request_children
from noetl.engine.decision import Decision, Fold
from noetl.engine.evolve import evolve
from noetl.engine.inputs import Inputs
from noetl.engine.joins import Enabled, enabled, rest_of, tokens_at
from noetl.engine.keychain import render_keychain
from noetl.engine.loops import failed, resume_command, start_loop, stop_reason, tend_loop
from noetl.engine.names import step_names
from noetl.engine.plan import Plan
from noetl.engine.request import unread_keys
from noetl.engine.routing import route, scheduled, stops
from noetl.engine.state import Run, State
from noetl.engine.workload import render_ctx, render_workload
from noetl.errors import BadRequest, TemplateError
from noetl.expressions import evaluate_at, truth, values_read
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.ids import command_id, run_id
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.warnings import Warned
from noetl.net.model import ENTRY, Admission, Transition

Rule = Callable[[Plan, State, Inputs], list[Draft]]

_DENIED: Final = "admission was denied"


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


# --- beginning and end -----------------------------------------------------------------------------


def _begin(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if state.started or _halted(state):
        return []
    if state.accepted is None:
        return [Draft(_evaluated(plan, state, inputs), dedup_key="evaluated")]
    if not state.accepted:
        return _finish("failed", None, state.error)
    token = e.Token(ENTRY, ENTRY, plan.net.entry)
    return [Draft(e.WorkflowStarted((token,)), dedup_key="started")]


def _evaluated(plan: Plan, state: State, inputs: Inputs) -> e.Evaluated:
    warnings: list[Warned] = [*unread_keys(plan, state.payload)] if state.payload else []
    try:
        workload = render_workload(plan.net, state, inputs, warnings)
    except TemplateError as error:
        return e.Evaluated(False, error=ErrorInfo("template", f"workload: {error.message}"))
    try:
        ctx = render_ctx(plan.net, workload, state, inputs, warnings)
    except TemplateError as error:
        return e.Evaluated(False, error=ErrorInfo("template", f"ctx: {error.message}"))
    try:
        keychain = render_keychain(plan.net, state, inputs, workload, warnings)
    except (TemplateError, BadRequest) as error:
        kind = "template" if isinstance(error, TemplateError) else "client_error"
        return e.Evaluated(False, error=ErrorInfo(kind, error.message))
    return e.Evaluated(True, workload, warnings=tuple(warnings), keychain=keychain, ctx=ctx)


def _finish(status: str, result_step: str | None, error: ErrorInfo | None) -> list[Draft]:
    return [
        Draft(e.WorkflowFinished(status, result_step, error), dedup_key="finished"),
        Draft(e.Processed(status, result_step, error), dedup_key="processed"),
    ]


def _end(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """Quiescence: nothing enabled, in flight or timed. Pending joins are settled before the end."""
    if state.runs or state.pause_requested or not state.started:
        return []
    if not state.stopping:
        if any(one.denied_at is not None for one in state.tokens.values()):
            return []
        if settled := _settle(plan, state, inputs):
            return settled
    if final := _final_step(plan, state, inputs):
        return final
    error = state.failures[0] if state.failures else None
    return _finish(_verdict(state), _result_step(plan, state), error)


def _verdict(state: State) -> str:
    if not state.failures:
        return "completed"
    return "failed" if state.stopping else "partial"


def _result_step(plan: Plan, state: State) -> str | None:
    for name in (plan.net.final_step, "end"):
        if name is not None and name in state.steps and "done" in state.steps[name].counts:
            return name
    # What other branches did is not what a failed execution came to.
    return None if state.stopping else state.last_step


def _settle(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """The first join in document order that waits: an OR-join fires with what has come, others fail."""
    waiting = {one.token.step for one in state.tokens.values()} - {plan.net.final_step}
    for name in sorted(waiting, key=plan.order.__getitem__):
        step = plan.step(name)
        tokens = [one.token for one in tokens_at(state, name)]
        if plan.is_or_join(step):
            return _fire(plan, state, inputs, Enabled(name, tuple(tokens)))
        needed = step.join.count if step.join.mode == "count" else len(plan.net.incoming[name])
        message = (
            f"Join {name!r} can no longer fill: {len({t.arc for t in tokens})} of {needed} branches came."
        )
        error = ErrorInfo("join", message, step=name, line=step.line or None)
        fact = e.JoinUnsatisfied(tuple(t.id for t in tokens), error, stops(step))
        return [Draft(fact, step=name)]
    return []


def _final_step(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    name = plan.net.final_step
    if name is None or state.final_ran:
        return []
    counts = [record.counts for record in state.steps.values()]
    total = {key: sum(c.get(key, 0) for c in counts) for key in ("done", "failed", "skipped")}
    errors = [error.as_json() for error in state.failures]
    come = Enabled(name, tuple(one.token for one in tokens_at(state, name)))
    args: JsonMap = {**come.args(inputs), "status": _verdict(state), "steps": total, "errors": errors}
    return _start_run(state, inputs, plan.step(name), come.ids, args, final=True)


# --- halting -----------------------------------------------------------------------------------------


def _halted(state: State) -> bool:
    return state.pause_requested or state.cancelling


def _cancel(_plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """Withdraws what no worker holds; ends when nothing runs any more or the grace has passed."""
    if state.cancel_deadline is None:
        return []
    late = inputs.now >= datetime.fromisoformat(state.cancel_deadline)
    idle = [run for run in state.runs.values() if not run.ended and (late or not _held(run, inputs))]
    if idle:
        return [_withdrawn(run, "the execution was cancelled") for run in idle]
    if state.runs:
        return []
    return [Draft(e.Cancelled(state.cancel_reason), dedup_key="cancelled")]


def _stop(_plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """A branch failed for all: running work ends, what no worker holds is withdrawn."""
    if not state.stopping:
        return []
    idle = [run for run in state.runs.values() if not run.final and not run.ended and not _held(run, inputs)]
    return [_withdrawn(run, "another branch failed") for run in idle]


def _held(run: Run, inputs: Inputs) -> bool:
    return any(inputs.commands.get(command, False) for command in run.commands.values())


def _withdrawn(run: Run, reason: str) -> Draft:
    return Draft(e.StepCancelled(reason), step=run.step, run_id=run.id, dedup_key=f"cancelled:{run.id}")


def _pause(_plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if not state.pause_requested or state.paused or any(_held(run, inputs) for run in state.runs.values()):
        return []
    return [Draft(e.Paused())]


# --- runs --------------------------------------------------------------------------------------------


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
    if _halted(state):
        return []
    return [
        resume_command(state, plan.step(run.step), run, "-", run.resume_at or None, None)
        for run in state.runs.values()
        if run.resume_at is not None and (run.final or not state.stopping)
    ]


def _call_children(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if _halted(state) or not state.children:
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
    if state.stopping or _halted(state):
        return []
    for one in enabled(plan, state):
        return _fire(plan, state, inputs, one)
    return []


def _fire(plan: Plan, state: State, inputs: Inputs, one: Enabled) -> list[Draft]:
    step = plan.step(one.step)
    try:
        verdict = _admit(state, inputs, step, step.admit, one) if step.admit else None
    except TemplateError as error:
        problem = ErrorInfo("template", error.message, step=step.name, line=step.line or None)
        return _refused_run(state, inputs, step, one, problem)
    if verdict is None:
        return [*_admitted_run(plan, state, inputs, step, one)]
    draft, fact = verdict
    if fact.allow:
        return [draft, *_admitted_run(plan, evolve(state, draft), inputs, step, one)]
    return [draft, *_denied(plan, evolve(state, draft), inputs, step, one, fact.on_deny)]


def _denied(
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
            begin = _scheduled(state, step, one.ids, one.args(inputs), round=one.round)
            yield begin
            skipped = e.StepSkipped(one.ids, _DENIED)
            yield Draft(skipped, step=step.name, run_id=begin.run_id, dedup_key=f"end:{begin.run_id}")
        case "fail":
            message = f"Admission to step {step.name!r} was denied by its policy."
            denied = ErrorInfo("client_error", message, step=step.name)
            yield from _refused_run(state, inputs, step, one, denied)
        case _:
            assert_never(on_deny)


def _refused_run(
    state: State, inputs: Inputs, step: Transition, one: Enabled, error: ErrorInfo
) -> list[Draft]:
    """A run that fails before it does anything."""
    begin = _scheduled(state, step, one.ids, one.args(inputs), round=one.round)
    return [begin, failed(evolve(state, begin).runs[begin.run_id or ""], error)]


def _admit(
    state: State, inputs: Inputs, step: Transition, admission: Admission, one: Enabled
) -> tuple[Draft, e.AdmitEvaluated] | None:
    """The first rule that matches. Raises TemplateError where a rule before it cannot be evaluated."""
    names = step_names(state, inputs, step, one.args(inputs))
    for rule in admission.rules:
        if rule.when is not None and not truth(rule.when, names, load=inputs.load):
            continue
        when = None if rule.when is None else str(rule.when)
        read = values_read(rule.when, names, guard=True) if isinstance(rule.when, str) else {}
        fact = e.AdmitEvaluated(one.ids[0], rule.allow, admission.on_deny, when, read, state.ctx_version)
        return Draft(fact, step=one.step), fact
    return None


def _admitted_run(
    plan: Plan, state: State, inputs: Inputs, step: Transition, one: Enabled
) -> Iterable[Draft]:
    if step.join.cancel_rest:
        yield from _withdraw_rest(plan, state, step, one)
    yield from _start_run(state, inputs, step, one.ids, one.args(inputs), round=one.round)


def _withdraw_rest(plan: Plan, state: State, step: Transition, one: Enabled) -> Iterable[Draft]:
    runs, tokens = rest_of(plan, state, step.name, one.ids)
    reason = f"join {step.name!r} fired without it"
    for run in runs:
        yield _withdrawn(state.runs[run], reason)
    for token in tokens:
        yield Draft(e.StepSkipped((token,), reason), step=state.tokens[token].token.step)


def _scheduled(state: State, step: Transition, tokens: tuple[str, ...], args: JsonMap, **more: Any) -> Draft:
    record = state.steps.get(step.name)
    number = record.runs + 1 if record else 1
    return scheduled(run_id(step.name, number), step.name, tokens, args, **more)


def _start_run(
    state: State,
    inputs: Inputs,
    step: Transition,
    tokens: tuple[str, ...],
    args: JsonMap,
    **more: Any,
) -> list[Draft]:
    """`step.scheduled` and what it starts: a loop, a command, or the end of a step without a tool."""
    names = step_names(state, inputs, step, args)
    problem: ErrorInfo | None = None
    warnings: list[Warned] = []
    try:
        args = {**_held_values(step.args, names, inputs, warnings), **args}
        names = step_names(state, inputs, step, args)
    except TemplateError as error:
        problem = ErrorInfo("template", error.message, step=step.name, line=step.line or None)
    begin = _scheduled(state, step, tokens, args, warnings=tuple(warnings), **more)
    state = evolve(state, begin)
    run = state.runs[begin.run_id or ""]
    if problem is not None:
        return [begin, failed(run, problem)]
    if step.loop is not None:
        return [begin, *start_loop(state, inputs, step, run, names)]
    return [begin, _first_move(state, step, run)]


def _held_values(
    templates: Mapping[str, Json], names: Mapping[str, Any], inputs: Inputs, warnings: list[Warned]
) -> dict[str, Json]:
    return {
        key: inputs.hold(evaluate_at(f"input.{key}", value, names, warnings, load=inputs.load))
        for key, value in templates.items()
    }


def _first_move(state: State, step: Transition, run: Run) -> Draft:
    if not step.tasks:
        done = e.StepDone(result=run.args)
        return Draft(done, step=step.name, run_id=run.id, dedup_key=f"end:{run.id}")
    fact = e.CommandIssued(
        command_id=command_id(state.execution_id, run.id, "-", 1),
        purpose="pipeline",
        part="-",
        queue=step.queue,
        issue=1,
        ctx_version=state.version,
    )
    return Draft(fact, step=step.name, run_id=run.id, dedup_key=f"issued:{run.id}/-/1")


_RULES: tuple[Rule, ...] = (
    _begin,
    _cancel,
    _route_ended,
    _tend_loops,
    _stop,
    _pause,
    _resume_runs,
    _call_children,
    _fire_enabled,
    _end,
)
