"""Waits without a worker: what tasks wait for, and which of it comes first.

A task that waits leaves its worker (`step.suspended` with the wait). The turn schedules its timers,
asks its conditions whenever ctx has changed, and holds signals against it. Of several things that
have come by the time of one turn the one with the earlier instant counts; of two at the same, the
one that stands first in the document. `wait.matched` has a key that is unique for the wait: nothing
else can end it any more.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from itertools import islice
from typing import Final, assert_never

from noetl.engine.approvals import describe_approval, drop_answers, find_verdict, fold_answer
from noetl.engine.callbacks import drop_callbacks, fold_callback
from noetl.engine.changes import replace
from noetl.engine.endings import find_endings, only_ends
from noetl.engine.inputs import Inputs
from noetl.engine.occurrences import find_occurrences
from noetl.engine.plan import Plan
from noetl.engine.run_state import Run
from noetl.engine.slots import describe_slots
from noetl.engine.state import State
from noetl.engine.suspensions import place_key, resume_place, wait_place
from noetl.engine.timers import (
    drop_timers_of,
    schedule_again,
    schedule_timer,
)
from noetl.engine.wait_state import PendingWait, Signal, Timer
from noetl.facts import events as e
from noetl.facts.approvals import SoughtApproval
from noetl.facts.brief import brief
from noetl.facts.events import Draft
from noetl.facts.json import JsonMap
from noetl.facts.waits import Awaited

#: Waits that a line names, and its characters.
_FEW: Final = 3
#: Of so many that wait it is looked whether they wait for something else.
_LOOKED_AT: Final = 50
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


def fold_wait(state: State, fact: e.WaitFact, draft: Draft) -> State:
    match fact:
        case e.SignalReceived():
            signal = Signal(state.version, fact, draft.caller.principal if draft.caller else None)
            return replace(state, signals=(*state.signals, signal))
        case e.SignalExpired():
            return _take_signal(state, fact.received)
        case e.WaitMatched():
            return _match(_take_signal(state, fact.received), fact, draft)
        case e.ApprovalAnswered():
            return fold_answer(state, fact, draft)
        case e.CallbackReceived():
            return fold_callback(state, fact, draft)
        case e.WaitFailed():
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
    state = drop_timers_of(_drop(state, key), wait.run_id, wait.iteration)
    return resume_place(state, wait.run_id, wait.iteration)


def drop_waits(state: State, run_id: str) -> State:
    """The run waits for nothing any more."""
    state = drop_callbacks(state, run_id)
    for key in [key for key, one in state.waits.items() if one.run_id == run_id]:
        state = _drop(state, key)
    return state


def _drop(state: State, key: str) -> State:
    left = {other: one for other, one in state.waits.items() if other != key}
    return drop_answers(replace(state, waits=left), state.waits[key])


def drop_wait(state: State, run_id: str, iteration: int) -> State:
    """That iteration waits for nothing any more."""
    gone = place_key(run_id, iteration)
    if gone not in state.waits:
        return state
    return drop_timers_of(_drop(state, gone), run_id, iteration)


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


def hears_about(state: State, name: str, value: str, seen: int) -> bool:
    """Whether something waits for one more signal about the value than have come since the version
    `seen`, up to which turns have been taken."""
    if state.cancelling and not state.closing:
        return False
    waits = [place for place, *about in correlated_waits(state) if about == [name, value]]
    come = [one.fact for one in state.signals if one.version > seen]
    come = [fact for fact in come if (fact.signal, fact.about) == (name, value)]
    left = sum(not _is_unwanted(state, state.waits[place]) for place in waits)
    return left > len(come) and not any(fact.everyone for fact in come)


def _is_unwanted(state: State, wait: PendingWait) -> bool:
    """Whether the next turn ends what waits, because somebody asked for that."""
    run = state.runs[wait.run_id]
    return run.unwanted is not None or (run.loop is not None and wait.iteration in run.loop.unwanted)


def describe_waits(state: State, most: int | None = None) -> list[JsonMap]:
    """What `awaited.find_awaited` has of each task that waits, in the order in which they began; of
    the first ones, where there are more than `most`."""
    timers: dict[tuple[str, int | None], list[Timer]] = {}
    for one in state.timers.values():
        timers.setdefault((one.run_id, one.iteration), []).append(one)
    return [
        _describe(state, wait, timers.get((wait.run_id, wait.iteration), ()))
        for wait in islice(state.waits.values(), most)
    ]


def _describe(state: State, wait: PendingWait, own: Sequence[Timer]) -> JsonMap:
    timers = {one.awaited: one.due_at for one in own if one.purpose in ("wait", "expiry")}
    return {
        "kind": "task",
        "step": wait.step,
        "region": None,
        "run_id": wait.run_id,
        "iteration": wait.iteration,
        "task": wait.task,
        "mode": wait.wait.mode,
        "since": wait.wait.since,
        "until": next((one.due_at for one in own if one.purpose == "timeout"), wait.until),
        "for": [_describe_one(state, wait, one, timers.get(one.name)) for one in wait.left],
    }


def _describe_one(state: State, wait: PendingWait, one: Awaited, due_at: str | None) -> JsonMap:
    text = one.describe(due_at)
    if one.approval is None:
        return {"name": one.name, "text": text, "due_at": due_at}
    if find_verdict(state, wait, one) is not None:
        text = f"a scheduler, which has not read the answers to its {text} yet"
        return {"name": one.name, "text": text, "due_at": None}
    approval = describe_approval(state, wait, one)
    return {"name": one.name, "text": text, "due_at": due_at, "approval": approval}


def join_awaited(wait: JsonMap) -> str:
    """What one of those that wait waits for, in a clause: `signal 'paid' or 2 h`."""
    return (" and " if wait["mode"] == "all" else " or ").join(one["text"] for one in wait["for"])


def waiting_for(state: State) -> str | None:
    """What the execution waits for in a line, of the first few; None where nothing waits."""
    texts = [one.text for one in find_endings(state)] if only_ends(state) else []
    texts += [join_awaited(wait) for wait in describe_waits(state, _LOOKED_AT)] + describe_slots(state)
    open_loops = (run.step for run in state.runs.values() if run.loop is not None and run.loop.only_open)
    texts += [f"the loop of step '{step}' to close" for step in open_loops]
    if not texts:
        return None
    shown = list(dict.fromkeys(texts))[:_FEW]
    count = len(texts) + max(len(state.waits) - _LOOKED_AT, 0)
    return brief("; ".join(shown) + (f"; {count} waits" if count > len(shown) else ""), _LINE)


# --- deciding -------------------------------------------------------------------------------------


def tend_waits(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """Schedules the timers that are missing; else all that has come by now, in the order of the
    instants: each wait ends once, and each signal is taken once."""
    missing = [*schedule_again(state, inputs), *_schedule_waits(state, inputs)]
    if missing:
        return missing
    drafts: list[Draft] = []
    over: set[str | int] = set()
    for come in sorted(find_occurrences(plan, state, inputs), key=lambda one: one.order):
        if over.isdisjoint(come.needs):
            drafts += come.drafts
            over |= come.ends
    return drafts


def _schedule_waits(state: State, inputs: Inputs) -> list[Draft]:
    """The timers of waits that have just begun."""
    return [
        schedule_timer(timer, wait.step, inputs)
        for key, wait in state.waits.items()
        for timer in _missing_timers(state, key, wait, inputs.now)
    ]


def _missing_timers(state: State, key: str, wait: PendingWait, now: datetime) -> Iterator[Timer]:
    """Those of a wait that are not there. Thousands may wait that have theirs: nothing is made
    before it is missed."""
    place, name = (wait.run_id, wait.iteration), f"{key}/{wait.number}"
    if wait.until is not None and (own := f"timeout:{name}") not in state.timers:
        left = datetime.fromisoformat(wait.until) - now
        yield Timer(own, "timeout", *place, max(left.total_seconds(), 0.0), wait.until)
    for one in wait.left:
        if one.is_time and (own := f"wait:{name}/{one.name}") not in state.timers:
            due = _due_at(one, wait.wait.since)
            yield Timer(own, "wait", *place, one.seconds, due, one.name)
        if one.approval is not None:
            timers = _timers_of_approval(name, wait, one.name, one.approval)
            yield from (timer for timer in timers if timer.id not in state.timers)


def _timers_of_approval(name: str, wait: PendingWait, own: str, asked: SoughtApproval) -> Iterator[Timer]:
    place = (wait.run_id, wait.iteration)
    if asked.expires_s is not None:
        due = _after(wait.wait.since, asked.expires_s)
        yield Timer(f"expiry:{name}/{own}", "expiry", *place, asked.expires_s, due, own)
    if asked.remind_s is not None:
        number = wait.reminded.get(own, 0) + 1
        yield Timer(f"reminder:{name}/{own}/{number}", "reminder", *place, asked.remind_s, None, own)


def _due_at(one: Awaited, since: str | None) -> str | None:
    """When that comes which is waited for since then."""
    return one.until if one.until is not None or one.seconds is None else _after(since, one.seconds)


def _after(since: str | None, seconds: float) -> str | None:
    return None if since is None else (datetime.fromisoformat(since) + timedelta(seconds=seconds)).isoformat()
