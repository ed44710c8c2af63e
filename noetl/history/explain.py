"""Explains an execution: why each step ran, did not run, or waits."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Final, assert_never

from noetl.engine.awaited import Surroundings
from noetl.engine.decision import status_of
from noetl.engine.plan import Plan
from noetl.engine.state import State
from noetl.facts import events as e
from noetl.facts.brief import brief
from noetl.facts.events import Event
from noetl.history.accounts import (
    Asked,
    Dropped,
    Explanation,
    OpenCommand,
    RunAccount,
    Standing,
    StepAccount,
    Way,
)
from noetl.history.admissions import rules_asked
from noetl.history.attempts import describe_attempt
from noetl.history.evidence import CLOSE_UP, OVERVIEW, Evidence, listed, show_error
from noetl.history.firings import account_of_run
from noetl.history.milestones import milestones_asked
from noetl.history.waits import waits_of, waits_of_execution
from noetl.history.ways import find_stops, ways_to

#: Characters of an error's message that stand in a sentence.
_SHOWN: Final = 200


def explain(
    plan: Plan,
    events: Sequence[Event],
    held: Iterable[OpenCommand] = (),
    step: str | None = None,
    around: Surroundings | None = None,
    known: State | None = None,
) -> Explanation:
    """The account of every step of the net, or of `step` alone, which is told more of. `events` are
    the log from its beginning; `held` and `around` belong to the moment at which it ends, and
    `known` is what they come to: without it they are folded.

    Raises KeyError where the net has no such step.
    """
    bounds = OVERVIEW if step is None else CLOSE_UP
    here = Evidence(plan, events, {one.command_id: one for one in held}, bounds, around, known)
    names = list(plan.net.steps) if step is None else [plan.net.steps[step].name]
    ways = {name: ways_to(here, name) for name in plan.net.steps}
    stops, state = find_stops(ways), here.state
    return Explanation(
        state.execution_id,
        state.path,
        state.playbook_version,
        state.version,
        status_of(state),
        plan.net.file,
        show_error(state.error) if state.error else None,
        tuple(_account(here, name, ways[name], stops.get(name, ())) for name in names),
        None if state.next_attempt is None else describe_attempt(state.next_attempt),
        tuple(waits_of_execution(here)),
    )


def _account(here: Evidence, step: str, ways: tuple[Way, ...], stops: Iterable[Way]) -> StepAccount:
    scheduled = [event for event in here.of_step.get(step, ()) if isinstance(event.fact, e.StepScheduled)]
    runs = tuple(account_of_run(here, event) for event in scheduled[-here.bounds.runs :])
    waits = tuple(waits_of(here, step))
    dropped = tuple(_dropped(here, step))
    standing = _standing(here.state, step, runs, bool(waits), dropped)
    account = StepAccount(
        step,
        standing,
        "",
        len(scheduled),
        runs,
        ways,
        tuple(stops) if standing == "not_run" else (),
        _with_rules(here, step, dropped[-here.bounds.failures :]),
        waits,
        here.file_line(step),
    )
    return replace(account, why=_reason(here, account))


def _standing(
    state: State, step: str, runs: tuple[RunAccount, ...], waits: bool, dropped: tuple[Dropped, ...]
) -> Standing:
    record = state.steps.get(step)
    alive = [run for run in state.runs.values() if run.step == step and not run.ended]
    if alive and not state.ended:
        return "running" if any(run.status == "running" for run in alive) else "waiting"
    if waits:
        return "waiting"
    if record is not None and record.status == "waiting":
        return "cancelled"
    if record is not None and record.status != "running":
        return record.status
    if runs:
        return runs[-1].status
    return "skipped" if dropped else "not_run"


# --- tokens that came and never fired the step ---


def _dropped(here: Evidence, step: str) -> Iterator[Dropped]:
    fired, ends = set[str](), dict[str, tuple[str, int]]()
    for event in here.of_step.get(step, ()):
        match event.fact:
            case e.StepScheduled(tokens=tokens):
                fired.update(tokens)
            case e.StepSkipped(tokens=tokens, reason=reason) if event.draft.run_id is None:
                ends.update(dict.fromkeys(tokens, (reason, event.version)))
            case e.JoinUnsatisfied(tokens=tokens, error=error):
                ends.update(dict.fromkeys(tokens, (_sentence(error.message), event.version)))
            case _:
                pass
    for arrival in here.arrived_at.get(step, ()):
        token = arrival.token
        if token.id in ends:
            yield Dropped(token.id, *ends[token.id])
        elif token.absorbed:
            yield Dropped(token.id, "it came after its join had fired", arrival.event.version)
        elif here.state.ended and token.id not in fired:
            yield Dropped(token.id, _left_over(here), here.events[-1].version)


def _with_rules(here: Evidence, step: str, dropped: tuple[Dropped, ...]) -> tuple[Dropped, ...]:
    return tuple(
        replace(
            one, rules=(*milestones_asked(here, step, (one.token,)), *rules_asked(here, step, (one.token,)))
        )
        for one in dropped
    )


def _left_over(here: Evidence) -> str:
    """Why a token that waited when the execution ended was not taken up."""
    state = here.state
    if state.termination is not None:
        return f"step {state.termination.step!r} had ended the execution"
    if state.status == "cancelled":
        return "the execution was cancelled before it was taken up"
    if state.failures:
        failed = state.failures[0]
        whose = f"step {failed.step!r}" if failed.step else "a branch"
        return f"{whose} had failed, and with it the execution: nothing new started"
    return "the execution ended before it was taken up"


# --- one sentence ---


def _reason(here: Evidence, one: StepAccount) -> str:
    match one.standing:
        case "waiting" | "running":
            return f"{_head(one)}: {one.waits[0].text}." if one.waits else f"{_head(one)}."
        case "not_run":
            return _why_not(here, one)
        case "skipped" if one.dropped and (not one.runs or one.runs[-1].status != "skipped"):
            return f"It did not run{' again' if one.runs else ''}: {one.dropped[-1].why}."
        case _:
            return _why_ran(here, one)


def _head(one: StepAccount) -> str:
    is_paused = bool(one.waits) and one.waits[0].kind == "pause"
    return "It runs" if one.standing == "running" and not is_paused else "It waits"


def _why_ran(here: Evidence, one: StepAccount) -> str:
    if not one.runs:
        return f"It ended as {one.standing}."
    last = one.runs[-1]
    if one.step == here.plan.net.final_step and not last.because:
        begin = "It ran last, after everything else"
    elif last.handled:
        begin = f"It {last.handled}"
    else:
        begin = f"It ran {_behind(last.because)}" + _admitted(last.admission)
    how = {"failed": " and failed", "cancelled": " and was cancelled", "skipped": " and was skipped"}
    ending = how.get(one.standing, "") + (f" ({last.reason})" if last.reason else "")
    ending += _cancelled_behind(last) if one.standing == "done" else ""
    error = f": {_sentence(last.error['message'])}" if last.error else ""
    return f"{begin}{ending}{error}".removesuffix("…") + ("…" if error.endswith("…") else ".")


def _cancelled_behind(run: RunAccount) -> str:
    """What was cancelled of a loop whose step is done."""
    loop = run.loop
    if loop is None or not loop.cancelled:
        return ""
    reasons = listed(one.reason for one in loop.cancelled_for)
    were = "was" if loop.cancelled == 1 else "were"
    count = "all" if loop.cancelled == loop.total else loop.cancelled
    return f", and {count} of its {loop.total} iterations {were} cancelled ({reasons})"


def _sentence(message: str) -> str:
    """A message as a part of a sentence."""
    return brief(message, _SHOWN).rstrip(".")


def _behind(because: tuple[Way, ...]) -> str:
    sources = [way.source for way in because if way.source is not None]
    if not sources:
        return "as the entry"
    return f"after {listed(sources)}"


def _admitted(admission: tuple[Asked, ...]) -> str:
    return f", {admission[-1].said}" if admission else ""


def _why_not(here: Evidence, one: StepAccount) -> str:
    state = here.state
    begin = "It did not run" if state.ended else "It has not run"
    if state.accepted is False and state.error is not None:
        return f"{begin}: the request was refused: {_sentence(state.error.message)}."
    if not one.ways:
        final, role = one.step == here.plan.net.final_step, here.plan.net.role_of(one.step)
        why = "the final step follows everything else" if final else role and f"it {role}"
        return f"{begin}: {why or 'no arc leads to it'}."
    if len(one.ways) > 1:
        return f"{begin}: none of its {len(one.ways)} ways in was taken{_furthest(one.stopped_at)}."
    return f"{begin}: {_clause(one.ways[0])}{_furthest(one.stopped_at)}."


def _clause(way: Way) -> str:
    """What became of the arc, in a clause of its own."""
    source = f"step {way.source!r}"
    if way.source is None:
        return way.why
    match way.fate:
        case "missed" if way.guard is not None:
            return f"the guard of the arc from {source} to {way.step!r} did not hold ({way.guard.text})"
        case "not_run":
            return f"{source}, which leads to it, {way.why.removeprefix('it ')}"
        case "open" | "ended":
            return f"{source} {way.why.removeprefix('it ')}"
        case "success_only":
            return f"{source} failed, and the arc from it to {way.step!r} is for success only"
        case "taken" | "missed" | "passed_over" | "broken":
            return f"at the end of {source} {way.why}"
        case _:
            assert_never(way.fate)


def _furthest(stops: tuple[Way, ...]) -> str:
    if not stops:
        return ""
    if len(stops) == 1:
        return f", because {_clause(stops[0])}"
    places = listed(f"{way.source!r}" if way.source else "the entry" for way in stops)
    return f"; the ways to it ended at {places}"
