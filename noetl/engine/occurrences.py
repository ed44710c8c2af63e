"""What has come of what tasks wait for, by the time of one turn, and what follows from each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import assert_never

from noetl.engine.approvals import expire, find_verdict
from noetl.engine.callbacks import find_call
from noetl.engine.inputs import Inputs
from noetl.engine.loop_ends import time_out
from noetl.engine.names import step_names
from noetl.engine.plan import Plan
from noetl.engine.regions import overdue
from noetl.engine.state import State
from noetl.engine.suspensions import place_key
from noetl.engine.timers import due_timers, find_late, fire_timer, step_of
from noetl.engine.wait_state import PendingWait, Signal, Timer
from noetl.errors import TemplateError
from noetl.expressions import truth
from noetl.expressions.scope import layer_names
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import open_references
from noetl.facts.waits import Awaited, LaterGuard, SoughtSignal
from noetl.net.deferred import SIGNAL


@dataclass(frozen=True, slots=True)
class Occurrence:
    """Something that has come, and what follows. `order` is when, and which of several at that
    instant comes first. It counts where none of what it `needs` (a run, a wait, a signal by its
    version) is over, and ends some of that."""

    order: tuple[datetime, int, int]
    drafts: list[Draft]
    needs: frozenset[str | int]
    ends: frozenset[str | int]


def find_occurrences(plan: Plan, state: State, inputs: Inputs) -> Iterator[Occurrence]:
    """All that has come by now, in no order."""
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
            yield Occurrence((at, signal.version, 0), [draft], own, own)


def _fired(plan: Plan, state: State, timer: Timer) -> Occurrence:
    key = place_key(timer.run_id, timer.iteration)
    at = datetime.fromisoformat(timer.due_at or "")
    fired = fire_timer(timer, step_of(state, timer))
    match timer.purpose:
        case "region":
            return Occurrence((at, 0, 0), [fired, *overdue(plan, state, timer)], frozenset(), frozenset())
        case "deadline":
            run, own = state.runs[timer.run_id], frozenset({timer.run_id})
            ended = time_out(plan.step(run.step), run, find_late(run, timer))
            return Occurrence((at, 0, 0), [fired, *ended], own, own)
        case "timeout" | "expiry":
            wait = state.waits[key]
            over = _time_out(wait) if timer.purpose == "timeout" else expire(wait, timer)
            # What comes at the same instant is in time.
            order = (at, wait.version, len(wait.left))
            ended = [fired, _end(wait, key, over)]
            return Occurrence(order, ended, frozenset({timer.run_id, key}), frozenset({key}))
        case "reminder":
            return Occurrence(
                (at, state.waits[key].version, 0), [fired], frozenset({timer.run_id, key}), frozenset()
            )
        case "wait":
            wait = state.waits[key]
            place, one = next((at, one) for at, one in enumerate(wait.left) if one.name == timer.awaited)
            ended = [fired, _matched(wait, key, one, {"at": timer.due_at})]
            needs = frozenset({timer.run_id, key})
            return Occurrence((at, wait.version, place), ended, needs, frozenset({key}))
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


def _find(names: _Names, key: str, one: Awaited, place: int) -> Iterator[Occurrence]:
    """That it has come; a guard that cannot be asked ends the wait. Times come by their timers."""
    wait, now = names.wait, names.inputs.now
    needs = frozenset({wait.run_id, key})
    try:
        if one.condition is not None and names.holds(one.condition):
            ended = [_matched(wait, key, one, {})]
            yield Occurrence((now, wait.version, place), ended, needs, frozenset({key}))
        elif one.signal is not None:
            for signal in names.state.signals:
                if _fits(names, one.signal, signal):
                    yield _taken(wait, key, one, signal, place)
        elif one.approval is not None:
            yield from _find_answered(names.state, wait, key, one, place)
        elif one.callback:
            yield from _find_called(names.state, wait, key, one, place)
    except TemplateError as error:
        info = ErrorInfo("template", f"What task '{wait.task}' waits for: {error.message}")
        ended = [_end(wait, key, e.WaitFailed(wait.task, info))]
        yield Occurrence((now, wait.version, place), ended, needs, frozenset({key}))


def _find_answered(
    state: State, wait: PendingWait, key: str, one: Awaited, place: int
) -> Iterator[Occurrence]:
    """That enough people have approved, or one has rejected it."""
    verdict = find_verdict(state, wait, one)
    if verdict is None:
        return
    come = verdict.come
    ended = _end(wait, key, come) if isinstance(come, e.WaitFailed) else _matched(wait, key, one, come)
    at = datetime.fromisoformat(verdict.at)
    yield Occurrence((at, wait.version, place), [ended], frozenset({wait.run_id, key}), frozenset({key}))


def _find_called(state: State, wait: PendingWait, key: str, one: Awaited, place: int) -> Iterator[Occurrence]:
    """That somebody has called its address."""
    call = find_call(state, wait)
    if call is not None:
        at = datetime.fromisoformat(call.at)
        ended = [_matched(wait, key, one, {"payload": call.payload, "at": call.at})]
        yield Occurrence((at, wait.version, place), ended, frozenset({wait.run_id, key}), frozenset({key}))


def _taken(wait: PendingWait, key: str, one: Awaited, signal: Signal, place: int) -> Occurrence:
    at = datetime.fromisoformat(signal.fact.at)
    drafts = [_matched(wait, key, one, _shown(signal), signal.version)]
    ends: set[str | int] = {key} if signal.fact.everyone else {key, signal.version}
    return Occurrence(
        (at, wait.version, place),
        drafts,
        frozenset({wait.run_id, key, signal.version}),
        frozenset(ends),
    )


def _fits(names: _Names, sought: SoughtSignal, signal: Signal) -> bool:
    """Raises TemplateError."""
    if signal.fact.signal != sought.name or _is_over(signal, names.inputs.now):
        return False
    if signal.fact.about not in (None, sought.correlate):
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


def _time_out(wait: PendingWait) -> e.WaitTimedOut:
    message = f"What task '{wait.task}' waits for did not come within its timeout."
    return e.WaitTimedOut(wait.task, ErrorInfo("timeout", message, type="WaitTimeout", retryable=True))


def _end(wait: PendingWait, key: str, fact: e.WaitFailed) -> Draft:
    return _draft(wait, fact, f"wait:{key}/{wait.number}")


def _draft(wait: PendingWait, fact: e.WaitMatched | e.WaitFailed, key: str) -> Draft:
    return Draft(fact, step=wait.step, run_id=wait.run_id, iteration=wait.iteration, dedup_key=key)
