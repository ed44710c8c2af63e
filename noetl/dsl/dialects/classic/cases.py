"""`case` of the classic dialect: rules of which all that hold act, and the first with `next`
routes."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from typing import Any, Final

from noetl.dsl.dialects.parts import SUCCEEDED, Guards, Located, asks_how_it_ended, heads
from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Rewritten, Tree
from noetl.dsl.read.report import ProblemReport

_OF_THE_WHOLE: Final = re.compile(r"""["'](loop\.\w+|step\.(?!exit["'])\w+)["']""")
_OF_EACH: Final = re.compile(r"""["']((call|tool)\.\w+|step\.exit)["']""")
#: Ends of iterations are called `call.done` and `call.error` alone; `step.exit` is either.
_EXITED: Final = re.compile(r"""\bevent\.name\s*==\s*(["'])step\.exit\1""")
_EXIT: Final = re.compile(r"""(["'])step\.exit\1""")
#: What a step remembers while it is routed: the number of the choice that was taken.
_TAKEN: Final = "step.routed"
#: Keys of arcs that have fields; `then` and `else` mean nothing in `case`, where a warning says so.
_KNOWN: Final = frozenset({"step", "when", "set", "args", "input"})
_OF_RULES: Final = frozenset({"then", "else"})


@dataclass(frozen=True, slots=True)
class ClassicRoute:
    """An arc, whose parts know where they come from. Without `step` it only assigns."""

    path: Path
    step: Tree = None
    #: None where it is always taken.
    when: Located | None = None
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
        return Rewritten(given | self.rest, self.path)


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


def _route(spot: Located) -> ClassicRoute:
    """An item of `next`: the name of a step, or a mapping."""
    if isinstance(spot.value, str):
        return ClassicRoute(spot.path, step=spot.moved)
    keys = spot.entries()
    return ClassicRoute(
        spot.path,
        step=keys["step"].moved if "step" in keys else None,
        when=spot.get("when"),
        set=spot.mapping("set"),
        args=spot.mapping("args") | spot.mapping("input"),
        rest={key: one.moved for key, one in keys.items() if key not in _KNOWN},
    )


def router(spot: Located | None) -> ClassicRouter:
    """`next` of a step, in any form."""
    if spot is None:
        return ClassicRouter()
    if not (
        isinstance(spot.value, dict) and ({"arcs", "spec"} & spot.value.keys() or "step" not in spot.value)
    ):
        return ClassicRouter([[_route(item) for item in spot.items()]] if spot.value else [])
    arcs, spec = spot.get("arcs"), spot.mapping("spec")
    mode = spec.pop("mode", None)
    choices = [[_route(item) for item in choice.items()] for choice in arcs.items()] if arcs else []
    if choices and mode is not None and mode.value == "inclusive":
        choices = [[one for choice in choices for one in choice]]
    return ClassicRouter(choices, spec)


def behind(first: ClassicRouter, default: ClassicRouter, guards: Guards) -> ClassicRouter:
    """What `default` says where `first` did not route.

    All of `first` is asked, and assigns where it holds. What `default` assigns must not, once
    something else was taken: such routes ask which choice that was.
    """
    choices = [*first.choices, *default.choices]
    if any(route.set for route in default.routes) and len(choices) > 1:
        choices = [[_mark_taken(route, number) for route in choice] for number, choice in enumerate(choices)]
        start = len(first.choices)
        for number, choice in enumerate(choices[start:], start):
            choices[number] = [_guard_by_mark(route, number, guards) for route in choice]
    return ClassicRouter(choices, {**first.spec, **default.spec})


def _mark_taken(route: ClassicRoute, number: int) -> ClassicRoute:
    taken = {_TAKEN: f"{{{{ {_TAKEN} | default({number}) }}}}"}
    return replace(route, set={**route.set, **taken}) if route.step is not None else route


def _guard_by_mark(route: ClassicRoute, number: int, guards: Guards) -> ClassicRoute:
    if route.set.keys() <= {_TAKEN}:
        return route
    mine = f"{{{{ {_TAKEN} | default({number}) == {number} }}}}"
    return replace(route, when=guards.every(mine, route.when or Located(None, route.path)))


@dataclass(frozen=True, slots=True)
class ClassicRule:
    """One rule of a `case`."""

    path: Path
    #: Its value is None where the rule always acts.
    when: Located
    #: All that stands under its `then`, in order.
    thens: list[Located]
    #: Whether its sinks and its assignments are those of each iteration of the step's loop.
    each: bool = False

    @property
    def assigned(self) -> dict[str, Tree]:
        return {target: value for then in self.thens for target, value in then.mapping("set").items()}

    @property
    def sinks(self) -> list[Located]:
        return [sink for then in self.thens if (sink := then.get("sink")) is not None]

    @property
    def of_the_whole(self) -> bool:
        """Whether it is asked once, at the end of the step, and not for each iteration."""
        return _OF_THE_WHOLE.search(str(self.when.value)) is not None

    @property
    def names_exit(self) -> bool:
        """Whether it is about the end of the step, however that came."""
        return _EXIT.search(str(self.when.value)) is not None

    def of_iterations(self) -> ClassicRule:
        """The same rule of a step with a loop: about the end of a call or of the step it acts for
        each iteration, unless it is about the whole loop as well."""
        about_each = _OF_EACH.search(str(self.when.value)) is not None
        return replace(self, each=about_each and not self.of_the_whole)


def rules(case: Located, report: ProblemReport, *, in_loop: bool) -> list[ClassicRule]:
    """The rules of a step, which may have a loop; those that do nothing reported."""
    made = []
    for spot in case.items():
        then = spot.get("then")
        if then is None:
            report.missing(spot.path, "then", "the rule does not say what follows", "add then: {next: ...}")
            continue
        rule = ClassicRule(spot.path, spot.get("when") or Located(None, spot.path), then.items())
        made.append(rule.of_iterations() if in_loop else rule)
    return made


def guard_of_sinks(rule: ClassicRule, guards: Guards) -> Located:
    """When the sinks of a rule run: as its arcs, after failures only where the guard mentions
    them."""
    if rule.each:
        when = _EXITED.sub("event.name in ['call.done', 'call.error']", rule.when.value)
        return Located(_EXIT.sub("event.name", when), rule.when.path)
    return rule.when if asks_how_it_ended(rule.when) else guards.every(SUCCEEDED, rule.when)


def router_of(found: list[ClassicRule], guards: Guards) -> ClassicRouter:
    """What the rules assign, and where they lead."""
    return ClassicRouter([choice for rule in found for choice in _choices(rule, guards)])


def _choices(rule: ClassicRule, guards: Guards) -> list[list[ClassicRoute]]:
    assigned = {} if rule.each else rule.assigned
    targets = []
    for then in rule.thens:
        following = then.get("next")
        targets += [_route(one) for one in following.items()] if following is not None else []
    if len(targets) == 1 and targets[0].when is None:
        return [[_guard(targets[0], rule, guards, assigned)]]
    only = ClassicRoute(rule.path, when=rule.when, set=assigned)
    group = [_guard(target, rule, guards, {}) for target in targets]
    if not group or not assigned:
        return [group] if group else [[only]] if assigned else []
    # What the guard reads must not have changed when it is asked again.
    return [group, [only]] if _changes_guard(rule, assigned) else [[only], group]


def _guard(
    target: ClassicRoute, rule: ClassicRule, guards: Guards, assigned: dict[str, Tree]
) -> ClassicRoute:
    return replace(
        target,
        when=guards.every(rule.when, target.when),
        set={**assigned, **target.set},
        rest={key: value for key, value in target.rest.items() if key not in _OF_RULES},
    )


def _changes_guard(rule: ClassicRule, assigned: dict[str, Tree]) -> bool:
    """Whether the guard may read what the rule assigns: a variable by its own name, or through its
    scope."""
    names = {part for target in assigned for part in target.split(".")}
    return not heads(rule.when).isdisjoint({"ctx", "vars", *names})
