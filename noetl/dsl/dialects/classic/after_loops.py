"""Sinks of the classic dialect that run once, when a loop is over: they get a step of their own.

The loop's step evaluates everything that its routing says and hands it over; the step behind it
runs the sinks, then routes by what it was handed.

    fetch       next: {arcs: [{step: fetch.case, args: {data: ..., case: [...]}}]}
    fetch.case  tool: [result, sink, ...]
                next: {arcs: [{step: save, when: "{{ args.case[1] }}"}, ...]}
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from noetl.dsl.dialects.classic.cases import SUCCEEDED, ClassicRule
from noetl.dsl.dialects.classic.routes import ClassicRoute, ClassicRouter, behind
from noetl.dsl.dialects.classic.sinks import Labels, sink_tasks
from noetl.dsl.dialects.guards import Guards, heads
from noetl.dsl.dialects.parts import Spot
from noetl.dsl.read.origins import Moved, Tree
from noetl.facts.boundaries import BOUNDARY

_FAILED = "{{ outcome.status == 'error' }}"
_QUOTED: Final = re.compile(r"""["'](\w+\.\w+)["']""")
_OF_SUCCESSES: Final = frozenset({"loop.done", "loop.finished", "step.done", "call.done"})
_TURNS: Final = re.compile(r"!=|\bnot\b|\belse\b|\bor\b")


class Handing:
    """What the step of the loop evaluates, in the order in which it is handed over."""

    def __init__(self, guards: Guards, *, failures: bool) -> None:
        self.values: list[Tree] = []
        self._guards = guards
        self._failures = failures

    def value(self, template: Tree) -> Tree:
        self.values.append(template)
        reference = f"{{{{ args.case[{len(self.values) - 1}] }}}}"
        return Moved(reference, template.path) if isinstance(template, Moved) else reference

    def guard(self, when: Spot) -> Spot:
        """A guard that mentions no failure is for successes only; that has to be said where
        failures come as well."""
        if self._failures and not mentions_failures(when):
            when = self._guards.every(SUCCEEDED, when)
        if when.value is None or isinstance(when.value, bool):
            return when
        self.values.append(when.moved)
        return Spot(f"{{{{ args.case[{len(self.values) - 1}] }}}}", when.path)

    def router(self, given: ClassicRouter) -> ClassicRouter:
        """The same router, for the step behind."""
        return replace(given, choices=[[self._way(route) for route in choice] for choice in given.choices])

    def _way(self, route: ClassicRoute) -> ClassicRoute:
        return replace(
            route,
            when=self.guard(route.when or Spot(None, route.path)),
            # The order of keys means nothing, so it must not decide which number a value has.
            set={name: self.value(given) for name, given in sorted(route.set.items())},
            args={name: self.value(given) for name, given in sorted(route.args.items())},
        )


def step_behind(
    name: str, found: list[ClassicRule], cases: ClassicRouter, default: ClassicRouter, guards: Guards
) -> tuple[ClassicRouter, Tree]:
    """How the loop's step `name` routes, and the step behind it, which runs the sinks of
    `found`."""
    routes = (*cases.routes, *default.routes)
    asked = [rule.when for rule in found] + [route.when for route in routes if route.when is not None]
    of_failures = {str(when.value): when for when in asked if mentions_failures(when)}
    handing = Handing(guards, failures=bool(of_failures))
    labels = Labels(iter(("result",)))
    tool: list[Tree] = [{"result": {"kind": "noop", "result": "{{ args.data }}"}}]
    for rule in found:
        after = handing.guard(rule.when).moved
        for sink in rule.sinks:
            tool += sink_tasks(sink, labels, "{{ args.data }}", after)
    onwards = behind(handing.router(cases), handing.router(default), guards)
    if of_failures:
        tool.append({labels.new("unhandled"): _unhandled(onwards, handing, guards)})
    target, path = f"{name}.case", found[0].path
    made: dict[str, Tree] = {"step": target, "tool": tool}
    if onwards.choices:
        made["next"] = onwards.tree
    # After failures only where something there asks for them.
    when = guards.some(SUCCEEDED, *of_failures.values()) if of_failures else None
    data = "{{ result | default({'stats': error.stats}) }}" if of_failures else "{{ result }}"
    route = ClassicRoute(path, step=target, when=when, args={"data": data, "case": handing.values})
    return ClassicRouter([[route]]), Moved(made, path)


def mentions_failures(when: Spot) -> bool:
    """Whether a guard may hold after a failure: it mentions how the step ended, and not only to ask
    for a success."""
    asks = heads(when) & BOUNDARY
    if asks != {"event"}:
        return bool(asks)
    named = set(_QUOTED.findall(when.value))
    return not named or not named <= _OF_SUCCESSES or _TURNS.search(when.value) is not None


def _unhandled(onwards: ClassicRouter, handing: Handing, guards: Guards) -> Tree:
    """Fails where the loop failed and no route takes that."""
    handing.values.append(_FAILED)
    failed = f"{{{{ args.case[{len(handing.values) - 1}] }}}}"
    taken = [route.when for route in onwards.routes if route.step is not None]
    after = guards.every(failed, guards.no(guards.some(*taken)) if taken else None).value
    return {
        "kind": "noop",
        "spec": {"after": after, "policy": {"rules": [{"else": {"then": {"do": "fail"}}}]}},
    }
