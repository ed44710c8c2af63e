"""The tab of waits: what waits and what helps, timers, slots, and what has come: answers to
approvals, signals, calls of addresses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, assert_never

from noetl.engine.awaited import Surroundings, find_awaited, place_of
from noetl.engine.state import State
from noetl.engine.wait_state import Timer
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.limits import WHOLE, region_of
from noetl.facts.timers import TimerPurpose
from noetl.ui.run.look import RunLook
from noetl.ui.run.waits import MOST, Signals, show_waits
from noetl.ui.values import ShownValue, show_value
from noetl.usecases import inspect, limits
from noetl.usecases.limits import KeyUse
from noetl.usecases.ports import EventFilter

#: Keys, holders of each, and things that came which one page shows.
_KEYS: Final = 20
_HOLDERS: Final = 20
_CAME: Final = 100
#: Characters of what came with a signal.
_LONGEST: Final = 4_000
_SIGNAL_TYPES: Final = (e.SignalReceived.type, e.CallbackReceived.type)
_FATES: Final = (e.SignalExpired.type, e.WaitMatched.type)


@dataclass(frozen=True, slots=True)
class ShownTimer:
    """An instant that something has, and what happens then."""

    where: str
    address: str
    about: str
    due_at: str | None


@dataclass(frozen=True, slots=True)
class ShownChild:
    """An execution that a step waits for."""

    where: str
    address: str
    execution_id: str
    path: str
    until: str | None


@dataclass(frozen=True, slots=True)
class ShownAnswer:
    """What somebody answered to an approval."""

    event: Event
    fact: e.ApprovalAnswered
    values: ShownValue | None

    @property
    def principal(self) -> str:
        caller = self.event.draft.caller
        return "somebody" if caller is None else caller.principal


@dataclass(frozen=True, slots=True)
class ShownSignal:
    """A signal that came, or a call of the address of a task; `fate` is what became of it, at the
    version `taken`."""

    event: Event
    name: str
    fate: str
    taken: int | None
    payload: ShownValue | None


@dataclass(frozen=True, slots=True)
class ShownKeys:
    """Slots that it waits for or has, by key, with those that are `asked` for."""

    keys: Sequence[KeyUse] = ()
    asked: frozenset[str] = field(default_factory=frozenset)


def count(look: RunLook) -> str:
    """How much waits now."""
    return str(len(look.report.waits) or "")


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/waiting.html` shows."""
    state = inspect.state_at(look.visitor.rt, look.execution_id, look.at)
    waits = look.report.waits if look.at is None else find_awaited(state, Surroundings({}))
    return {
        **show_waits(look, waits, _find_awaited_signals(state)),
        "children": list(_show_children(look, state)),
        "timers": _show_timers(look, state),
        "keys": _find_keys(look, state),
        "say_part": say_part,
        "answers": list(_find_answers(look)),
        "signals": list(_find_signals(look)),
    }


def _find_awaited_signals(state: State) -> Signals:
    return {
        (one.run_id, one.iteration): [each.signal.name for each in one.left if each.signal is not None]
        for one in state.waits.values()
    }


def _show_children(look: RunLook, state: State) -> Iterator[ShownChild]:
    for one in list(state.children.values())[:MOST]:
        if one.id is not None:
            where = look.to(tab=None, step=one.step, run=one.run_id, iteration=one.iteration)
            yield ShownChild(place_of(one.step, one.iteration), where, one.id, one.call.path, one.due_at)


# --- timers ---------------------------------------------------------------------------------------


def _show_timers(look: RunLook, state: State) -> list[ShownTimer]:
    """The first ones first."""
    found = [] if state.ended else sorted(state.timers.values(), key=lambda one: one.due_at or "")
    return [_show_timer(look, state, one) for one in found[:MOST]]


def _show_timer(look: RunLook, state: State, one: Timer) -> ShownTimer:
    about = _say_purpose(one.purpose, one.awaited)
    run = state.runs.get(one.run_id)
    if run is None:
        return ShownTimer("", "", about, one.due_at)
    address = look.to(tab=None, step=run.step, run=run.id, iteration=one.iteration)
    return ShownTimer(place_of(run.step, one.iteration), address, about, one.due_at)


def _say_purpose(purpose: TimerPurpose, awaited: str | None) -> str:
    match purpose:
        case "deadline":
            return "the step has to have ended"
        case "timeout":
            return "what it waits for has to have come"
        case "wait":
            return "this is what it waits for"
        case "expiry":
            return "nobody can answer its approval any more"
        case "reminder":
            return "its approval is brought up again"
        case "region":
            return f"region {awaited!r} has to have ended"
        case _:
            assert_never(purpose)


# --- slots ----------------------------------------------------------------------------------------


def _find_keys(look: RunLook, state: State) -> ShownKeys:
    """Who has the slots that it waits for, or has: that is known of now alone."""
    if look.at is not None or state.ended:
        return ShownKeys()
    names = dict.fromkeys(slot.key for one in state.holders.values() for slot in one.slots)
    asked = frozenset(slot.key for one in state.holders.values() if not one.granted for slot in one.slots)
    may_see = partial(look.visitor.principal.may, "read")
    first = sorted(names, key=lambda name: name not in asked)[:_KEYS]
    found = (limits.look(look.visitor.rt, name, _HOLDERS, may_see) for name in first)
    return ShownKeys([use for uses in found for use in uses], asked)


def say_part(run_id: str, part: str) -> str:
    """What of an execution has a slot: a run, an iteration or a lane of it, a region, all of it."""
    region = region_of(run_id) if run_id else None
    if region is not None:
        return f"region {region!r}"
    if not run_id:
        return "all of it"
    if part == WHOLE:
        return run_id
    return f"{run_id}[{part[1:]}]" if part.startswith("i") else f"a lane of {run_id}"


# --- what has come --------------------------------------------------------------------------------


def _read(look: RunLook, *types: str) -> list[Event]:
    where = EventFilter(types)
    return inspect.last_events(look.visitor.rt, look.execution_id, where, look.version, _CAME)


def _find_answers(look: RunLook) -> Iterator[ShownAnswer]:
    """Newest first."""
    for event in reversed(_read(look, e.ApprovalAnswered.type)):
        fact = event.fact
        assert isinstance(fact, e.ApprovalAnswered), "that was asked for"
        values = show_value(dict(fact.values), most=_LONGEST) if fact.values else None
        yield ShownAnswer(event, fact, values)


def _find_signals(look: RunLook) -> Iterator[ShownSignal]:
    """Newest first."""
    came = _read(look, *_SIGNAL_TYPES)
    fates = {number: event for event in _read(look, *_FATES) if came and (number := _of_signal(event))}
    for event in reversed(came):
        yield _show_signal(event, fates.get(event.version))


def _of_signal(event: Event) -> int | None:
    match event.fact:
        case e.SignalExpired(received=number) | e.WaitMatched(received=number):
            return number
        case _:
            return None


def _show_signal(event: Event, fate: Event | None) -> ShownSignal:
    match event.fact:
        case e.SignalReceived(signal=name, payload=payload):
            said = "nothing has taken it yet"
        case e.CallbackReceived(task=name, payload=payload):
            said = ""
        case _:
            raise AssertionError("that was asked for")
    shown = None if payload is None else show_value(payload, most=_LONGEST)
    if fate is None:
        return ShownSignal(event, name, said, None, shown)
    draft = fate.draft
    is_taken = isinstance(fate.fact, e.WaitMatched)
    taken = (
        f"taken by {place_of(draft.step, draft.iteration)}" if is_taken else "nothing waited for it in time"
    )
    return ShownSignal(event, name, taken, fate.version, shown)
