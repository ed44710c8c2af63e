"""Tasks, loops and arcs: their templates as far as they are known, what tasks touch, the playbooks
that they call, and which arcs are taken."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from noetl.engine.prerequisites import CALL
from noetl.expressions import BeginQuoting, NoQuoting
from noetl.facts.json import Json
from noetl.facts.reference import as_items
from noetl.forecast.model import (
    AfterForecast,
    ArcForecast,
    CalledPlaybook,
    LoopForecast,
    Rendered,
    RepeatForecast,
    StepForecast,
    TaskForecast,
)
from noetl.forecast.worlds import AT_THE_END, KnownNames, decide_guard, render, render_all, render_constant
from noetl.net.model import EACH_INPUTS, Arc, KindInfo, Loop, Repeat, Task, Template, Transition
from noetl.pipeline.repeating import address_key, changed_keys, first_params
from noetl.pipeline.templates import prepare_task

#: What a kind says that a call with this configuration touches; templates may be left in it.
Touches: TypeAlias = Callable[[str, Mapping[str, Json]], tuple[str, ...]]

#: What templates see: makes the names of inputs that lie over those of the step, and of names that
#: only the run answers for.
See: TypeAlias = Callable[[Mapping[str, Rendered], frozenset[str]], KnownNames]


@dataclass(frozen=True, slots=True)
class Kinds:
    """The installed kinds, what each says of a configuration, and how values are written into
    command lines."""

    infos: Mapping[str, KindInfo]
    touches: Touches
    quoting: BeginQuoting = NoQuoting


def forecast_task(task: Task, step: Transition, see: See, kinds: Kinds) -> TaskForecast:
    """A task of `step`, in which its templates `see` what they do."""
    task = _at_first_call(task)
    # Those behind the end of a pipeline see its outcome.
    hidden = AT_THE_END if task.after is not None else frozenset[str]()
    before = see({}, hidden)
    hidden |= {task.loop.iterator} if task.loop is not None else set()
    handed = {name: Rendered(None, (name,)) for name in EACH_INPUTS} if task.each_of else {}
    ready = prepare_task(task, kinds.quoting)
    inputs: dict[str, Rendered] = {}
    for stage in (*((ready.given,) if ready.given is not None else ()), *ready.stages):
        inputs |= {
            **_fix_all(stage.args),
            **render_all(stage.templates, see({**handed, **inputs}, hidden)),
        }
    values = {**_fix_all(task.config), **render_all(ready.config, see({**handed, **inputs}, hidden))}
    return TaskForecast(
        name=task.name,
        kind=task.kind,
        effects=task.effects,
        touches=kinds.touches(task.kind, {key: value.value for key, value in values.items()}),
        config=values,
        args=inputs,
        tries=_tries(task),
        jumps=tuple(dict.fromkeys(rule.then.to for rule in task.rules or () if rule.then.to is not None)),
        line=task.line,
        # One item after another, so the width of parallel loops means nothing here.
        loop=forecast_loop(task.loop, before, 1) if task.loop is not None else None,
        repeat=_repeat(task, step, before),
        behind=task.each_of,
        after=None if task.after is None else AfterForecast(task.after, decide_guard(task.after, before)),
        expects=task.expects,
        returns=task.returns,
    )


def forecast_loop(loop: Loop, scope: KnownNames, max_in_flight: int) -> LoopForecast:
    """`max_in_flight` is the width of parallel loops that name none."""
    collection = render(loop.collection, scope)
    known = collection.known and loop.cursor is None
    width: Template = 1 if loop.mode == "sequential" else loop.max_in_flight
    wide = render(max_in_flight if width is None else width, scope)
    alone = wide.known and str(wide.worlds[0]) == "1"
    return LoopForecast(
        iterator=loop.iterator,
        # A cursor's is left to its width: where that is not known yet, it may come to either.
        mode=loop.mode if loop.mode != "cursor" else "sequential" if alone else "parallel",
        collection=collection,
        width=wide,
        count=as_items(collection.worlds[0], None)[0] if known and loop.grow is None else None,
        cursor=loop.cursor.kind if loop.cursor is not None else None,
        sync=loop.sync,
        enough=None if loop.enough is None else loop.enough.when,
        rest="" if loop.enough is None else loop.enough.rest,
        grow=loop.grow,
        close=loop.close,
    )


def _at_first_call(task: Task) -> Task:
    pages = task.repeat.pages if task.repeat is not None else None
    params = first_params(pages) if pages is not None else {}
    if not params:
        return task
    return replace(task, config={**task.config, "params": {**(task.config.get("params") or {}), **params}})


def _repeat(task: Task, step: Transition, scope: KnownNames) -> RepeatForecast | None:
    """How often the task is called, or that task is which it runs after every call of."""
    owner = next((one for one in step.tasks if one.name == task.each_of), task)
    repeat = owner.repeat
    if repeat is None:
        return None
    when = tuple(one.when for one in repeat.next)
    by, until = (repeat.pages.by, repeat.pages.until) if repeat.pages is not None else ("", None)
    return RepeatForecast(when, by, until, render(repeat.max, scope), _changes(owner, repeat))


def _changes(task: Task, repeat: Repeat) -> tuple[str, ...]:
    """The keys in which later requests differ."""
    if repeat.pages is None:
        return tuple("input" if key == "args" else key for key in changed_keys(repeat))
    return ("params",) if repeat.pages.by != "link" else (address_key(task), "params")


def _fix_all(values: Mapping[str, Template]) -> dict[str, Rendered]:
    """`values` that hold no template."""
    return {key: render_constant(value) for key, value in values.items()}


def _tries(task: Task) -> Template:
    """The most attempts that a rule allows: a number, or the template of the first that is one."""
    asked = [rule.then.attempts for rule in task.rules or () if rule.then.do == "retry"]
    numbers = [attempts for attempts in asked if isinstance(attempts, int)]
    templates = [attempts for attempts in asked if not isinstance(attempts, int)]
    return templates[0] if templates else max(numbers, default=None)


def place_of(step: StepForecast, task: TaskForecast) -> str:
    """How a task is called: by its step, where that has no other."""
    return step.name if len(step.tasks) == 1 else f"{step.name}.{task.name}"


def find_calls(steps: Iterable[StepForecast]) -> tuple[CalledPlaybook, ...]:
    """The playbooks that tasks call, each version once."""
    found: dict[tuple[str, str], CalledPlaybook] = {}
    for step in steps:
        for task in step.tasks:
            if task.kind != CALL or (path := task.config.get("path")) is None:
                continue
            version = task.config["version"].value if "version" in task.config else None
            key = str(path.value), str(version)
            users = (*(found[key].used_by if key in found else ()), place_of(step, task))
            found[key] = CalledPlaybook(str(path.value), version, users, path.needs)
    return tuple(found.values())


def forecast_arcs(step: Transition, scope: KnownNames) -> tuple[ArcForecast, ...]:
    """The arcs of `step`, in order. `scope` is what their guards see."""
    found: list[ArcForecast] = []
    earlier: list[ArcForecast] = []
    for arc in step.arcs:
        if not arc.also:
            # What stands behind it may be taken with it, and not in its place.
            earlier = [one for one in found if one.step]
        one = _forecast_arc(arc, scope)
        chosen = step.router == "exclusive" or (step.router == "first" and arc.step)
        found.append(_put_behind(one, earlier) if chosen else one)
    return tuple(found)


def _forecast_arc(arc: Arc, scope: KnownNames) -> ArcForecast:
    guard = None if arc.when is None else decide_guard(arc.when, scope)
    return ArcForecast(
        step=arc.step,
        when=arc.when,
        taken=True if guard is None else bool(guard.value) if guard.known else None,
        guard=guard,
        on_failure=arc.boundary,
        args=render_all(arc.args, scope),
        line=arc.line,
        also=arc.also,
        sets={f"{one.scope}.{one.name}": render(one.value, scope) for one in arc.set},
        times=render(arc.times, scope),
    )


def _put_behind(arc: ArcForecast, before: list[ArcForecast]) -> ArcForecast:
    """`arc` behind others, only one of them being taken. After a failure only arcs that mention it
    are asked."""
    if any(other.taken for other in before) and not arc.on_failure:
        return replace(arc, taken=False)
    if arc.taken and any(other.taken is None for other in before):
        return replace(arc, taken=None)
    return arc
