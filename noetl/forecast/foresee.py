"""Puts the forecast together: the steps, one after the other, each with what it can be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expressions.scope import layered
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import as_items
from noetl.forecast.arcs import arcs_ahead
from noetl.forecast.model import ArcAhead, Forecast, LoopAhead, Rendered, StepAhead
from noetl.forecast.order import followed
from noetl.forecast.secrets import secrets_of, variables_of
from noetl.forecast.sight import AT_THE_END, DURING, THE_RUN, Sight, rendered, rendered_all
from noetl.forecast.tasks import Kinds, calls_of, task_ahead
from noetl.forecast.worlds import WORLDS, World, agreed, keychain, workloads
from noetl.net.checks import cycles
from noetl.net.model import ENTRY, Arc, Assignment, Loop, Net, Task, Template, Transition

#: What the final step is handed.
_FINAL_ARGS: Final = ("status", "steps", "errors")
#: What something hands over that is known only then.
_UNKNOWN: Final = Rendered(None, ("args",))


@dataclass(frozen=True, slots=True)
class Given:
    """What is known before: the kinds, what the caller hands over, the environment that templates may read, and the
    width of parallel loops that name none."""

    kinds: Kinds
    payload: JsonMap = field(default_factory=dict)
    overrides: JsonMap = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    max_in_flight: int = 16


def foresee(net: Net, given: Given) -> Forecast:
    """What an execution of `net` would do with what is `given`. Raises nothing for what its templates do."""
    ahead = _Ahead(net, given)
    steps = {name: ahead.step(net.steps[name]) for name in followed(net)}
    taken = _without_arcs_never_taken(net, steps)
    order = followed(taken)
    inside = frozenset(order)
    reached = tuple(replace(steps[name], sources=_sources(taken, name, inside)) for name in order)
    return Forecast(
        name=net.name,
        path=net.path,
        file=net.file,
        description=net.description,
        entry=net.entry,
        final_step=net.final_step,
        workload=ahead.workload,
        steps=reached,
        unreached=tuple(name for name in net.steps if name not in inside),
        cycles=tuple(cycle for cycle in cycles(taken) if inside.issuperset(cycle)),
        secrets=secrets_of(net, reached, given.kinds.infos),
        variables=variables_of(net, reached, given.env),
        playbooks=calls_of(reached),
    )


def _without_arcs_never_taken(net: Net, steps: Mapping[str, StepAhead]) -> Net:
    def kept(step: Transition) -> tuple[Arc, ...]:
        if step.name not in steps:
            return step.arcs
        ahead = steps[step.name].arcs
        return tuple(arc for arc, one in zip(step.arcs, ahead, strict=True) if one.taken is not False)

    return replace(net, transitions=tuple(replace(step, arcs=kept(step)) for step in net.transitions))


def _sources(net: Net, step: str, reached: frozenset[str]) -> tuple[str, ...]:
    arcs = (net.arcs[place].source for place in net.incoming[step] if place != ENTRY)
    return tuple(dict.fromkeys(source for source in arcs if source in reached))


class _Ahead:
    """What is known of one playbook while its steps are gone through, those before others first."""

    def __init__(self, net: Net, given: Given) -> None:
        self._net = net
        self._given = given
        found = workloads(net, given.payload, given.overrides, given.env)
        self.workload = {key: _of_worlds(net, key, [one[key] for one in found]) for key in found[0]}
        self._names = tuple(_names(net, given, *one) for one in zip(WORLDS, found, strict=True))
        self._assigned = frozenset(_assigned(net))
        self._arcs: dict[str, ArcAhead] = {}

    def step(self, step: Transition) -> StepAhead:
        handed = self._handed(step)
        inputs = {**rendered_all(step.args, self._sight(handed, DURING)), **handed}
        before = self._sight(inputs, DURING)
        arcs = arcs_ahead(step, self._sight(inputs, DURING | AT_THE_END))
        if step.name == self._net.final_step:
            # It runs when nothing else is left, and nothing follows it.
            arcs = tuple(replace(arc, taken=False) for arc in arcs)
        self._arcs |= {arc.id: one for arc, one in zip(step.arcs, arcs, strict=True)}
        own = DURING | frozenset(_own(step))
        if any(task.after is not None for task in step.tasks):
            own |= AT_THE_END

        def of_task(values: Mapping[str, Rendered]) -> Sight:
            return self._sight({**inputs, **values}, own)

        return StepAhead(
            name=step.name,
            description=step.description,
            queue=step.queue if step.calls else None,
            sources=(),
            join=step.join,
            admit=step.admit,
            loop=self._loop(step.loop, before) if step.loop is not None else None,
            args=inputs,
            tasks=tuple(task_ahead(task, of_task, self._given.kinds) for task in step.calls),
            router=step.router,
            arcs=arcs,
            line=step.line,
        )

    def _handed(self, step: Transition) -> dict[str, Rendered]:
        """The args of the step's tokens. Where they may come from several arcs only their names are known."""
        if step.name == self._net.final_step:
            return dict.fromkeys(_FINAL_ARGS, _UNKNOWN)
        places = self._net.incoming[step.name]
        names = dict.fromkeys(key for place in places if place != ENTRY for key in self._net.arcs[place].args)
        only = self._arcs.get(places[0]) if len(places) == 1 else None
        return {name: only.args[name] if only is not None else _UNKNOWN for name in names}

    def _sight(self, args: Mapping[str, Rendered], hidden: frozenset[str]) -> Sight:
        values = [
            {name: arg.worlds[world] for name, arg in args.items() if arg.known}
            for world in range(len(WORLDS))
        ]
        names = tuple(
            layered({"args": mine, "input": mine}, fixed, mine, workload)
            for mine, (fixed, workload) in zip(values, self._names, strict=True)
        )
        return Sight(
            names=names,
            workload={key: value.known for key, value in self.workload.items()},
            args={name: arg.known for name, arg in args.items()},
            steps=self._net.steps.keys(),
            hidden=hidden,
            assigned=self._assigned,
        )

    def _loop(self, loop: Loop, sight: Sight) -> LoopAhead:
        collection = rendered(loop.collection, sight)
        known = collection.known and loop.cursor is None
        width: Template = 1 if loop.mode == "sequential" else loop.max_in_flight
        return LoopAhead(
            iterator=loop.iterator,
            mode=loop.mode,
            collection=collection,
            width=rendered(self._given.max_in_flight if width is None else width, sight),
            count=as_items(collection.worlds[0], None)[0] if known else None,
            cursor=loop.cursor.kind if loop.cursor is not None else None,
        )


