"""What a plan says of a run for certain, held against what the run did."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.json import Json
from noetl.forecast.foresee import Given, foresee
from noetl.forecast.model import Forecast, Rendered, StepAhead
from noetl.forecast.tasks import Kinds
from noetl.net.model import Net
from noetl.tools.registry import kinds, touches


def contradictions(net: Net, payload: Json, overrides: Json, events: Sequence[Event]) -> Iterator[str]:
    """Every fact of `events` that the plan of `net` had ruled out."""
    plan = foresee(net, Given(Kinds(kinds(), touches), payload, overrides))
    steps = {step.name: step for step in plan.steps}
    for event in events:
        yield from _of_all(plan, event)
        name = event.draft.step
        if name is None:
            continue
        if name not in steps:
            yield f"{event.fact.type} of {name}, which is never reached"
        else:
            yield from (f"{event.fact.type} of {name}: {told}" for told in _of_step(steps[name], event))


def _of_all(plan: Forecast, event: Event) -> Iterator[str]:
    if isinstance(event.fact, e.Evaluated):
        for key, value in plan.workload.items():
            yield from _differs(key, value, event.fact.workload.get(key))


def _of_step(step: StepAhead, event: Event) -> Iterator[str]:
    match event.fact:
        case e.StepScheduled(args=args):
            for key, value in step.args.items():
                yield from _differs(key, value, args.get(key))
        case e.LoopStarted(count=count, max_in_flight=width) if step.loop is not None:
            if step.loop.count not in (None, count):
                yield f"{count} items, not {step.loop.count}"
            yield from _differs("max_in_flight", step.loop.width, width)
        case e.NextEvaluated(failure=None, boundary=boundary, arcs=asked):
            chosen = {arc.step for arc in asked if arc.chosen}
            maybe = {arc.step for arc in step.arcs if arc.taken is not False}
            certain = {arc.step for arc in step.arcs if arc.taken} if boundary != "step.failed" else set()
            if not certain <= chosen <= maybe:
                yield f"arcs to {chosen}, not to {certain} or at most {maybe}"


def _differs(name: str, value: Rendered, found: Json) -> Iterator[str]:
    """Placeholders stand for anything, and what is kept by reference is not looked into."""
    is_told = value.known and "<" not in json.dumps(value.value) and '"ref"' not in json.dumps(found)
    if is_told and value.value != found:
        yield f"{name} is {found!r}, not {value.value!r}"
