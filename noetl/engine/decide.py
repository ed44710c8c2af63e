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

from noetl.engine.beginning import begin
from noetl.engine.children import end_overdue, request_children
from noetl.engine.commands import issue_command, resume_command
from noetl.engine.completion import complete_others
from noetl.engine.copies import append_copies, earliest_firing, has_copies, waits_for_copies
from noetl.engine.decision import Decision, Fold
from noetl.engine.firing import fire, withdraw
from noetl.engine.granting import (
    ask_for_slots,
    may_begin,
    take_slots,
)
from noetl.engine.inputs import Inputs
from noetl.engine.loop_ends import cancel_iteration
from noetl.engine.loops import find_failed_loops, tend_loop
from noetl.engine.plan import Plan
from noetl.engine.quiescence import end
from noetl.engine.retries import decline, start_retry
from noetl.engine.run_state import Run
from noetl.engine.scopes import (
    begin_closing,
    cancel_regions,
    clean_up,
    close_regions,
)
from noetl.engine.slots import is_step_paused
from noetl.engine.state import State
from noetl.engine.termination import conclude, reason_of
from noetl.engine.tokens import find_enabled, route
from noetl.engine.waits import tend_waits
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.outcome import ErrorInfo

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


def cancel(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """Withdraws what no worker holds; ends when nothing runs any more or the grace has passed. What
    stands is copied first: who runs this one again takes it from here."""
    if state.cancel_deadline is None or state.closing:
        return []
    late = inputs.now >= datetime.fromisoformat(state.cancel_deadline)
    idle = [
        run
        for run in state.runs.values()
        if not run.ended and (late or not is_held(run, inputs)) and not has_copies(plan, state, inputs, run)
    ]
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
    return [] if state.is_halted else tend_waits(plan, state, inputs)


def stop(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """A branch failed for all: running work ends, what no worker holds is withdrawn."""
    if not state.stopping:
        return []
    idle = [
        run
        for run in state.runs.values()
        if not (run.final or run.ended or is_held(run, inputs) or has_copies(plan, state, inputs, run))
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
        return [] if state.is_halted else clean_up(plan, state, inputs, run)
    return route(plan, state, _then(inputs, run), run)


def _cancel_regions(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    return [] if state.is_halted else cancel_regions(plan, state, inputs)


def _close_regions(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    return [] if state.is_halted else close_regions(plan, state, inputs)


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
    if state.is_halted:
        return []
    return [
        resume_command(state, plan.step(run.step), run, "-", run.resume_at or None, None)
        for run in state.runs.values()
        if run.resume_at is not None
        and (run.final or not state.stopping)
        and may_begin(plan, state, inputs, run)
    ]


def _call_children(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if state.is_halted or not state.children:
        return []
    # A loop that has failed begins nothing new while it waits for its last lanes.
    return end_overdue(state, inputs.now) or request_children(state, inputs, find_failed_loops(plan, state))


def _append_copies(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    return append_copies(plan, state, inputs)


def _go_on_behind_copies(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """The commands of pipelines of which a part stands, behind the last of it, and of those that
    have their slots."""
    if state.is_halted:
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
    return [] if state.is_halted else take_slots(plan, state, inputs)


def _ask_for_slots(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    return [] if state.is_halted else ask_for_slots(plan, state, inputs)


def _fire_enabled(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if state.stopping or state.closing or state.is_halted:
        return []
    enabled = [one for one in find_enabled(plan, state) if not is_step_paused(state, one.step)]
    until = earliest_firing(state, inputs, enabled)
    if enabled and waits_for_copies(plan, state, inputs, until):
        # Nothing, where this turn has made enough of them.
        return append_copies(plan, state, inputs, until)
    return _first(fire(plan, state, inputs, one) for one in enabled)


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