def _of_worlds(net: Net, key: str, values: list[Json | TemplateError]) -> Rendered:
    """A value of the workload."""
    template = net.workload.get(key)
    errors = [value.message for value in values if isinstance(value, TemplateError)]
    if errors:
        return Rendered(template, error=errors[0])
    same, value = agreed(tuple(values))
    # What differs in more than the id and the instant is known to the run alone, and to who can wait for it.
    return Rendered(value, worlds=tuple(values)) if same else Rendered(template, (THE_RUN,))


def _names(
    net: Net, given: Given, world: World, workload: Mapping[str, Any]
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What the names of every step mean in one world: those that win over args, and the workload."""
    values = {key: value for key, value in workload.items() if not isinstance(value, TemplateError)}
    fixed = {
        "workload": values,
        "execution_id": world.execution_id,
        "job": {"uuid": world.execution_id, "execution_id": world.execution_id},
        "env": given.env,
        "keychain": keychain(net, world),
    }
    return fixed, values


def _assigned(net: Net) -> Iterator[str]:
    """The names of ctx that anything assigns, and those that it begins with."""
    yield from net.ctx
    for step in net.transitions:
        for assignment in (*step.set, *(one for arc in step.arcs for one in arc.set), *_of_tasks(step.tasks)):
            if assignment.scope == "ctx":
                yield assignment.name.partition(".")[0]


def _of_tasks(tasks: tuple[Task, ...]) -> Iterator[Assignment]:
    for task in tasks:
        yield from task.set
        for rule in task.rules or ():
            yield from rule.then.set


def _own(step: Transition) -> Iterator[str]:
    """The bare names that the pipeline of a step answers for: its tasks, what they assign, and the item of its loop."""
    yield from (task.name for task in step.tasks)
    yield from (one.name.partition(".")[0] for one in _of_tasks(step.tasks) if one.scope in ("local", "iter"))
    if step.loop is not None:
        yield step.loop.iterator
