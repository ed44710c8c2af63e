"""Joins and routing: when the tokens before a step enable it, and which tokens a run that ended
puts down: its `set`, and the guards of its arcs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl.engine.changes import replace
from noetl.engine.evolve import put_tokens
from noetl.engine.inputs import Inputs
from noetl.engine.milestones import is_early, is_passed
from noetl.engine.names import boundary, boundary_names
from noetl.engine.plan import Plan
from noetl.engine.regions import is_held_back, leads_on
from noetl.engine.run_state import Run
from noetl.engine.splits import read_times
from noetl.engine.state import Round, State, Waiting
from noetl.engine.termination import error_of, stops, termination_of
from noetl.errors import TemplateError
from noetl.expressions import evaluate_at, truth, values_read
from noetl.facts.events import (
    ArcDecision,
    CtxPatched,
    Draft,
    NextEvaluated,
    Token,
)
from noetl.facts.json import Json, JsonMap, assign, deep_merge
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import assign_below, open_references
from noetl.facts.warnings import Warned
from noetl.net.model import Arc, Assignment, Transition


@dataclass(frozen=True, slots=True)
class Enabled:
    """Tokens that fire a step together. `round` is 0 where the join has no rounds."""

    step: str
    tokens: tuple[Token, ...]
    round: int = 0

    @property
    def ids(self) -> tuple[str, ...]:
        return tuple(token.id for token in self.tokens)

    def args(self, inputs: Inputs) -> JsonMap:
        """The tokens' args, merged in order of arrival."""
        merged: dict[str, Json] = {}
        for token in self.tokens:
            for name, value in token.args.items():
                merged[name] = _merge(merged[name], value, inputs) if name in merged else value
        return merged


def _merge(base: Json, over: Json, inputs: Inputs) -> Json:
    """`over` on top of `base`. What is kept by reference is opened only where both may be
    mappings."""
    if inputs.load is None or not (isinstance(base, Mapping) and isinstance(over, Mapping)):
        return deep_merge(base, over)
    base, over = open_references(base, inputs.load), open_references(over, inputs.load)
    return inputs.hold(deep_merge(base, over))


def find_enabled(plan: Plan, state: State) -> Iterable[Enabled]:
    """What can fire now, in order of arrival. Tokens that admission denied count only once ctx
    changed, and those before the final step wait for the end of everything else."""
    seen = {plan.net.final_step}
    for waiting in state.tokens.values():
        name = waiting.token.step
        if name not in seen:
            seen.add(name)
            step = plan.step(name)
            come = [one for one in tokens_at(state, name) if not is_held_back(plan, state, one.token)]
            if not come:
                continue
            if is_passed(state, step):
                yield Enabled(name, tuple(one.token for one in come))
                continue
            found = _at_step(plan, state, step, come)
            yield from (one for one in found if not is_early(state, step, one.tokens[0].id))


def tokens_at(state: State, step: str) -> list[Waiting]:
    """Tokens that wait before `step`, in order of arrival."""
    return [waiting for waiting in state.tokens.values() if waiting.token.step == step]


def _ready(state: State, waiting: Waiting) -> bool:
    return waiting.denied_at is None or waiting.denied_at < state.ctx_version


def _at_step(plan: Plan, state: State, step: Transition, waiting: list[Waiting]) -> Iterable[Enabled]:
    match step.join.mode:
        case "all":
            return _all(plan, state, step, waiting)
        case "tokens":
            # The oldest first, whichever arcs they came over.
            tokens = tuple(one.token for one in waiting[: step.join.count])
            enough = len(tokens) == step.join.count and _ready(state, waiting[0])
            return [Enabled(step.name, tokens)] if enough else []
        case "first" | "count":
            return _find_counted(plan, state, step, waiting)
        case "auto" if plan.is_or_join(step):
            if not _ready(state, waiting[0]) or _can_still_come(plan, state, step.name):
                return ()
            return [Enabled(step.name, tuple(one.token for one in waiting))]
        case _:
            return [Enabled(step.name, (one.token,)) for one in waiting if _ready(state, one)]


def _all(plan: Plan, state: State, step: Transition, waiting: list[Waiting]) -> Iterable[Enabled]:
    first: dict[str, Waiting] = {}
    for one in waiting:
        first.setdefault(one.token.arc, one)
    if len(first) == len(plan.net.incoming[step.name]) and _ready(state, waiting[0]):
        yield Enabled(step.name, tuple(one.token for one in first.values()))


