"""Sinks of the classic dialect that run once, when a loop is over: they get a step of their own.

The loop's step evaluates everything that its routing says and hands it over; the step behind it runs the sinks, then
routes by what it was handed.

    fetch       next: {arcs: [{step: fetch.case, args: {data: ..., case: [...]}}]}
    fetch.case  tool: [result, sink, ...]
                next: {arcs: [{step: save, when: "{{ args.case[1] }}"}, ...]}
"""

from __future__ import annotations

from dataclasses import replace

from noetl.dsl.lowering.cases import SUCCEEDED, Rule
from noetl.dsl.lowering.guards import Guards, heads
from noetl.dsl.lowering.sinks import Labels, sink_tasks
from noetl.dsl.lowering.ways import Router, Way
from noetl.dsl.origins import Moved, Tree
from noetl.dsl.problems import Path
from noetl.dsl.routes import BOUNDARY
from noetl.net.model import Template

_FAILED = "{{ outcome.status == 'error' }}"


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

    def guard(self, when: Template, at: Path) -> Template:
        """A guard that mentions no failure is for successes only; that has to be said where failures come as well."""
        if self._failures and BOUNDARY.isdisjoint(heads(when)):
            when = self._guards.every(at, SUCCEEDED, when)
        if when is None or isinstance(when, bool):
            return when
        self.values.append(Moved(when, at))
        return f"{{{{ args.case[{len(self.values) - 1}] }}}}"

    def way(self, way: Way) -> Way:
        return replace(
            way,
            when=self.guard(way.when, way.when_path or way.path),
            set={name: self.value(given) for name, given in way.set.items()},
            args={name: self.value(given) for name, given in way.args.items()},
        )


def step_behind(name: str, found: list[Rule], routes: Router, guards: Guards) -> tuple[Router, Tree]:
    """How the loop's step `name` routes, and the step behind it, which runs the sinks of `found`."""
    mentioning = [way for way in routes.ways if not BOUNDARY.isdisjoint(heads(way.when))]
    asked = [(rule.when, rule.when_path) for rule in found if rule.of_failures]
    asked += [(way.when, way.when_path) for way in mentioning]
    handing = Handing(guards, failures=bool(asked))
    labels = Labels(iter(("result",)))
    sinks: list[Tree] = []
    for rule in found:
        after = handing.guard(rule.when, rule.when_path)
        for sink in rule.sinks:
            sinks += sink_tasks(sink, labels, "{{ args.data }}", True if after is None else after)
    onwards = Router([[handing.way(way) for way in choice] for choice in routes.choices], routes.spec)
    target = f"{name}.case"
    tool = [{"result": {"kind": "noop", "result": "{{ args.data }}"}}, *sinks]
    if asked:
        tool.append({labels.new("unhandled"): _unhandled(onwards, handing, guards)})
    behind: dict[str, Tree] = {"step": target, "tool": tool}
    if onwards.choices:
        behind["next"] = onwards.tree
    data = "{{ result | default({'stats': error.stats}) }}" if asked else "{{ result }}"
    handed: dict[str, Tree] = {"data": data, "case": handing.values}
    when = guards.some(asked[0][1], SUCCEEDED, *(one for one, _ in asked)) if asked else None
    way = Way(found[0].path, step=target, when=when, when_path=found[0].when_path, args=handed)
    return Router([[way]]), Moved(behind, found[0].path)


def _unhandled(onwards: Router, handing: Handing, guards: Guards) -> Tree:
    """Fails where the loop failed and no way takes that."""
    handing.values.append(_FAILED)
    failed = f"{{{{ args.case[{len(handing.values) - 1}] }}}}"
    taken = [way.when for way in onwards.ways if way.step is not None]
    after = guards.every((), failed, guards.no((), guards.some((), *taken)) if taken else None)
    return {
        "kind": "noop",
        "spec": {"after": after, "policy": {"rules": [{"else": {"then": {"do": "fail"}}}]}},
    }
