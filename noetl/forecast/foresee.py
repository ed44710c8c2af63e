"""Puts the forecast together: the steps, one after the other, each with what it can be told."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl.errors import TemplateError
from noetl.expressions.scope import layered
from noetl.facts.json import Json, JsonMap
from noetl.forecast.arcs import forecast_arcs
from noetl.forecast.beginning import render_beginning
from noetl.forecast.known_names import AT_THE_END, DURING, THE_RUN, KnownNames, render_all
from noetl.forecast.model import ArcForecast, Forecast, Rendered, StepForecast
from noetl.forecast.secrets import find_secrets, find_variables
from noetl.forecast.starts import MOMENTS, Moment, Starts, in_tasks
from noetl.forecast.tasks import Kinds, Views, find_calls, forecast_loop, forecast_task
from noetl.forecast.worlds import WORLDS, World, WorldRequest, agree, make_requests
from noetl.net.checks import cycles
from noetl.net.graphs import postorder
from noetl.net.model import ENTRY, FINAL_INPUTS, Arc, Net, Transition

#: What something hands over that is known only then.
_UNKNOWN: Final = Rendered(None, ("args",))


@dataclass(frozen=True, slots=True)
class PlanInput:
    """What is known before: the kinds, what the caller hands over, the environment that templates
    may read, and the width of parallel loops that name none."""

    kinds: Kinds
    payload: JsonMap = field(default_factory=dict)
    overrides: JsonMap = field(default_factory=dict)
    env: Mapping[str, str] = field(default_factory=dict)
    max_in_flight: int = 16


def foresee(net: Net, given: PlanInput) -> Forecast:
    """What an execution of `net` would do with what is `given`. Raises nothing for what its
    templates do."""
    ahead = _Ahead(net, given)
    steps = {name: ahead.step(net.steps[name]) for name in _in_reading_order(net)}
    taken = _without_arcs_never_taken(net, steps)
    order = _in_reading_order(taken)
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
        ctx=ahead.beginning.ctx,
        steps=reached,
        unreached=tuple(name for name in net.steps if name not in inside),
        cycles=tuple(cycle for cycle in cycles(taken) if inside.issuperset(cycle)),
        secrets=find_secrets(net, ahead.beginning.keychain, reached, given.kinds.infos),
        variables=find_variables(net, reached, given.env),
        playbooks=find_calls(reached),
    )


def _in_reading_order(net: Net) -> tuple[str, ...]:
    """The steps that a path leads to from the entry: each behind those that lead to it, cycles
    apart, and one branch before the next. The final step is the last."""
    # The last branch is left first, and so stands behind the others.
    graph = {step.name: [arc.step for arc in reversed(step.ways)] for step in net.transitions}
    order = [step for step in reversed(postorder(graph, net.entry)) if step != net.final_step]
    return (*order, net.final_step) if net.final_step else tuple(order)


def _without_arcs_never_taken(net: Net, steps: Mapping[str, StepForecast]) -> Net:
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

    def __init__(self, net: Net, given: PlanInput) -> None:
        self._net = net
        self._given = given
        found = make_requests(net, given.payload, given.overrides, given.env)
        keys = found[0].workload
        self.workload = {key: _of_worlds(net, key, [one.workload[key] for one in found]) for key in keys}
        self.beginning = render_beginning(net, found, self.workload)
        self._names = tuple(_names(given, *one) for one in zip(WORLDS, found, strict=True))
        self._starts = Starts(net)
        self._arcs: dict[str, ArcForecast] = {}

    def step(self, step: Transition) -> StepForecast:
        handed = self._handed(step)
        starts = {moment: self._untouched(step, moment) for moment in MOMENTS}
        inputs = {**render_all(step.args, self._scope(handed, DURING, starts["before"])), **handed}
        before = self._scope(inputs, DURING, starts["before"])
        arcs = forecast_arcs(step, self._scope(inputs, DURING | AT_THE_END, starts["end"]))
        if step.name == self._net.final_step:
            # It runs when nothing else is left, and nothing follows it.
            arcs = tuple(replace(arc, taken=False) for arc in arcs)
        self._arcs |= {arc.id: one for arc, one in zip(step.arcs, arcs, strict=True)}
        own = DURING | frozenset(_own(step))
        views = Views(lambda over, hidden: self._scope({**inputs, **over}, own | hidden, starts["during"]))
        return StepForecast(
            name=step.name,
            description=step.description,
            queue=step.queue if step.calls else None,
            sources=(),
            join=step.join,
            admit=step.admit,
            loop=None if step.loop is None else forecast_loop(step.loop, before, self._given.max_in_flight),
            args=inputs,
            tasks=tuple(forecast_task(task, step, views, self._given.kinds) for task in step.calls),
            router=step.router,
            arcs=arcs,
            line=step.line,
        )

    def _handed(self, step: Transition) -> dict[str, Rendered]:
        """The args of the step's tokens. Where they may come from several arcs only their names are
        known."""
        if step.name == self._net.final_step:
            return dict.fromkeys(FINAL_INPUTS, _UNKNOWN)
        places = self._net.incoming[step.name]
        names = dict.fromkeys(key for place in places if place != ENTRY for key in self._net.arcs[place].args)
        only = self._arcs.get(places[0]) if len(places) == 1 else None
        return {name: only.args[name] if only is not None else _UNKNOWN for name in names}

    def _untouched(self, step: Transition, moment: Moment) -> dict[str, Rendered]:
        """The variables that still hold by then what they began with."""
        touched = self._starts.touched(step.name, moment)
        return {name: value for name, value in self.beginning.ctx.items() if name not in touched}

    def _scope(
        self, args: Mapping[str, Rendered], hidden: frozenset[str], ctx: Mapping[str, Rendered]
    ) -> KnownNames:
        names = []
        for world, (fixed, workload) in enumerate(self._names):
            mine, starts = _in_world(args, world), _in_world(ctx, world)
            above = {"args": mine, "input": mine, "ctx": starts, "vars": starts}
            names.append(layered(above, fixed, mine, starts, workload))
        return KnownNames(
            names=tuple(names),
            workload=_known(self.workload),
            args=_known(args),
            steps=self._net.steps.keys(),
            hidden=hidden,
            assigned=self._starts.assigned,
            ctx=_known(ctx),
        )


def _known(values: Mapping[str, Rendered]) -> dict[str, bool]:
    return {name: value.known for name, value in values.items()}


def _in_world(values: Mapping[str, Rendered], world: int) -> dict[str, Json]:
    return {name: value.worlds[world] for name, value in values.items() if value.known}


def _of_worlds(net: Net, key: str, values: list[Json | TemplateError]) -> Rendered:
    """A value of the workload."""
    template = net.workload.get(key)
    errors = [value.message for value in values if isinstance(value, TemplateError)]
    if errors:
        return Rendered(template, error=errors[0])
    same, value = agree(tuple(values))
    # What differs in more than the id and the instant is known to the run alone, and to who can
    # wait for it.
    return Rendered(value, worlds=tuple(values)) if same else Rendered(template, (THE_RUN,))


def _names(
    given: PlanInput, world: World, request: WorldRequest
) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """What the names of every step mean in one world: those that win over args, and the
    workload."""
    fixed = {
        "workload": request.values,
        "execution_id": world.execution_id,
        "job": {"uuid": world.execution_id, "execution_id": world.execution_id},
        "env": given.env,
        "keychain": request.inputs.keychain,
    }
    return fixed, request.values


def _own(step: Transition) -> Iterator[str]:
    """The bare names that the pipeline of a step answers for: its tasks, what they assign, and the
    item of its loop."""
    yield from (task.name for task in step.tasks)
    yield from (one.name.partition(".")[0] for one in in_tasks(step.tasks) if one.scope in ("local", "iter"))
    if step.loop is not None:
        yield step.loop.iterator
