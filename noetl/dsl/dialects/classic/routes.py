"""Routers while they are put together: choices of routes, of which some only assign."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from noetl.dsl.dialects.guards import Guards
from noetl.dsl.dialects.parts import Spot
from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Moved, Tree

#: What a step remembers while it is routed: the number of the choice that was taken.
_TAKEN = "step.routed"


@dataclass(frozen=True, slots=True)
class ClassicRoute:
    """An arc, whose parts know where they come from. Without `step` it only assigns."""

    path: Path
    step: Tree = None
    #: None where it is always taken.
    when: Spot | None = None
    set: dict[str, Tree] = field(default_factory=dict)
    args: dict[str, Tree] = field(default_factory=dict)
    #: Keys that stay as they are.
    rest: dict[str, Tree] = field(default_factory=dict)

    @property
    def tree(self) -> Tree:
        given: dict[str, Tree] = {"step": self.step} if self.step is not None else {}
        if self.when is not None and self.when.value not in (None, True):
            given["when"] = self.when.moved
        given |= {key: value for key, value in (("set", self.set), ("args", self.args)) if value}
        return Moved(given | self.rest, self.path)


@dataclass(frozen=True, slots=True)
class ClassicRouter:
    """The choices of a router, in order, and what else its `spec` says."""

    choices: list[list[ClassicRoute]] = field(default_factory=list)
    spec: dict[str, Any] = field(default_factory=dict)

    @property
    def routes(self) -> list[ClassicRoute]:
        return [route for choice in self.choices for route in choice]

    @property
    def tree(self) -> Tree:
        arcs: list[Tree] = []
        for choice in self.choices:
            trees = [route.tree for route in choice]
            arcs.append(trees[0] if len(trees) == 1 else trees)
        # Where nothing is assigned, it does not matter whether the others are asked.
        assigns = any(route.set for route in self.routes)
        spec = {**self.spec, "mode": "first"} if assigns else self.spec
        return {"spec": spec, "arcs": arcs} if spec else {"arcs": arcs}


def route(spot: Spot) -> ClassicRoute:
    """An item of `next`: the name of a step, or a mapping."""
    if isinstance(spot.value, str):
        return ClassicRoute(spot.path, step=spot.moved)
    keys = spot.entries()
    known = {"step", "when", "set", "args", "input"}
    return ClassicRoute(
        spot.path,
        step=keys["step"].moved if "step" in keys else None,
        when=spot.get("when"),
        set=_moved(spot, "set"),
        args=_moved(spot, "args") | _moved(spot, "input"),
        rest={key: one.moved for key, one in keys.items() if key not in known},
    )


def _moved(spot: Spot, key: str) -> dict[str, Tree]:
    given = spot.get(key)
    return {} if given is None else {name: one.moved for name, one in given.entries().items()}


def router(spot: Spot | None) -> ClassicRouter:
    """`next` of a step, in any form."""
    if spot is None:
        return ClassicRouter()
    if not (
        isinstance(spot.value, dict) and ({"arcs", "spec"} & spot.value.keys() or "step" not in spot.value)
    ):
        return ClassicRouter([[route(item) for item in spot.items()]] if spot.value else [])
    spec, arcs = spot.get("spec"), spot.get("arcs")
    kept = {} if spec is None else {key: one.moved for key, one in spec.entries().items() if key != "mode"}
    choices = [[route(item) for item in choice.items()] for choice in arcs.items()] if arcs else []
    if spec is not None and spec.value.get("mode") == "inclusive":
        choices = [[one for choice in choices for one in choice]] if choices else []
    return ClassicRouter(choices, kept)


def behind(first: ClassicRouter, default: ClassicRouter, guards: Guards) -> ClassicRouter:
    """What `default` says where `first` did not route.

    All of `first` is asked, and assigns where it holds. What `default` assigns must not, once
    something else was taken: such routes ask which choice that was.
    """
    choices = [*first.choices, *default.choices]
    if any(route.set for route in default.routes) and len(choices) > 1:
        choices = [_told(choice, number) for number, choice in enumerate(choices)]
        start = len(first.choices)
        for number, choice in enumerate(choices[start:], start):
            choices[number] = [_only(route, number, guards) for route in choice]
    return ClassicRouter(choices, {**first.spec, **default.spec})


def _told(choice: list[ClassicRoute], number: int) -> list[ClassicRoute]:
    taken = {_TAKEN: f"{{{{ {_TAKEN} | default({number}) }}}}"}
    return [
        replace(route, set={**route.set, **taken}) if route.step is not None else route for route in choice
    ]


def _only(route: ClassicRoute, number: int, guards: Guards) -> ClassicRoute:
    if route.set.keys() <= {_TAKEN}:
        return route
    mine = f"{{{{ {_TAKEN} | default({number}) == {number} }}}}"
    return replace(route, when=guards.every(mine, route.when or Spot(None, route.path)))
