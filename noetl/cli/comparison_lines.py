"""Lines of a comparison of two executions, for people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from noetl.cli.plan_steps import IN, Line, columns
from noetl.facts import json
from noetl.facts.json import Json
from noetl.history.accounts import Asked
from noetl.history.differences import Comparison, Difference, GuardDifference, Parting, Section, Side

Row = tuple[list[str], str]

#: As much of a net's digest as tells it from another one.
DIGITS: Final = 12


def comparison(found: Comparison) -> Iterator[Line]:
    """The two executions, and each section in which they differ: what is so in the first one stands
    before what is so in the second one."""
    yield from columns([_side("A", found.a), _side("B", found.b)])
    yield Line("")
    yield Line(found.summary, "plain" if found.same else "warning")
    yield from _section("playbook", found.playbook, map(_playbook, found.playbook.shown))
    yield from _values("inputs", found.inputs)
    yield from _section("runs", found.path, ([one.step, f"{one.a} → {one.b}"] for one in found.path.shown))
    yield from _parting(found.parting)
    yield from _section("guards", found.guards, chain.from_iterable(map(_guard, found.guards.shown)))
    yield from _values("status of steps", found.steps)
    yield from _values("results", found.results)
    yield from _values("errors", found.errors)
    times = ([one.step, f"{_time(one.a)} → {_time(one.b)}"] for one in found.durations.shown)
    yield from _section("durations", found.durations, times)


def _side(name: str, side: Side) -> Row:
    error = f"{side.error.get('type') or side.error['kind']}: {side.error['message']}" if side.error else ""
    playbook = f"{side.path}@{side.playbook_version}"
    cells = [name, side.execution_id, playbook, side.status, _time(side.duration_ms), error]
    return cells, "title"


def _time(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms"


def _values(title: str, section: Section[Difference]) -> Iterator[Line]:
    return _section(title, section, map(_value, section.shown))


def _playbook(one: Difference) -> list[str]:
    is_net = one.path == "net"
    return _value(replace(one, a=str(one.a)[:DIGITS], b=str(one.b)[:DIGITS]) if is_net else one)


def _value(one: Difference) -> list[str]:
    match one.change:
        case "added":
            return [one.path, f"only in B: {_text(one.b)}"]
        case "removed":
            return [one.path, f"only in A: {_text(one.a)}"]
        case "changed":
            return [one.path, f"{_text(one.a)} → {_text(one.b)}"]


def _text(value: Json) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _guard(one: GuardDifference) -> list[list[str]]:
    return [[f"{one.run} → {one.step}", "A", _asked(one.a)], ["", "B", _asked(one.b)]]


def _asked(found: Asked | None) -> str:
    return "not asked" if found is None else f"{found.text}: {found.said}"


def _parting(found: Parting | None) -> Iterator[Line]:
    if found is not None:
        behind = f"behind {found.behind}" if found.behind else "at the beginning"
        yield Line("")
        yield Line("the order of runs parts", "title")
        yield Line(f"{IN}{behind}: {found.a or 'nothing'} → {found.b or 'nothing'}")


def _section(title: str, section: Section[Any], rows: Iterable[list[str]]) -> Iterator[Line]:
    found = [(row, "plain") for row in rows]
    if not found:
        return
    yield Line("")
    yield Line(title, "title")
    yield from (Line(IN + line.text, line.mood) for line in columns(found))
    if section.more:
        yield Line(f"{IN}{section.more} more", "quiet")