def _find_counted(plan: Plan, state: State, step: Transition, waiting: list[Waiting]) -> Iterable[Enabled]:
    number = min(one.token.round for one in waiting)
    current = state.rounds.get(step.name)
    if current is not None and not _is_over(plan, state, step.name, current):
        return
    needed = 1 if step.join.mode == "first" else step.join.count
    of_round = [one for one in waiting if one.token.round == number]
    if len(of_round) >= needed and _ready(state, of_round[0]):
        yield Enabled(step.name, tuple(one.token for one in of_round), number)


def _can_still_come(plan: Plan, state: State, join: str) -> bool:
    """Whether a live token or run elsewhere can still reach `join`."""
    reach = plan.reach[join]
    if not leads_on(plan, state).isdisjoint(reach.runs):
        return True
    alive = (run for run in state.runs.values() if run.puts_tokens and not run.final)
    return any(run.step in reach.runs for run in alive) or any(
        waiting.token.step in reach.tokens for waiting in state.tokens.values()
    )


def _is_over(plan: Plan, state: State, join: str, current: Round) -> bool:
    """Whether every branch of the round has come or died."""
    reach, alive = plan.reach[join], current.outstanding
    runs = any(state.runs[key].step in reach.runs for key in alive & state.runs.keys())
    tokens = any(state.tokens[key].token.step in reach.tokens for key in alive & state.tokens.keys())
    return len(current.arrived) == len(plan.net.incoming[join]) or not (runs or tokens)


def rest_of(plan: Plan, state: State, join: str, taken: tuple[str, ...]) -> tuple[list[str], list[str]]:
    """(runs, tokens) that could still reach a join that just fired: what `cancel_rest`
    withdraws."""
    reach = plan.reach.get(join)
    if reach is None:
        return [], []
    runs = [
        run.id for run in state.runs.values() if run.step in reach.runs and run.puts_tokens and not run.ended
    ]
    waiting = (one.token for one in state.tokens.values() if one.token.id not in taken)
    tokens = [token.id for token in waiting if token.step in reach.tokens or token.step == join]
    return runs, tokens


def place_token(plan: Plan, state: State, token: Token) -> Token:
    """`token` with the round that it counts in, absorbed where that round has fired already."""
    step = plan.step(token.step)
    if step.join.mode not in ("first", "count"):
        return token
    current = state.rounds.get(step.name)
    if (
        current is not None
        and token.arc not in current.arrived
        and not _is_over(plan, state, step.name, current)
    ):
        return replace(token, round=current.number, absorbed=True)
    base = 1 if current is None else current.number + 1
    waiting = [one.token for one in tokens_at(state, step.name)]
    earlier = sum(one.arc == token.arc and one.round >= base for one in waiting)
    return replace(token, round=base + earlier)


@dataclass(slots=True)
class _Boundary:
    """What is known while one run is routed. ctx changes as assignments are made."""

    plan: Plan
    state: State
    inputs: Inputs
    run: Run
    names: Mapping[str, Any]
    patches: list[Draft] = field(default_factory=list)
    decisions: list[ArcDecision] = field(default_factory=list)
    tokens: list[Token] = field(default_factory=list)
    times: dict[str, int] = field(default_factory=dict)
    warnings: list[Warned] = field(default_factory=list)

    @property
    def step(self) -> Transition:
        return self.plan.step(self.run.step)

    def evaluate(self, place: str, template: Json) -> Json:
        return evaluate_at(place, template, self.names, self.warnings, load=self.inputs.load)

    def count(self, arc: Arc, place: str) -> int:
        """How many tokens the arc puts down. Raises TemplateError where that is no such number."""
        if arc.times == 1:
            return 1
        self.times[arc.id] = read_times(f"{place}.times", self.evaluate(f"{place}.times", arc.times))
        return self.times[arc.id]

    def place(self, token: Token) -> Token:
        """`token` behind those that the run has put down already."""
        if self.plan.step(token.step).join.mode not in ("first", "count"):
            return token
        return place_token(self.plan, put_tokens(self.state, self.tokens), token)

    def assign(self, assignments: tuple[Assignment, ...], cause: str, place: str) -> None:
        """`place` is where the assignments stand, for warnings."""
        values = [(one, self.evaluate(f"{place}.{one.scope}.{one.name}", one.value)) for one in assignments]
        if not values:
            return
        # `step.x` is read until the run has routed, which is now: it needs no record.
        own = {one.name: self.inputs.hold(value) for one, value in values if one.scope == "step"}
        patch = self._patch([(one.name, value) for one, value in values if one.scope != "step"])
        if patch:
            fact = CtxPatched(patch, "step" if cause == "step" else "arc")
            self.patches.append(Draft(fact, step=self.run.step, run_id=self.run.id))
        state = replace(self.state, ctx=assign(self.names["ctx"], patch))
        run = replace(self.run, variables=assign(self.names["step"], own))
        self.names = boundary_names(state, self.inputs, run, self.step, self.plan.net.steps)

    def _patch(self, values: list[tuple[str, Json]]) -> JsonMap:
        """Assignments to ctx; what they change a part of may be stored by reference."""
        patch: dict[str, Json] = {}
        ctx: JsonMap = self.names["ctx"]
        for name, value in values:
            target, whole = assign_below(ctx, name, value, self.inputs.load)
            patch[target] = self.inputs.hold(whole)
            ctx = assign(ctx, {target: patch[target]})
        return patch


