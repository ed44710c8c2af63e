"""What a plan says of a run for certain, held against what the run did."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence

from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.json import Json
from noetl.facts.tasks import TaskLoopStarted
from noetl.forecast.foresee import PlanInput, foresee
from noetl.forecast.model import ArcForecast, Forecast, Rendered, StepForecast
from noetl.forecast.shape import as_json
from noetl.forecast.tasks import Kinds
from noetl.net.model import Net
from noetl.tools.code.quoting import CommandLine
from noetl.tools.kit.registry import kinds, touches


def contradictions(net: Net, payload: Json, overrides: Json, events: Sequence[Event]) -> Iterator[str]:
    """Every fact of `events` that the plan of `net` had ruled out."""
    plan = foresee(net, PlanInput(Kinds(kinds(), touches, CommandLine), payload, overrides))
    json.dumps(as_json(plan), allow_nan=False)
    steps = {step.name: step for step in plan.steps}
    if sorted([*steps, *plan.unreached]) != sorted(net.steps):
        yield f"steps {[*steps]} and, not reached, {plan.unreached}"
    for event in events:
        yield from _of_all(plan, event)
        name = event.draft.step
        if name is None:
            continue
        if name not in steps:
            yield f"{event.fact.type} of {name}, which is never reached"
        else:
            yield from (f"{event.fact.type} of {name}: {told}" for told in _of_step(steps[name], event))
    yield from _too_many_calls(plan, events)


def _of_all(plan: Forecast, event: Event) -> Iterator[str]:
    if isinstance(event.fact, e.Evaluated):
        for key, value in plan.workload.items():
            yield from _differs(key, value, event.fact.workload.get(key))
        for key, value in plan.ctx.items():
            yield from _differs(f"ctx.{key}", value, event.fact.ctx.get(key))
        if any(secret.error for secret in plan.secrets) and event.fact.accepted:
            yield "a keychain that was to be refused"


def _of_step(step: StepForecast, event: Event) -> Iterator[str]:
    match event.fact:
        case e.StepScheduled(args=args):
            for key, value in step.args.items():
                yield from _differs(key, value, args.get(key))
        case e.LoopStarted(count=count, max_in_flight=width) if step.loop is not None:
            if step.loop.count not in (None, count):
                yield f"{count} items, not {step.loop.count}"
            yield from _differs("max_in_flight", step.loop.width, width)
        case e.NextEvaluated(failure=None, boundary=boundary, arcs=asked):
            chosen = {_arc(arc) for arc in asked if arc.chosen}
            maybe = {_arc(arc) for arc in step.arcs if arc.taken is not False}
            certain = {_arc(arc) for arc in step.arcs if arc.taken} if boundary != "step.failed" else set()
            if not certain <= chosen <= maybe:
                yield f"arcs to {chosen}, not to {certain} or at most {maybe}"
        case e.TaskDone(task=name) | e.TaskFailed(task=name) | TaskLoopStarted(task=name):
            yield from _of_task(step, name, event.fact)


def _arc(arc: ArcForecast | e.ArcDecision) -> tuple[str, Json]:
    """What tells arcs of a step apart that lead nowhere."""
    return arc.step, "" if arc.step else arc.when


def _of_task(
    step: StepForecast, name: str, fact: e.TaskDone | e.TaskFailed | TaskLoopStarted
) -> Iterator[str]:
    """Calls of a task that is called again are named below it."""
    tasks = {task.name: task for task in step.tasks}
    task = tasks.get(name) or tasks.get(name.rpartition(".")[0])
    if task is None:
        yield f"no task {name!r} was foreseen"
    elif not task.is_called:
        yield f"{name} was not to run"
    elif isinstance(fact, TaskLoopStarted):
        if task.loop is None or task.loop.count not in (None, fact.count):
            yield f"{fact.count} items of {name}"
    elif fact.after != (task.after is not None):
        yield f"{name} ran at the end of the step, or did not"


def _too_many_calls(plan: Forecast, events: Sequence[Event]) -> Iterator[str]:
    """More successful calls in one run of a step, or one iteration of it, than a repetition has. A
    task that a jump returns to begins anew, so only steps without jumps are looked at."""
    most = {
        (step.name, task.name): task.repeat.most.value
        for step in plan.steps
        for task in step.tasks
        if task.repeat is not None and not task.behind and not any(one.jumps for one in step.tasks)
    }
    made = Counter(
        (event.draft.step, event.fact.task.rpartition(".")[0], event.draft.run_id, event.draft.iteration)
        for event in events
        if isinstance(event.fact, e.TaskDone) and event.fact.task.endswith((".call", ".page"))
    )
    for (name, task, *_), count in made.items():
        limit = most.get((str(name), task))
        if isinstance(limit, int) and count > limit:
            yield f"{count} calls of {name}.{task}, not {limit}"


def _differs(name: str, value: Rendered, found: Json) -> Iterator[str]:
    """Placeholders stand for anything, and what is kept by reference is not looked into."""
    is_told = value.known and "<" not in json.dumps(value.value) and '"ref"' not in json.dumps(found)
    if is_told and value.value != found:
        yield f"{name} is {found!r}, not {value.value!r}"
