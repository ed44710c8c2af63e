"""`case` of the classic dialect: rules of which all that hold act, and the first with `next`
routes."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from noetl.dsl.dialects.classic.routes import ClassicRoute, ClassicRouter, route
from noetl.dsl.dialects.guards import Guards, heads
from noetl.dsl.dialects.parts import Spot
from noetl.dsl.problems import Path
from noetl.dsl.read.origins import Tree
from noetl.dsl.read.report import ProblemReport
from noetl.facts.boundaries import BOUNDARY

SUCCEEDED: Final = "{{ outcome.status == 'ok' }}"
_OF_THE_WHOLE: Final = re.compile(r"""["'](loop|step)\.\w+["']""")


@dataclass(frozen=True, slots=True)
class ClassicRule:
    """One rule of a `case`."""

    path: Path
    #: Its value is None where the rule always acts.
    when: Spot
    #: All that stands under its `then`, in order.
    thens: list[Spot]

    @property
    def sinks(self) -> list[Spot]:
        return [sink for then in self.thens if (sink := then.get("sink")) is not None]

    @property
    def of_the_whole(self) -> bool:
        """Whether it is asked once, at the end of the step, and not for each iteration."""
        return _OF_THE_WHOLE.search(str(self.when.value)) is not None

    @property
    def of_failures(self) -> bool:
        """Whether it is asked after failures too: its guard mentions how the step ended."""
        return not BOUNDARY.isdisjoint(heads(self.when))


def rules(case: Spot, report: ProblemReport) -> list[ClassicRule]:
    """The rules, those that do nothing reported."""
    made = []
    for spot in case.items():
        then = spot.get("then")
        if then is None:
            report.missing(spot.path, "then", "the rule does not say what follows", "add then: {next: ...}")
            continue
        made.append(ClassicRule(spot.path, spot.get("when") or Spot(None, spot.path), then.items()))
    return made


def after(rule: ClassicRule, guards: Guards) -> Spot:
    """When the sinks of a rule run: as its arcs, after failures only where the guard mentions
    them."""
    return rule.when if rule.of_failures else guards.every(SUCCEEDED, rule.when)


def routed(found: list[ClassicRule], guards: Guards) -> ClassicRouter:
    """What the rules assign, and where they lead."""
    return ClassicRouter([choice for rule in found for choice in _choices(rule, guards)])


def _choices(rule: ClassicRule, guards: Guards) -> list[list[ClassicRoute]]:
    assigned = _assigned(rule)
    targets = [
        _target(one) for then in rule.thens if (following := then.get("next")) for one in following.items()
    ]
    if len(targets) == 1 and targets[0].when is None:
        return [[_guarded(targets[0], rule, guards, assigned)]]
    only = ClassicRoute(rule.path, when=rule.when, set=assigned)
    group = [_guarded(target, rule, guards, {}) for target in targets]
    if not group or not assigned:
        return [group] if group else [[only]] if assigned else []
    # What the guard reads must not have changed when it is asked again.
    return [group, [only]] if _changes_guard(rule, assigned) else [[only], group]


def _target(spot: Spot) -> ClassicRoute:
    """Of an arc `then` and `else` mean something, and nothing in `case`, which is told of them:
    they must not get there."""
    made = route(spot)
    return replace(made, rest={key: value for key, value in made.rest.items() if key not in ("then", "else")})


def _guarded(
    target: ClassicRoute, rule: ClassicRule, guards: Guards, assigned: dict[str, Tree]
) -> ClassicRoute:
    return replace(target, when=guards.every(rule.when, target.when), set={**assigned, **target.set})


def _assigned(rule: ClassicRule) -> dict[str, Tree]:
    made: dict[str, Tree] = {}
    for then in rule.thens:
        given = then.get("set")
        made |= {name: one.moved for name, one in given.entries().items()} if given is not None else {}
    return made


def _changes_guard(rule: ClassicRule, assigned: dict[str, Tree]) -> bool:
    """Whether the guard may read what the rule assigns: a variable by its own name, or through its
    scope."""
    names = {part for target in assigned for part in target.split(".")}
    return not names.isdisjoint(heads(rule.when)) or not heads(rule.when).isdisjoint({"ctx", "vars"})
