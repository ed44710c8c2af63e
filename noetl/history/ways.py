"""What became of the arcs: those that lead to a step, those that a run asked when it ended, and
those further up at which the way to a step ended."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from noetl.facts import events as e
from noetl.facts.brief import brief
from noetl.facts.event_names import FAILED
from noetl.facts.events import Event
from noetl.history.accounts import Asked, Fate, Way
from noetl.history.evidence import Arrival, Evidence, asked, listed
from noetl.history.waits import waits_of
from noetl.net.model import ENTRY, Arc

#: How many ways are shown of those at which the way to a step ended.
_STOPS: Final = 6
_SHOWN: Final = 200


def ways_to(here: Evidence, step: str) -> tuple[Way, ...]:
    """The arcs that lead to `step`, in the order of the document, the entry's first."""
    net = here.plan.net
    return tuple(
        _entry(here) if place == ENTRY else _way(here, net.arcs[place]) for place in net.incoming[step]
    )


def ways_from(here: Evidence, routed: Event) -> tuple[Way, ...]:
    """The arcs of the run that `routed` tells of."""
    step = here.plan.step(routed.draft.step or "")
    return tuple(_asked_way(routed, arc) for arc in step.ways)


def way_of(here: Evidence, token: str) -> Way:
    """The arc that put `token` down."""
    arrival = here.arrivals[token]
    if arrival.token.arc == ENTRY:
        return _entry(here)
    arc = here.plan.net.arcs.get(arrival.token.arc)
    return _asked_way(arrival.event, arc) if arc is not None else _unknown_way(arrival)


def _unknown_way(arrival: Arrival) -> Way:
    """An arc that the net does not have: the token is from a run of another one."""
    token, event = arrival.token, arrival.event
    return Way(
        token.arc,
        event.draft.step,
        token.step,
        "taken",
        "was taken in another version of the playbook",
        asked=1,
        taken=1,
        run=event.draft.run_id,
        version=event.version,
    )


def find_stops(ways: Mapping[str, tuple[Way, ...]]) -> Mapping[str, list[Way]]:
    """For steps that did not run because those before them did not: the arcs further up at which
    the way to them ended, nearest first. `ways` are those to each step."""
    every = [way for of_step in ways.values() for way in of_step]
    onward, found = defaultdict[str, list[str]](list), defaultdict[str, list[Way]](list)
    for way in every:
        if way.fate == "not_run" and way.source is not None:
            onward[way.source].append(way.step)
    # All ends at once go down the net step by step, so that the nearest ones come first.
    todo = deque((way.step, way) for way in every if way.fate != "not_run")
    while todo:
        name, way = todo.popleft()
        for step in onward.get(name, ()):
            if step != way.step and way not in found[step] and len(found[step]) < _STOPS:
                found[step].append(way)
                todo.append((step, way))
    return found


def _entry(here: Evidence) -> Way:
    state, entry = here.state, here.plan.net.entry
    if state.started:
        return Way(ENTRY, None, entry, "taken", "the execution begins here", asked=1, taken=1)
    if state.accepted is False:
        return Way(ENTRY, None, entry, "broken", "the request was refused before the first step")
    return Way(ENTRY, None, entry, "open", "the execution has not begun")


def _way(here: Evidence, arc: Arc) -> Way:
    """An arc, over all runs of its source."""
    routed = here.routed(arc.source)
    if not routed:
        return _unasked(here, arc)
    last = _asked_way(routed[-1], arc)
    facts = [event.fact for event in routed if isinstance(event.fact, e.NextEvaluated)]
    return replace(
        last,
        asked=sum(any(one.arc == arc.id for one in fact.arcs) for fact in facts),
        taken=sum(any(one.arc == arc.id for one in fact.tokens) for fact in facts),
    )


def _asked_way(routed: Event, arc: Arc) -> Way:
    """An arc at the end of one run."""
    fact = routed.fact
    assert isinstance(fact, e.NextEvaluated), "runs end with it"
    decision = next((one for one in fact.arcs if one.arc == arc.id), None)
    fate, why = _fate(fact, arc, decision)
    return Way(
        arc.id,
        arc.source,
        arc.step,
        fate,
        why,
        guard=_guard(decision),
        asked=int(decision is not None),
        taken=int(fate == "taken"),
        run=routed.draft.run_id,
        version=routed.version,
        line=arc.line or None,
    )


def _guard(decision: e.ArcDecision | None) -> Asked | None:
    if decision is None or decision.when is None:
        return None
    return asked(decision.when, decision.names, "held" if decision.value else "did not hold")


def _fate(fact: e.NextEvaluated, arc: Arc, decision: e.ArcDecision | None) -> tuple[Fate, str]:
    token = next((one for one in fact.tokens if one.arc == arc.id), None)
    if token is not None:
        return "taken", "came after its join had fired" if token.absorbed else "was taken"
    if decision is not None and not decision.value:
        return "missed", "its guard did not hold"
    if fact.boundary == FAILED[0] and not arc.boundary:
        return "success_only", "the step failed, and this arc is for success only"
    if fact.tokens:
        others = listed(one.step for one in fact.tokens)
        return "passed_over", f"the router took the way to {others} in its place"
    if fact.terminates is not None:
        return "ended", "it ended the execution, and its arcs were not followed"
    if fact.failure is not None:
        return "broken", f"the arcs could not be followed: {brief(fact.failure.message, _SHOWN).rstrip('.')}"
    return "ended", "it is the final step, whose arcs are not followed"


def _unasked(here: Evidence, arc: Arc) -> Way:
    """An arc whose source was never routed."""
    fate, why = _of_source(here, arc.source)
    return Way(arc.id, arc.source, arc.step, fate, why, line=arc.line or None)


def _of_source(here: Evidence, source: str) -> tuple[Fate, str]:
    waits = next(waits_of(here, source), None)
    if waits is not None:
        return "open", f"it {'waits' if waits.run is None else 'has not ended'}: {waits.text}"
    for event in reversed(here.of_step.get(source, [])):
        if (why := _why_unrouted(event.fact)) is not None:
            return "ended", why
    if any(run.step == source for run in here.state.runs.values()):
        return "open", "it has ended, and the scheduler's next turn asks its arcs"
    if here.tokens_before(source):
        return "ended", "it had a token before it when the execution ended"
    return "not_run", "it did not run" if here.state.ended else "it has not run"


def _why_unrouted(fact: e.Fact) -> str | None:
    match fact:
        case e.StepCancelled(reason=reason):
            return f"it was cancelled: {reason}"
        case e.StepSkipped(reason=reason):
            return f"it was skipped: {reason}"
        case e.JoinUnsatisfied(error=error):
            return f"it could not fill its join: {brief(error.message, _SHOWN).rstrip('.')}"
        case e.StepScheduled():
            return "it had not ended when the execution did"
        case _:
            return None