def route(plan: Plan, state: State, inputs: Inputs, run: Run) -> list[Draft]:
    """The facts that end `run`: ctx patches of its `set` and of chosen arcs, and
    `next.evaluated`."""
    if run.released == "due" and not run.ended:
        run = replace(run, status="done")
    here = _Boundary(
        plan, state, inputs, run, boundary_names(state, inputs, run, plan.step(run.step), plan.net.steps)
    )
    terminates = termination_of(here.step, run, state)
    try:
        if run.status == "done":
            here.assign(here.step.set, "step", "set")
        if terminates is None:
            _follow(here)
        failure = _find_failure(here) if terminates is None else error_of(here.step)
    except TemplateError as error:
        here.tokens.clear()
        terminates = None
        failure = ErrorInfo("template", error.message, step=run.step, line=here.step.line or None)
    fact = NextEvaluated(
        boundary=str(boundary(run, here.step)),
        arcs=tuple(here.decisions),
        tokens=tuple(here.tokens),
        failure=failure,
        stops=failure is not None and not run.undoes and (terminates is not None or stops(here.step)),
        warnings=tuple(here.warnings),
        terminates=terminates,
        times=here.times,
    )
    return [*here.patches, Draft(fact, step=run.step, run_id=run.id, dedup_key=f"next:{run.id}")]


def _follow(here: _Boundary) -> None:
    """Asks the arcs in order, choice by choice. Where something has routed, an exclusive router
    asks no further choice, and one of mode `first` only what the others assign."""
    if here.run.final or here.run.withdrawn:
        return
    for choice in choices(here.step):
        routes = here.step.router == "inclusive" or not here.tokens
        if not routes and here.step.router == "exclusive":
            return
        for number, arc in choice:
            if here.run.status not in ("failed", "cancelled") or arc.boundary:
                _take(here, number, arc, routes=routes or not arc.step)


def choices(step: Transition) -> list[list[tuple[int, Arc]]]:
    """The arcs of a step with their numbers, those of one choice together."""
    made: list[list[tuple[int, Arc]]] = []
    for number, arc in enumerate(step.arcs):
        if not (arc.also and made):
            made.append([])
        made[-1].append((number, arc))
    return made


def _take(here: _Boundary, number: int, arc: Arc, *, routes: bool) -> None:
    """Where its guard holds the arc assigns, and puts its token down if it `routes`."""
    if not _holds(here, arc, routes=routes):
        return
    place = f"next.{arc.step}" if arc.step else "next"
    here.assign(arc.set, "arc", f"{place}.set")
    if not (routes and arc.step):
        return
    args = {
        key: here.inputs.hold(here.evaluate(f"{place}.args.{key}", value)) for key, value in arc.args.items()
    }
    for copy in range(here.count(arc, place)):
        own = f"{here.run.id}/{number}" + (f"*{copy + 1}" if copy else "")
        here.tokens.append(here.place(Token(own, arc.id, arc.step, args)))


def _holds(here: _Boundary, arc: Arc, *, routes: bool) -> bool:
    held = arc.when is None or truth(arc.when, here.names, load=here.inputs.load)
    when = None if arc.when is None else str(arc.when)
    read = values_read(arc.when, here.names, guard=True) if isinstance(arc.when, str) else {}
    here.decisions.append(ArcDecision(arc.id, arc.step, when, read, held, held and routes))
    return held


def _find_failure(here: _Boundary) -> ErrorInfo | None:
    if here.tokens:
        return None
    if here.run.status == "failed":
        return here.run.error
    if here.run.status == "cancelled":
        return None
    step = here.step
    strict = here.plan.net.no_next_is_error if step.no_next_is_error is None else step.no_next_is_error
    if step.ways and strict and not here.run.final:
        message = f"No arc of step {step.name!r} took its outcome; add an arc without `when`."
        return ErrorInfo("router", message, step=step.name, line=step.line or None)
    return None
