"""`sink` of the classic dialect: a task that takes a result as its input `data`.

Those that run once, when a loop is over, get another step. The loop's step evaluates everything
that its routing says and passes it; the step behind it runs the sinks, then routes by what it
received.

    fetch       next: {arcs: [{step: fetch.case, args: {data: ..., case: [...]}}]}
    fetch.case  tool: [result, sink, ...]
                next: {arcs: [{step: save, when: "{{ args.case[1] }}"}, ...]}
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Final

from noetl.dsl.dialects.classic.cases import ClassicRoute, ClassicRouter, ClassicRule, behind
from noetl.dsl.dialects.parts import FAILED, SUCCEEDED, Guards, Located, NewNames, follow_calls, heads
from noetl.dsl.read.origins import Rewritten, Tree, plain
from noetl.expressions import names_used
from noetl.facts.event_names import BOUNDARY
from noetl.facts.json import Json
from noetl.net.model import KindInfo, Template

_QUOTED: Final = re.compile(r"""["'](\w+\.\w+)["']""")
_OF_SUCCESSES: Final = frozenset({"loop.done", "loop.finished", "step.done", "call.done"})
_TURNS: Final = re.compile(r"!=|\bnot\b|\belse\b|\bor\b")


#: What a sink takes, as its own templates read it.
_DATA: Final = "{{ args.data }}"


class SinkTasks:
    """Makes tasks of sinks. `kinds` are those of tools, and `book` the workbook, by name."""

    def __init__(self, kinds: Mapping[str, KindInfo], book: Mapping[str, Json]) -> None:
        self._kinds = kinds
        self._book = book

    def of(
        self,
        sink: Located,
        labels: NewNames,
        data: Template = None,
        after: Tree = None,
        rows: Template = _DATA,
    ) -> list[Tree]:
        """The tasks of one `sink`, as items of a list of tools: `{label: {kind, ...}}`.

        `data` is what they take, unless they say so themselves (None: they are given it), and
        `rows` what of it goes to a table; `after` is when they run.
        """
        return [task for one in sink.items() for task in self._tasks(one, labels, data, after, rows)]

    def _tasks(
        self, sink: Located, labels: NewNames, data: Template, after: Tree, rows: Template
    ) -> list[Tree]:
        label = labels.new(_name(sink) or "sink")
        tool = _tool(sink)
        given = _merge(sink, "input")
        handed = {**_merge(sink, "args"), **given}
        if self._lacks_rows(tool):
            tool["rows"] = _DATA if "data" in handed else rows
        if data is not None and "data" not in handed:
            tool["input"] = {"data": data, **given}
        if after is not None:
            tool["spec"] = {**_merge(sink, "spec"), "after": after}
        made: list[Tree] = [{label: Rewritten(tool, sink.path)}]
        if data is not None and any(chain[0] == "data" for chain in names_used(plain(handed))):
            made.insert(0, {labels.new(f"{label}.data"): Rewritten(_name_data(data, after), sink.path)})
        return made

    def _lacks_rows(self, tool: Mapping[str, Tree]) -> bool:
        """Whether a tool names a table, and not what its kind is to write there."""
        written: dict[str, Any] = plain(dict(tool))
        called = follow_calls(written, self._book)
        said: dict[str, Any] = {}
        for one in (*reversed(called), written):
            said |= {**(one.get("spec") or {}), **one}
        kind = self._kinds.get(str((called[-1] if called else written).get("kind")))
        takes = kind is not None and {"table", "rows"} <= kind.schema.get("properties", {}).keys()
        return takes and said.get("table") is not None and "rows" not in said


def _name_data(data: Template, after: Tree) -> dict[str, Tree]:
    """A task that calls the data by its name: inputs do not see one another."""
    spec = {} if after is None else {"spec": {"after": after}}
    return {"kind": "noop", "result": data, "set": {"data": "{{ output }}"}, **spec}


def _tool(sink: Located) -> dict[str, Tree]:
    """The keys of the tool; those beside `tool` are laid over it."""
    made: dict[str, Tree] = {}
    for part in _parts(sink):
        if isinstance(part.value, str):
            made["kind"] = part.moved
        else:
            made |= {key: spot.moved for key, spot in part.entries().items() if key != "tool"}
    return made


def _parts(sink: Located) -> list[Located]:
    """The sink and what stands below its `tool`, the innermost first."""
    inner = sink.get("tool") if isinstance(sink.value, dict) else None
    return [*(_parts(inner) if inner else []), sink]


def _merge(sink: Located, key: str) -> dict[str, Tree]:
    """The entries of the mappings under `key`; those beside `tool` win."""
    found = [part.mapping(key) for part in _parts(sink) if isinstance(part.value, dict)]
    return {name: value for given in found for name, value in given.items()}


def _name(sink: Located) -> str | None:
    """What the sink is called; `name` of a call of the workbook is its callee's."""
    tool = _tool(sink)
    for key in ("label", "name"):
        if key in tool and (key, plain(tool.get("kind"))) != ("name", "workbook"):
            return str(plain(tool[key]))
    return None


class _Handover:
    """What the step of the loop evaluates, in the order in which it is passed."""

    def __init__(self, guards: Guards, *, failures: bool) -> None:
        self.values: list[Tree] = []
        self._guards = guards
        self._failures = failures

    def add(self, template: Tree) -> str:
        """The template that reads again what `template` evaluates to."""
        self.values.append(template)
        return f"{{{{ args.case[{len(self.values) - 1}] }}}}"

    def guard(self, when: Located) -> Located:
        """A guard that mentions no failure is for successes only; that has to be said where
        failures come as well."""
        if self._failures and not _mentions_failures(when):
            when = self._guards.every(SUCCEEDED, when)
        literal = when.value is None or isinstance(when.value, bool)
        return when if literal else Located(self.add(when.moved), when.path)

    def router(self, given: ClassicRouter) -> ClassicRouter:
        """The same router, for the step behind."""
        return replace(given, choices=[[self._route(route) for route in choice] for choice in given.choices])

    def _route(self, route: ClassicRoute) -> ClassicRoute:
        return replace(
            route,
            when=self.guard(route.when or Located(None, route.path)),
            # The order of keys means nothing, so it must not decide which number a value has.
            set={name: Rewritten(self.add(given), given.path) for name, given in sorted(route.set.items())},
            args={name: Rewritten(self.add(given), given.path) for name, given in sorted(route.args.items())},
        )


def step_behind(
    name: str,
    found: list[ClassicRule],
    routers: tuple[ClassicRouter, ClassicRouter],
    sinks: SinkTasks,
    guards: Guards,
) -> tuple[ClassicRouter, Tree]:
    """How the loop's step `name` routes, and the step behind it, which runs the sinks of `found`.
    `routers` are what the cases say, and the default behind them."""
    cases, default = routers
    routes = (*cases.routes, *default.routes)
    asked = [rule.when for rule in found] + [route.when for route in routes if route.when is not None]
    of_failures = {str(when.value): when for when in asked if _mentions_failures(when)}
    handover = _Handover(guards, failures=bool(of_failures))
    labels = NewNames({"result"})
    tool: list[Tree] = [{"result": {"kind": "noop", "result": "{{ args.data }}"}}]
    for rule in found:
        after = handover.guard(rule.when).moved
        for sink in rule.sinks:
            tool += sinks.of(sink, labels, _DATA, after)
    onwards = behind(handover.router(cases), handover.router(default), guards)
    if of_failures:
        tool.append({labels.new("unhandled"): _fail_unhandled(onwards, handover, guards)})
    target, path = f"{name}.case", found[0].path
    made: dict[str, Tree] = {"step": target, "tool": tool}
    if onwards.choices:
        made["next"] = onwards.tree
    # After failures only where something there asks for them.
    when = guards.some(SUCCEEDED, *of_failures.values()) if of_failures else None
    data = "{{ result | default({'stats': error.stats}) }}" if of_failures else "{{ result }}"
    route = ClassicRoute(path, step=target, when=when, args={"data": data, "case": handover.values})
    return ClassicRouter([[route]]), Rewritten(made, path)


def _mentions_failures(when: Located) -> bool:
    """Whether a guard may hold after a failure: it mentions how the step ended, and not only to ask
    for a success."""
    asks = heads(when) & BOUNDARY
    if asks != {"event"}:
        return bool(asks)
    named = set(_QUOTED.findall(when.value))
    return not named or not named <= _OF_SUCCESSES or _TURNS.search(when.value) is not None


def _fail_unhandled(onwards: ClassicRouter, handover: _Handover, guards: Guards) -> Tree:
    """Fails where the loop failed and no route takes that."""
    taken = [route.when for route in onwards.routes if route.step is not None]
    after = guards.every(handover.add(FAILED), guards.no(guards.some(*taken)) if taken else None).value
    return {
        "kind": "noop",
        "spec": {"after": after, "policy": {"rules": [{"else": {"then": {"do": "fail"}}}]}},
    }
