"""Waits without a worker: what tasks wait for, and which of it comes first.

A task that waits leaves its worker (`step.suspended` with the wait). The turn schedules its timers,
asks its conditions whenever ctx has changed, and holds signals against it. Of several things that
have come by the time of one turn the one with the earlier instant counts; of two at the same, the
one that stands first in the document. `wait.matched` has a key that is unique for the wait: nothing
else can end it any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final, assert_never

from noetl.engine.inputs import Inputs
from noetl.engine.loop_ends import time_out
from noetl.engine.names import step_names
from noetl.engine.plan import Plan
from noetl.engine.state import PendingWait, Run, Signal, State, Timer
from noetl.engine.suspensions import place_key, resume_place, wait_place
from noetl.engine.timers import (
    drop_timers_of,
    due_timers,
    find_late,
    fire_timer,
    schedule_again,
    schedule_timer,
)
from noetl.errors import TemplateError
from noetl.expressions import truth
from noetl.expressions.scope import layer_names
from noetl.facts import events as e
from noetl.facts.brief import brief
from noetl.facts.events import Draft
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import open_references
from noetl.facts.waits import Awaited, LaterGuard, SoughtSignal
from noetl.net.deferred import SIGNAL

#: Waits that a line names, and its characters.
_FEW: Final = 3
_LINE: Final = 240

# --- folding --------------------------------------------------------------------------------------


def begin_wait(
    state: State, run: Run, iteration: int | None, fact: e.StepSuspended | e.IterationSuspended
) -> State:
    """`run`, or one of its iterations, has left its worker until what it waits for has come."""
    assert fact.wait is not None, "it waits"
    number = run.issues.get("-" if iteration is None else f"i{iteration}", 0)
    wait = PendingWait(
        run.id, run.step, iteration, fact.task, fact.wait, number, state.version, until=fact.due_at
    )
    state = wait_place(state, run, iteration)
    return replace(state, waits={**state.waits, place_key(run.id, iteration): wait})


def fold_wait(
    state: State,
    fact: e.SignalReceived | e.SignalExpired | e.WaitMatched | e.WaitTimedOut,
    draft: Draft,
) -> State:
    match fact:
        case e.SignalReceived():
            signal = Signal(state.version, fact, draft.caller.principal if draft.caller else None)
            return replace(state, signals=(*state.signals, signal))
        case e.SignalExpired():
            return _take_signal(state, fact.received)
        case e.WaitMatched():
            return _match(_take_signal(state, fact.received), fact, draft)
        case e.WaitTimedOut():
            return _end(state, place_key(draft.run_id or "", draft.iteration))
        case _:
            assert_never(fact)


def _take_signal(state: State, received: int | None) -> State:
    if received is None:
        return state
    return replace(state, signals=tuple(one for one in state.signals if one.version != received))


def _match(state: State, fact: e.WaitMatched, draft: Draft) -> State:
    key = place_key(draft.run_id or "", draft.iteration)
    wait = state.waits.get(key)
    if wait is None:
        return state
    if fact.ends:
        return _end(state, key)
    wait = replace(wait, matched={**wait.matched, fact.name: fact.result})
    return replace(state, waits={**state.waits, key: wait})


def _end(state: State, key: str) -> State:
    wait = state.waits.get(key)
    if wait is None:
        return state
    left = {name: other for name, other in state.waits.items() if name != key}
    state = drop_timers_of(replace(state, waits=left), wait.run_id, wait.iteration)
    return resume_place(state, wait.run_id, wait.iteration)


def drop_waits(state: State, run_id: str) -> State:
    """The run waits for nothing any more."""
    if not state.waits:
        return state
    return replace(state, waits={key: one for key, one in state.waits.items() if one.run_id != run_id})


def drop_wait(state: State, run_id: str, iteration: int) -> State:
    """That iteration waits for nothing any more."""
    gone = place_key(run_id, iteration)
    if gone not in state.waits:
        return state
    left = {key: one for key, one in state.waits.items() if key != gone}
    return drop_timers_of(replace(state, waits=left), run_id, iteration)


# --- looking --------------------------------------------------------------------------------------


def next_expiry(state: State) -> datetime | None:
    """When the first of the signals that nothing took expires."""
    ends = (one.fact.expires_at for one in state.signals if one.fact.expires_at)
    return min(map(datetime.fromisoformat, ends), default=None)


def correlated_waits(state: State) -> frozenset[tuple[str, str, str]]:
    """Place, name and value of each signal about a value that is waited for."""
    return frozenset(
        (key, one.signal.name, one.signal.correlate)
        for key, wait in state.waits.items()
        for one in wait.left
        if one.signal is not None and one.signal.correlate is not None
    )


def describe_waits(state: State) -> list[JsonMap]:
    """`{step, run_id, iteration, task, mode, since, until, for: [{name, text, due_at}]}` of each
    task that waits, in the order in which they began."""
    return [_describe(state, wait) for wait in state.waits.values()]


def _describe(state: State, wait: PendingWait) -> JsonMap:
    own = _own_timers(state, wait)
    timers = {one.awaited: one.due_at for one in own if one.purpose == "wait"}
    return {
        "step": wait.step,
        "run_id": wait.run_id,
        "iteration": wait.iteration,
        "task": wait.task,
        "mode": wait.wait.mode,
        "since": wait.wait.since,
        "until": next((one.due_at for one in own if one.purpose == "timeout"), wait.until),
        "for": [
            {"name": one.name, "text": one.describe(timers.get(one.name)), "due_at": timers.get(one.name)}
            for one in wait.left
        ],
    }


def _own_timers(state: State, wait: PendingWait) -> list[Timer]:
    place = (wait.run_id, wait.iteration)
    return [one for one in state.timers.values() if (one.run_id, one.iteration) == place]


def waiting_for(state: State) -> str | None:
    """The same in a line, of the first few; None where nothing waits."""
    texts = [
        (" and " if wait["mode"] == "all" else " or ").join(one["text"] for one in wait["for"])
        for wait in describe_waits(state)
    ]
    open_loops = (run.step for run in state.runs.values() if run.loop is not None and run.loop.only_open)
    texts += [f"the loop of step '{step}' to close" for step in open_loops]
    if not texts:
        return None
    shown = list(dict.fromkeys(texts))[:_FEW]
    return brief("; ".join(shown) + (f"; {len(texts)} waits" if len(texts) > len(shown) else ""), _LINE)


# --- deciding -------------------------------------------------------------------------------------


def tend_waits(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """Schedules the timers that are missing; else all that has come by now, in the order of the
    instants: each wait ends once, and each signal is taken once."""
    missing = [*schedule_again(state, inputs), *_schedule_waits(state, inputs)]
    if missing:
        return missing
    drafts: list[Draft] = []
    over: set[str | int] = set()
    for come in sorted(_find_come(plan, state, inputs), key=lambda one: one.order):
        if over.isdisjoint(come.needs):
            drafts += come.drafts
            over |= come.ends
    return drafts


def _schedule_waits(state: State, inputs: Inputs) -> list[Draft]:
    """The timers of waits that have just begun."""
    timers = (timer for key, wait in state.waits.items() for timer in _timers_of(key, wait, inputs))
    return [
        schedule_timer(timer, state.runs[timer.run_id].step, inputs)
        for timer in timers
        if timer.id not in state.timers
    ]


def _timers_of(key: str, wait: PendingWait, inputs: Inputs) -> Iterator[Timer]:
    place, name = (wait.run_id, wait.iteration), f"{key}/{wait.number}"
    if wait.until is not None:
        left = datetime.fromisoformat(wait.until) - inputs.now
        yield Timer(f"timeout:{name}", "timeout", *place, max(left.total_seconds(), 0.0), wait.until)
    for one in wait.left:
        if one.is_time:
            due = _due_at(one, wait.wait.since)
            yield Timer(f"wait:{name}/{one.name}", "wait", *place, one.seconds, due, one.name)


def _due_at(one: Awaited, since: str | None) -> str | None:
    """When that comes which is waited for since then."""
    if one.until is not None or since is None or one.seconds is None:
        return one.until
    return (datetime.fromisoformat(since) + timedelta(seconds=one.seconds)).isoformat()


@dataclass(frozen=True, slots=True)
class _Come:
    """Something that has come, and what follows. `order` is when, and which of several at that
    instant comes first. It counts where none of what it `needs` (a run, a wait, a signal by its
    version) is over, and ends some of that."""

    order: tuple[datetime, int, int]
    drafts: list[Draft]
    needs: frozenset[str | int]
    ends: frozenset[str | int]


def _find_come(plan: Plan, state: State, inputs: Inputs) -> Iterator[_Come]:
    for timer in due_timers(state, inputs.now):
        yield _fired(plan, state, timer)
    for key, wait in state.waits.items():
        names = _Names(plan, state, inputs, wait)
        for place, one in enumerate(wait.left):
            yield from _find(names, key, one, place)
    for signal in state.signals:
        if _is_over(signal, inputs.now):
            fact, own = e.SignalExpired(signal.fact.signal, signal.version), frozenset({signal.version})
            draft = Draft(fact, dedup_key=f"expired:{signal.version}")
            at = datetime.fromisoformat(signal.fact.expires_at or "")
            yield _Come((at, signal.version, 0), [draft], own, own)


def _fired(plan: Plan, state: State, timer: Timer) -> _Come:
    run, key = state.runs[timer.run_id], place_key(timer.run_id, timer.iteration)
    at = datetime.fromisoformat(timer.due_at or "")
    fired = fire_timer(timer, run.step)
    match timer.purpose:
        case "deadline":
            own = frozenset({run.id})
            ended = time_out(plan.step(run.step), run, find_late(run, timer))
            return _Come((at, 0, 0), [fired, *ended], own, own)
        case "timeout":
            wait = state.waits[key]
            # What comes at the same instant is in time.
            order = (at, wait.version, len(wait.left))
            return _Come(order, [fired, _time_out(wait, key)], frozenset({run.id, key}), frozenset({key}))
        case "wait":
            wait = state.waits[key]
            place, one = next((at, one) for at, one in enumerate(wait.left) if one.name == timer.awaited)
            ended = [fired, _matched(wait, key, one, {"at": timer.due_at})]
            return _Come((at, wait.version, place), ended, frozenset({run.id, key}), frozenset({key}))
        case _:
            assert_never(timer.purpose)


@dataclass(frozen=True, slots=True)
class _Names:
    """What guards of a wait see."""

    plan: Plan
    state: State
    inputs: Inputs
    wait: PendingWait

    def holds(self, guard: LaterGuard, signal: JsonMap | None = None) -> bool:
        """Raises TemplateError."""
        run = self.state.runs[self.wait.run_id]
        around = step_names(self.state, self.inputs, self.plan.step(self.wait.step), run.args)
        own = guard.names if signal is None else {**guard.names, SIGNAL: signal}
        return truth(guard.when, layer_names(own, around), load=self.inputs.load)


def _find(names: _Names, key: str, one: Awaited, place: int) -> Iterator[_Come]:
    """That it has come; a guard that cannot be asked ends the wait. Times come by their timers."""
    wait, now = names.wait, names.inputs.now
    needs = frozenset({wait.run_id, key})
    try:
        if one.condition is not None and names.holds(one.condition):
            ended = [_matched(wait, key, one, {})]
            yield _Come((now, wait.version, place), ended, needs, frozenset({key}))
        elif one.signal is not None:
            for signal in names.state.signals:
                if _fits(names, one.signal, signal):
                    yield _taken(wait, key, one, signal, place)
    except TemplateError as error:
        info = ErrorInfo("template", f"What task '{wait.task}' waits for: {error.message}")
        ended = [_draft(wait, e.WaitTimedOut(wait.task, info), f"wait:{key}/{wait.number}")]
        yield _Come((now, wait.version, place), ended, needs, frozenset({key}))


def _taken(wait: PendingWait, key: str, one: Awaited, signal: Signal, place: int) -> _Come:
    at = datetime.fromisoformat(signal.fact.at)
    drafts = [_matched(wait, key, one, _shown(signal), signal.version)]
    ends: set[str | int] = {key} if signal.fact.everyone else {key, signal.version}
    return _Come(
        (at, wait.version, place),
        drafts,
        frozenset({wait.run_id, key, signal.version}),
        frozenset(ends),
    )


def _fits(names: _Names, sought: SoughtSignal, signal: Signal) -> bool:
    """Raises TemplateError."""
    if signal.fact.signal != sought.name or _is_over(signal, names.inputs.now):
        return False
    payload = signal.fact.payload
    if sought.match and names.inputs.load is not None:
        payload = open_references(payload, names.inputs.load)
    if any(_at(payload, name) != value for name, value in sought.match.items()):
        return False
    return sought.guard is None or names.holds(sought.guard, _shown(signal))


def _is_over(signal: Signal, now: datetime) -> bool:
    expires = signal.fact.expires_at
    return expires is not None and datetime.fromisoformat(expires) <= now


def _at(value: Json, path: str) -> Json:
    for key in path.split("."):
        value = value.get(key) if isinstance(value, Mapping) else None
    return value


def _shown(signal: Signal) -> JsonMap:
    fact = signal.fact
    return {
        "signal": fact.signal,
        "payload": fact.payload,
        "by": signal.principal,
        "at": fact.at,
        "id": fact.id,
    }


def _matched(wait: PendingWait, key: str, one: Awaited, came: JsonMap, received: int | None = None) -> Draft:
    """`wait.matched`: of `any` the end of the wait, of `all` only where nothing else is left."""
    own = {"name": one.name, **came} if wait.wait.named else dict(came)
    if wait.wait.mode == "any":
        fact = e.WaitMatched(wait.task, one.name, own, True, received)
        return _draft(wait, fact, f"wait:{key}/{wait.number}")
    matched, ends = {**wait.matched, one.name: own}, len(wait.left) == 1
    result = {"results": {each.name: matched[each.name] for each in wait.wait.awaited}} if ends else own
    fact = e.WaitMatched(wait.task, one.name, result, ends, received)
    return _draft(wait, fact, f"wait:{key}/{wait.number}/{one.name}")


def _time_out(wait: PendingWait, key: str) -> Draft:
    message = f"What task '{wait.task}' waits for did not come within its timeout."
    error = ErrorInfo("timeout", message, type="WaitTimeout", retryable=True)
    return _draft(wait, e.WaitTimedOut(wait.task, error), f"wait:{key}/{wait.number}")


def _draft(wait: PendingWait, fact: e.WaitMatched | e.WaitTimedOut, key: str) -> Draft:
    return Draft(fact, step=wait.step, run_id=wait.run_id, iteration=wait.iteration, dedup_key=key)
