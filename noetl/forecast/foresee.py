"""Puts the forecast together: the steps, one after the other, each with what is known of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final, Literal, TypeAlias, get_args

from noetl.engine.workload import describe_gap, find_gaps
from noetl.errors import TemplateError
from noetl.expressions.scope import layer_names
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import SECRET_REF, omit_seal
from noetl.forecast.model import ArcForecast, Forecast, Rendered, StepEnds, StepForecast
from noetl.forecast.secrets import find_secrets, find_variables, render_entry
from noetl.forecast.tasks import Kinds, find_calls, forecast_arcs, forecast_loop, forecast_task
from noetl.forecast.worlds import (
    AT_THE_END,
    DURING,
    KnownNames,
    WorldRequest,
    make_requests,
    render_all,
    render_worlds,
)
from noetl.net.checks import cycles, descendants, dominators
from noetl.net.graphs import Dominators, postorder
from noetl.net.input_values import read_values
from noetl.net.model import ENTRY, Net, Transition, find_assigned_names
from noetl.net.secret_inputs import replace_secrets

#: An input whose value is known only then.
_UNKNOWN: Final = Rendered(None, ("args",))
#: What the start of ctx and the keychain see besides the workload.
_OF_REQUESTS: Final = ("payload", "now")


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
    given = _take(net, given)
    ahead = _Ahead(net, given)
    steps = {name: ahead.step(net.steps[name]) for name in _in_reading_order(net)}
    taken = _drop_idle_arcs(net, steps)
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
        ctx=ahead.ctx,
        steps=reached,
        unreached=tuple(name for name in net.steps if name not in inside),
        cycles=tuple(cycle for cycle in cycles(taken) if inside.issuperset(cycle)),
        secrets=find_secrets(net, ahead.keychain, reached, given.kinds.infos),
        variables=find_variables(net, reached, given.env),
        playbooks=find_calls(reached),
        key=ahead.key,
        provides=net.provides,
    )


def _take(net: Net, given: PlanInput) -> PlanInput:
    """`given` as a run would take it: texts are read by the declared type, and in the places of
    secrets are references that nobody can open."""

    def make(path: str, _value: Json) -> Json:
        return omit_seal({"kind": SECRET_REF, "execution": "", "input": path, "hash": ""})

    payload, overrides = (
        replace_secrets(net.inputs, read_values(net.inputs, values), make)
        for values in (given.payload, given.overrides)
    )
    return replace(given, payload=payload, overrides=overrides)


def _in_reading_order(net: Net) -> tuple[str, ...]:
    """The steps that a path leads to from the entry: each behind those that lead to it, cycles
    apart, and one branch before the next. Handlers follow, and the final step is the last."""
    # The last branch is left first, and so stands behind the others.
    graph = {step.name: [arc.step for arc in reversed(step.ways)] for step in net.transitions}
    seen = set(filter(None, [net.final_step]))
    order = [step for begin in net.beginnings for step in reversed(_unseen(graph, begin, seen))]
    return (*order, net.final_step) if net.final_step else tuple(order)


def _unseen(graph: Mapping[str, list[str]], begin: str, seen: set[str]) -> list[str]:
    return [] if begin in seen else postorder(graph, begin, seen)


def _drop_idle_arcs(net: Net, steps: Mapping[str, StepForecast]) -> Net:
    def without(step: Transition) -> Transition:
        if step.name not in steps:
            return step
        ahead = zip(step.arcs, steps[step.name].arcs, strict=True)
        return replace(step, arcs=tuple(arc for arc, one in ahead if one.taken is not False))

    return replace(net, transitions=tuple(map(without, net.transitions)))


def _sources(net: Net, step: str, reached: frozenset[str]) -> tuple[str, ...]:
    arcs = (net.arcs[place].source for place in net.incoming[step] if place != ENTRY)
    return tuple(dict.fromkeys(source for source in arcs if source in reached))


def _behind_end(step: Transition, arc: ArcForecast) -> ArcForecast:
    """An arc of a step that ends the execution: it is asked after a failure alone, or where
    admission passed the step by."""
    passes = step.admit is not None and step.admit.on_deny == "pass"
    known = None if arc.on_failure or passes else False
    return replace(arc, taken=known if arc.taken is not False else False)


def _foresee_key(template: str, early: KnownNames) -> Rendered:
    found = render_all({"key": template}, early)["key"]
    gaps = () if found.error else find_gaps(template, early.names[0])
    gap = next((chain for chain in gaps if early.knows(chain)), None)
    return found if gap is None else Rendered(None, error=f"it {describe_gap(gap)}.")


class _Ahead:
    """What is known of one playbook while its steps are gone through, those before others first."""

    def __init__(self, net: Net, given: PlanInput) -> None:
        self._net = net
        self._given = given
        requests = make_requests(net, given.payload, given.overrides, given.env)
        self.workload = {key: _render_workload_key(net, key, requests) for key in requests[0].workload}
        self.workload |= _find_awaited(net, given)
        early = KnownNames(
            names=tuple(request.early for request in requests),
            workload=_is_known_by_name(self.workload) | dict.fromkeys(_OF_REQUESTS, True),
        )
        self.ctx = render_all(net.ctx, early)
        self.key = None if net.key is None else _foresee_key(net.key.value, early)
        self.keychain = {
            str(entry["name"]): render_entry(net, entry, requests[0], early) for entry in net.keychain
        }
        self._requests = tuple((request.fixed, request.values) for request in requests)
        self._starts = Starts(net)
        self._arcs: dict[str, ArcForecast] = {}

    def step(self, step: Transition) -> StepForecast:
        handed = self._args_of_tokens(step)
        before, during, end = (self._initial_variables(step, moment) for moment in MOMENTS)
        inputs = {**render_all(step.args, self._scope(handed, DURING, before)), **handed}
        early = self._scope(inputs, DURING, before)
        arcs = forecast_arcs(step, self._scope(inputs, DURING | AT_THE_END, end))
        if step.name == self._net.final_step:
            # It runs when nothing else is left, and nothing follows it.
            arcs = tuple(replace(arc, taken=False) for arc in arcs)
        if step.terminate is not None:
            arcs = tuple(_behind_end(step, arc) for arc in arcs)
        self._arcs |= {arc.id: one for arc, one in zip(step.arcs, arcs, strict=True)}
        # The pipeline answers for its tasks, what they assign, and the item of its loop.
        own = DURING | {task.name for task in step.tasks}
        own |= find_assigned_names(step.assigns, "local") | find_assigned_names(step.assigns, "iter")
        own |= {step.loop.iterator} if step.loop is not None else set()

        def see(over: Mapping[str, Rendered], hidden: frozenset[str]) -> KnownNames:
            return self._scope({**inputs, **over}, own | hidden, during)

        return StepForecast(
            name=step.name,
            description=step.description,
            queue=step.queue if step.calls else None,
            sources=(),
            join=step.join,
            admit=step.admit,
            loop=None if step.loop is None else forecast_loop(step.loop, early, self._given.max_in_flight),
            args=inputs,
            tasks=tuple(forecast_task(task, step, see, self._given.kinds) for task in step.calls),
            router=step.router,
            arcs=arcs,
            line=step.line,
            ends=StepEnds(step.terminate, step.completes, step.milestone),
            role=self._net.role_of(step.name),
        )

    def _args_of_tokens(self, step: Transition) -> dict[str, Rendered]:
        """The args of the step's tokens. Where they may come from several arcs only their names are
        known."""
        given = self._net.given_by_engine(step.name)
        if given:
            return dict.fromkeys(sorted(given), _UNKNOWN)
        places = self._net.incoming[step.name]
        names = dict.fromkeys(key for place in places if place != ENTRY for key in self._net.arcs[place].args)
        only = self._arcs.get(places[0]) if len(places) == 1 else None
        return {name: only.args[name] if only is not None else _UNKNOWN for name in names}

    def _initial_variables(self, step: Transition, moment: Moment) -> dict[str, Rendered]:
        """The variables that still hold by then what they began with."""
        names_in_doubt = self._starts.names_in_doubt(step.name, moment)
        return {name: value for name, value in self.ctx.items() if name not in names_in_doubt}

    def _scope(
        self, args: Mapping[str, Rendered], hidden: frozenset[str], ctx: Mapping[str, Rendered]
    ) -> KnownNames:
        names = []
        for world, (fixed, workload) in enumerate(self._requests):
            mine, starts = _in_world(args, world), _in_world(ctx, world)
            above = {"args": mine, "input": mine, "ctx": starts, "vars": starts}
            names.append(layer_names(above, fixed, mine, starts, workload))
        return KnownNames(
            names=tuple(names),
            workload=_is_known_by_name(self.workload),
            args=_is_known_by_name(args),
            steps=self._net.steps.keys(),
            hidden=hidden,
            assigned=self._net.variables,
            ctx=_is_known_by_name(ctx),
        )


def _find_awaited(net: Net, given: PlanInput) -> dict[str, Rendered]:
    """Required inputs that are not given: of what type they will be."""
    return {
        one.name: Rendered(f"<{one.type}>", (f"payload.{one.name}",))
        for one in net.inputs
        if one.required and one.name not in {**given.payload, **given.overrides}
    }


def _is_known_by_name(values: Mapping[str, Rendered]) -> dict[str, bool]:
    return {name: value.known for name, value in values.items()}


def _in_world(values: Mapping[str, Rendered], world: int) -> dict[str, Json]:
    return {name: value.worlds[world] for name, value in values.items() if value.known}


def _render_workload_key(net: Net, key: str, requests: tuple[WorldRequest, ...]) -> Rendered:
    template = net.workload.get(key)
    values: list[Json] = []
    for request in requests:
        value = request.workload[key]
        if isinstance(value, TemplateError):
            return Rendered(template, error=value.message)
        values.append(value)
    return render_worlds(template, tuple(values))


#: When a template of a step is rendered: before its tasks, while they run, or once they have ended.
Moment: TypeAlias = Literal["before", "during", "end"]
MOMENTS: Final[tuple[Moment, ...]] = get_args(Moment)

#: Joins that fire once, where nothing leads back to them.
_ONCE: Final = frozenset({"auto", "all"})


class Starts:
    """What assigns which variable, and whether that can have happened by the time a step is due.

    A step that fires once is before all steps to which every path leads through it; whatever else
    assigns may have done so, in another branch or in an earlier round.
    """

    def __init__(self, net: Net) -> None:
        self._net = net
        self._all = {step.name: find_assigned_names(step.assigns, "ctx") for step in net.transitions}

    def names_in_doubt(self, step: str, moment: Moment) -> frozenset[str]:
        """The names that may have been assigned by then."""
        once = step not in self._repeated
        own = self._all[step] if moment == "end" or not once else set[str]()
        if moment == "during":
            own = own.union(*(find_assigned_names(one.assigns, "ctx") for one in self._net.steps[step].tasks))
        others = (
            names
            for name, names in self._all.items()
            if name != step and not (once and self._tree.dominates(step, name))
        )
        return frozenset(own).union(*others)

    @cached_property
    def _tree(self) -> Dominators:
        return dominators(self._net)

    @cached_property
    def _repeated(self) -> frozenset[str]:
        """The steps that may fire more than once, or late, and all behind them."""
        circular = {name for cycle in cycles(self._net) for name in cycle}
        again = {step.name for step in self._net.transitions if self._may_repeat(step)}
        return descendants(self._net, circular | again)

    def _may_repeat(self, step: Transition) -> bool:
        places = self._net.incoming[step.name]
        several = len(places) > 1 and step.join.mode not in _ONCE
        several |= any(self._net.arcs[place].times != 1 for place in places if place != ENTRY)
        late = (step.admit is not None and step.admit.on_deny == "pending") or step.milestone is not None
        return several or late or step.name == self._net.final_step
