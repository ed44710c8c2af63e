"""The boundary of a step: its `set`, the guards of its arcs, and the tokens that they yield."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from noetl.engine.inputs import Inputs
from noetl.engine.joins import place_token
from noetl.engine.names import boundary, boundary_names
from noetl.engine.plan import Plan
from noetl.engine.state import Run, State
from noetl.errors import TemplateError
from noetl.expressions import evaluate_at, truth, values_read
from noetl.facts.events import (
    ArcDecision,
    CtxPatched,
    Draft,
    NextEvaluated,
    StepCancelled,
    Token,
)
from noetl.facts.json import Json, JsonMap, assign
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import assigned_below
from noetl.facts.warnings import Warned
from noetl.net.model import Arc, Assignment, Transition


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
    warnings: list[Warned] = field(default_factory=list)

    @property
    def step(self) -> Transition:
        return self.plan.step(self.run.step)

    def evaluate(self, place: str, template: Json) -> Json:
        return evaluate_at(place, template, self.names, self.warnings, load=self.inputs.load)

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
        self.names = boundary_names(state, self.inputs, run, self.step)

    def _patch(self, values: list[tuple[str, Json]]) -> JsonMap:
        """Assignments to ctx; what they change a part of may be stored by reference."""
        patch: dict[str, Json] = {}
        ctx: JsonMap = self.names["ctx"]
        for name, value in values:
            target, whole = assigned_below(ctx, name, value, self.inputs.load)
            patch[target] = self.inputs.hold(whole)
            ctx = assign(ctx, {target: patch[target]})
        return patch


def route(plan: Plan, state: State, inputs: Inputs, run: Run) -> list[Draft]:
    """The facts that end `run`: ctx patches of its `set` and of chosen arcs, and
    `next.evaluated`."""
    here = _Boundary(plan, state, inputs, run, boundary_names(state, inputs, run, plan.step(run.step)))
    try:
        if run.status == "done":
            here.assign(here.step.set, "step", "set")
        _follow(here)
        failure = _find_failure(here)
    except TemplateError as error:
        here.tokens.clear()
        failure = ErrorInfo("template", error.message, step=run.step, line=here.step.line or None)
    return [*here.patches, _record(here, failure)]


def _record(here: _Boundary, failure: ErrorInfo | None) -> Draft:
    fact = NextEvaluated(
        boundary=str(boundary(here.run, here.step)),
        arcs=tuple(here.decisions),
        tokens=tuple(here.tokens),
        failure=failure,
        stops=failure is not None and stops(here.step),
        warnings=tuple(here.warnings),
    )
    return Draft(fact, step=here.run.step, run_id=here.run.id, dedup_key=f"next:{here.run.id}")


def stops(step: Transition) -> bool:
    """Whether a failed branch at `step` fails the whole execution at once: as the step says, or
    else the executor."""
    return step.failure.mode != "best_effort"


def _follow(here: _Boundary) -> None:
    """Asks the arcs in order, choice by choice. Where something has routed, an exclusive router
    asks no further choice, and one of mode `first` only what the others assign."""
    if here.run.final:
        return
    for choice in choices(here.step):
        routes = here.step.router == "inclusive" or not here.tokens
        if not routes and here.step.router == "exclusive":
            return
        for number, arc in choice:
            if here.run.status != "failed" or arc.boundary:
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
    token = Token(f"{here.run.id}/{number}", arc.id, arc.step, args)
    here.tokens.append(place_token(here.plan, here.state, token))


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
    step = here.step
    strict = here.plan.net.no_next_is_error if step.no_next_is_error is None else step.no_next_is_error
    if step.ways and strict and not here.run.final:
        message = f"No arc of step {step.name!r} took its outcome; add an arc without `when`."
        return ErrorInfo("router", message, step=step.name, line=step.line or None)
    return None


def withdraw(run: Run, reason: str) -> Draft:
    return Draft(StepCancelled(reason), step=run.step, run_id=run.id, dedup_key=f"cancelled:{run.id}")
