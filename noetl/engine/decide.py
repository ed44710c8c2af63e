"""decide: what follows from a state. Pure: the same net, state and inputs yield the same drafts.

`decide` asks its rules in order, folds what the first one with an answer says, and asks again until
none has anything to add. Every rule changes the state so that it does not answer the same again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from noetl.engine.admission import find_wrong_defaults
from noetl.engine.children import end_overdue, request_children
from noetl.engine.commands import issue_command, resume_command
from noetl.engine.completion import complete_others
from noetl.engine.copies import append_copies, earliest_firing, has_copies, waits_for_copies
from noetl.engine.decision import Decision, Fold
from noetl.engine.firing import fire, start_run, withdraw
from noetl.engine.granting import (
    admit_execution,
    ask_for_slots,
    may_begin,
    take_slots,
)
from noetl.engine.inputs import Inputs
from noetl.engine.loop_ends import cancel_iteration
from noetl.engine.loops import find_failed_loops, tend_loop
from noetl.engine.milestones import error_of_waiting
from noetl.engine.plan import Plan
from noetl.engine.request import render_keychain, unread_keys
from noetl.engine.retries import decline, start_retry
from noetl.engine.scopes import (
    begin_closing,
    cancel_regions,
    clean_up,
    close_execution,
    close_regions,
)
from noetl.engine.slots import is_step_paused, lacks_region
from noetl.engine.state import Run, State
from noetl.engine.termination import conclude, errors_of, finish, reason_of, stops, verdict
from noetl.engine.tokens import Enabled, find_enabled, route, tokens_at
from noetl.engine.waits import tend_waits
from noetl.engine.workload import render_ctx, render_workload
from noetl.errors import BadRequest, TemplateError
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.warnings import Warned
from noetl.net.model import ENTRY, Transition

Rule = Callable[[Plan, State, Inputs], list[Draft]]

#: Runs that one decision may begin: two of each step of the largest playbook. They take a second or
#: two, in which nobody else is served.
MOST_FIRINGS: Final = 2_000


def decide(plan: Plan, state: State, inputs: Inputs) -> Decision:
    """Everything that follows from `state`. Raises AssertionError where a rule answers the same
    again, which is a defect of it."""
    course = Course(plan, state, inputs)
    course.go_on()
    return course.decision()


class Course:
    """A decision under way: what follows from a state, and then from what else becomes known in the
    same transaction."""

    def __init__(self, plan: Plan, state: State, inputs: Inputs) -> None:
        self._start = (plan, state, inputs)
        self._inputs = inputs
        self._fold = Fold(plan, state, inputs)
        self._fired = Counter[str]()
        self._decided = set[str]()
        self._failure: Decision | None = None

    @property
    def state(self) -> State:
        """The state after all that was decided."""
        return self._fold.state

    def go_on(self, **known: Any) -> None:
        """Decides until nothing follows any more, from `known` inputs, too. Steps that lead to one
        another without end, and with no task that runs between them, end the execution: whoever
        decides would never come to an end. Raises AssertionError as `decide` does."""
        self._inputs = replace(self._inputs, **known)
        plan = self._start[0]
        while self._failure is None and (batch := _next(plan, self.state, self._inputs)):
            keys = {draft.dedup_key for draft in batch if draft.dedup_key is not None}
            if not self._decided.isdisjoint(keys):
                raise AssertionError(f"decided twice: {sorted(self._decided & keys)[:3]}")
            self._decided |= keys
            self._fold.add(batch)
            self._fired.update(_fired(batch))
            if self._fired.total() > MOST_FIRINGS:
                cycle = _describe_cycle(self._fired, split=_has_split(self._fold))
                self._failure = fail(*self._start, cycle)
            self._inputs = _after(self._inputs, batch)

    def decision(self) -> Decision:
        return self._failure or self._fold.decision()


def _fired(batch: Iterable[Draft]) -> Iterator[str]:
    return (one.step or "" for one in batch if isinstance(one.fact, e.StepScheduled) and one.origin is None)


def _has_split(fold: Fold) -> bool:
    """Whether arcs have put down several tokens at once."""
    return any(isinstance(draft.fact, e.NextEvaluated) and draft.fact.times for draft in fold.drafts)


def _describe_cycle(fired: Counter[str], *, split: bool) -> ErrorInfo:
    most = fired.most_common(1)[0][1]
    names = [name for name, count in fired.items() if count * 2 > most]
    shown = ", ".join(f"'{name}'" for name in names[:5])
    begin = "Too many runs begin at once, or steps go round" if split else "Steps go round"
    message = (
        f"{begin} without end: {MOST_FIRINGS:,} runs came one after another with no task between "
        f"them, of {shown}. Give the cycle an arc that leaves it, or a task; of a list make a loop."
    )
    return ErrorInfo("limit", message, type="EndlessCycle", step=names[0])


def fail(plan: Plan, state: State, inputs: Inputs, error: ErrorInfo) -> Decision:
    """Ends an execution for which nothing can be decided; of one that has ended, the wait for its
    next attempt."""
    fold = Fold(plan, state, inputs)
    ended = Draft(e.Processed("failed", None, error), dedup_key="processed")
    fold.add([decline(state, error.message) if state.ended else ended])
    return fold.decision()


def _next(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if not state.digest:
        return []
    if state.ended:
        return start_retry(plan, state, inputs)
    return _first(rule(plan, state, inputs) for rule in _RULES)


def _first(answers: Iterable[list[Draft]]) -> list[Draft]:
    """The first answer that is not empty; later ones are not computed."""
    return next(filter(None, answers), [])


def _after(inputs: Inputs, batch: Sequence[Draft]) -> Inputs:
    """Commands that were just issued are open too, and copies that were made count."""
    issued = {d.fact.command_id: False for d in batch if isinstance(d.fact, e.CommandIssued)}
    if issued:
        inputs = replace(inputs, commands={**inputs.commands, **issued})
    copied = sum(draft.origin is not None for draft in batch)
    return replace(inputs, most_copies=inputs.most_copies - copied) if copied else inputs


# --- the rules ------------------------------------------------------------------------------------


def begin(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if state.started or is_halted(state):
        return []
    if state.accepted is None:
        return [Draft(_evaluate(plan, state, inputs), dedup_key="evaluated")]
    if not state.accepted:
        return finish("failed", None, state.error)
    first = admit_execution(plan, state, inputs)
    if first is not None:
        return first
    token = e.Token(ENTRY, ENTRY, plan.net.entry)
    return [Draft(e.WorkflowStarted((token,)), dedup_key="started")]


def _evaluate(plan: Plan, state: State, inputs: Inputs) -> e.Evaluated:
    if inputs.source is not None and inputs.source.evaluated_at is not None:
        # The instant is no change.
        inputs = replace(inputs, now=inputs.source.evaluated_at)
    warnings: list[Warned] = [*unread_keys(plan, state.payload)] if state.payload else []
    try:
        workload = render_workload(plan.net, state, inputs, warnings)
    except TemplateError as error:
        return e.Evaluated(False, error=ErrorInfo("template", f"workload: {error.message}"))
    wrong = find_wrong_defaults(plan.net, workload)
    if wrong is not None:
        return e.Evaluated(False, error=wrong)
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


def is_halted(state: State) -> bool:
    """Whether nothing may begin. What is done at the end of an execution that was cancelled
    does."""
    return state.pause_requested or (state.cancelling and not state.closing)


def cancel(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """Withdraws what no worker holds; ends when nothing runs any more or the grace has passed."""
    if state.cancel_deadline is None or state.closing:
        return []
    late = inputs.now >= datetime.fromisoformat(state.cancel_deadline)
    idle = [run for run in state.runs.values() if not run.ended and (late or not is_held(run, inputs))]
    if idle:
        return [withdraw(run, "the execution was cancelled") for run in idle]
    if any(not run.ended for run in state.runs.values()):
        return []
    if closing := begin_closing(plan, state, inputs):
        return closing
    return [] if state.runs else conclude(plan, state)


def _cancel_parts(_plan: Plan, state: State, _inputs: Inputs) -> list[Draft]:
    """What somebody asked to end ends at once, whoever is at work on it."""
    for run in state.runs.values():
        if run.ended:
            continue
        if run.unwanted is not None:
            return [withdraw(run, run.unwanted, asked=True)]
        if run.loop is not None and run.loop.unwanted:
            return [cancel_iteration(run, *one) for one in run.loop.unwanted.items()]
    return []


def _withdraw_others(_plan: Plan, state: State, _inputs: Inputs) -> list[Draft]:
    """A step has ended the execution: so does all else, whoever is at work on it."""
    if state.termination is None:
        return []
    reason = reason_of(state.termination)
    return [withdraw(run, reason) for run in state.runs.values() if not (run.final or run.ended)]


def _tend_waits(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    return [] if is_halted(state) else tend_waits(plan, state, inputs)


def stop(_plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """A branch failed for all: running work ends, what no worker holds is withdrawn."""
    if not state.stopping:
        return []
    idle = [
        run for run in state.runs.values() if not run.final and not run.ended and not is_held(run, inputs)
    ]
    return [withdraw(run, "another branch failed") for run in idle]


def is_held(run: Run, inputs: Inputs) -> bool:
    return any(inputs.commands.get(command, False) for command in run.commands.values())


def pause(_plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if not state.pause_requested or state.paused or any(is_held(run, inputs) for run in state.runs.values()):
        return []
    return [Draft(e.Paused())]


def _route_ended(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    ended = (run for run in state.runs.values() if run.ended or run.released == "due")
    return _first(_route(plan, state, inputs, run) for run in ended)


def _route(plan: Plan, state: State, inputs: Inputs, run: Run) -> list[Draft]:
    if run.ended and run.cleanup == "wanted":
        return [] if is_halted(state) else clean_up(plan, state, inputs, run)
    return route(plan, state, _then(inputs, run), run)


def _cancel_regions(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    return [] if is_halted(state) else cancel_regions(plan, state, inputs)


def _close_regions(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    return [] if is_halted(state) else close_regions(plan, state, inputs)


def _then(inputs: Inputs, run: Run) -> Inputs:
    """`inputs` as of the instant at which the run that stands for this one was routed."""
    if inputs.source is None or run.reuse is None or run.reuse.how != "whole":
        return inputs
    routed = inputs.source.runs[run.reuse.run_id or ""].routed
    return inputs if routed is None else replace(inputs, now=routed.recorded_at)


def _tend_loops(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if state.cancelling and not state.closing:
        return []
    return _first(tend_loop(plan, state, inputs, run) for run in state.runs.values())


def _resume_runs(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if is_halted(state):
        return []
    return [
        resume_command(state, plan.step(run.step), run, "-", run.resume_at or None, None)
        for run in state.runs.values()
        if run.resume_at is not None
        and (run.final or not state.stopping)
        and may_begin(plan, state, inputs, run)
    ]


def _call_children(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if is_halted(state) or not state.children:
        return []
    # A loop that has failed begins nothing new while it waits for its last lanes.
    return end_overdue(state, inputs.now) or request_children(state, inputs, find_failed_loops(plan, state))


def _append_copies(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    return append_copies(plan, state, inputs)


def _go_on_behind_copies(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """The commands of pipelines of which a part stands, behind the last of it, and of those that
    have their slots."""
    if is_halted(state):
        return []
    return [
        issue_command(state, plan.step(run.step), run, "pipeline", "-", 1)
        for run in state.runs.values()
        if run.loop is None
        and (run.final or not state.stopping)
        and not (run.ended or run.issues or run.resume_at is not None)
        and may_begin(plan, state, inputs, run)
        and not has_copies(plan, state, inputs, run)
    ]


def _take_slots(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    return [] if is_halted(state) else take_slots(plan, state, inputs)


def _ask_for_slots(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    return [] if is_halted(state) else ask_for_slots(plan, state, inputs)


def _fire_enabled(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if state.stopping or state.closing or is_halted(state):
        return []
    enabled = [one for one in find_enabled(plan, state) if not is_step_paused(state, one.step)]
    until = earliest_firing(state, inputs, enabled)
    if enabled and waits_for_copies(plan, state, inputs, until):
        # Nothing, where this turn has made enough of them.
        return append_copies(plan, state, inputs, until)
    return _first(fire(plan, state, inputs, one) for one in enabled)


def end(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """Quiescence: nothing enabled, in flight or timed. Pending joins are settled before the end."""
    if closing := begin_closing(plan, state, inputs):
        # Runs that were withdrawn are there yet, and wait for that to be cleaned up.
        return closing
    if state.runs or state.pause_requested or not state.started or _is_held_up(state):
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


_RULES: tuple[Rule, ...] = (
    begin,
    cancel,
    _cancel_parts,
    _withdraw_others,
    _tend_waits,
    complete_others,
    _take_slots,
    _route_ended,
    _cancel_regions,
    _tend_loops,
    stop,
    pause,
    _resume_runs,
    _call_children,
    _close_regions,
    _fire_enabled,
    _append_copies,
    _ask_for_slots,
    _go_on_behind_copies,
    end,
)
