"""A forecast for people: the steps as they follow each other, then what all of it touches and needs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator
from typing import Final, assert_never

import click

from noetl.cli.plan_lines import MOODS, Line, columns, cut, names, reads, short, wrapped
from noetl.forecast.model import (
    ArcAhead,
    Forecast,
    LoopAhead,
    Rendered,
    StepAhead,
    TaskAhead,
    errors_of,
    needs_of,
    warnings_of,
)
from noetl.forecast.tasks import place_of
from noetl.net.model import Admission, Join

#: Indents: of what stands in a section, and of what is said of a step.
_IN: Final = "  "
_DEEP: Final = "     "


def told(forecast: Forecast) -> None:
    """Prints to standard output; on a terminal lines are wrapped."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in lines(forecast):
        for text in wrapped(line.text, width):
            click.echo(click.style(text, **MOODS[line.mood]) if line.mood != "plain" else text)


def lines(forecast: Forecast) -> Iterator[Line]:
    yield Line(f"{forecast.name} ({forecast.path}): what a run would do. Nothing was run.", "title")
    yield from _section("workload", _workload(forecast))
    yield from _section("steps", _steps(forecast))
    yield from _section("touches", _touches(forecast))
    yield from _section(
        "queues", (Line(f"{queue}: {names(steps)}") for queue, steps in forecast.queues.items())
    )
    yield from _section("secrets", _secrets(forecast))
    yield from _section("environment", _environment(forecast))
    yield from _section("playbooks", _playbooks(forecast))
    yield from _section("cycles", (Line(f"{' → '.join((*cycle, cycle[0]))}") for cycle in forecast.cycles))
    yield from _section("never reached", _unreached(forecast))


def _section(title: str, content: Iterable[Line]) -> Iterator[Line]:
    found = list(content)
    if found:
        yield Line("")
        yield Line(title, "title")
        yield from (Line(_IN + line.text, line.mood) for line in found)


# --- workload and steps ---


def _workload(forecast: Forecast) -> Iterator[Line]:
    rows = [
        ([name, _value(value)], "bad" if value.error else "plain")
        for name, value in forecast.workload.items()
    ]
    yield from columns(rows)
    yield from (Line(f"would warn: {one}", "warning") for one in warnings_of(forecast.workload.values()))


def _value(value: Rendered) -> str:
    if value.error:
        return f"would fail: {value.error}"
    return short(value.value) + reads(value.needs)


def _steps(forecast: Forecast) -> Iterator[Line]:
    for number, step in enumerate(forecast.steps, 1):
        role = (
            "entry"
            if step.name == forecast.entry
            else "last, once"
            if step.name == forecast.final_step
            else ""
        )
        said = [step.name, role, f"queue {step.queue}" if step.queue else ""]
        yield Line(f"{number:>3}  {' · '.join(filter(None, said))}", "title")
        yield from (Line(_DEEP + line.text, line.mood) for line in _step(step))


def _step(step: StepAhead) -> Iterator[Line]:
    if step.description:
        yield Line(cut(step.description), "quiet")
    if step.joins:
        yield Line(f"joins {names(step.sources)}: {_join(step.join)}")
    if step.admit is not None:
        yield Line(_admission(step.admit))
    if step.loop is not None:
        yield from _loop(step.loop)
    yield from _failures(step.args.values())
    for task in step.tasks:
        yield from _task(task, named=len(step.tasks) > 1)
    for arc in step.arcs:
        yield from _arc(arc)


def _join(join: Join) -> str:
    rest = ", and cancels the rest" if join.cancel_rest else ""
    match join.mode:
        case "auto":
            return f"once, when no other branch can still come{rest}"
        case "all":
            return f"when all have come{rest}"
        case "any":
            return f"for each that comes{rest}"
        case "first":
            return f"for the first that comes{rest}"
        case "count":
            return f"when {join.count} have come{rest}"
        case _:
            assert_never(join.mode)


def _admission(admit: Admission) -> str:
    rules = (
        f"{'admitted' if rule.allow else 'refused'} {'otherwise' if rule.when is None else f'when {short(rule.when)}'}"
        for rule in admit.rules
    )
    denied = {"pending": "it waits", "skip": "it is skipped", "fail": "it fails"}
    return f"{', '.join(rules)}; where it is refused {denied.get(admit.on_deny, admit.on_deny)}"


def _loop(loop: LoopAhead) -> Iterator[Line]:
    count = (
        "as many as that has" if loop.count is None else f"{loop.count} item{'' if loop.count == 1 else 's'}"
    )
    width = f", {short(loop.width.value)} at a time" if loop.mode == "parallel" else ""
    if loop.cursor is None:
        where = f"in {short(loop.collection.value)}: {count}"
    else:
        where = f"that {loop.cursor} claims: as many as there are"
    yield Line(f"for each {loop.iterator} {where}, {loop.mode}{width}")
    if needs := needs_of((loop.collection, loop.width)):
        yield Line(f"{_IN}reads {names(needs)}", "quiet")
    yield from _failures((loop.collection, loop.width))


def _task(task: TaskAhead, *, named: bool) -> Iterator[Line]:
    said = [f"{task.name}  {task.kind}" if named else task.kind, *(touch for touch in task.touches[:1])]
    if task.tries is not None:
        said.append(f"up to {short(task.tries)} tries")
    if task.jumps:
        said.append(f"may jump to {names(task.jumps)}")
    yield Line("  ".join(said))
    for touch in task.touches[1:]:
        yield Line(f"{_IN}{touch}")
    if task.needs:
        yield Line(f"{_IN}reads {names(task.needs)}", "quiet")
    yield from _failures((*task.config.values(), *task.args.values()))


def _arc(arc: ArcAhead) -> Iterator[Line]:
    yield Line(f"→ {arc.step}{_guard(arc)}", "quiet" if arc.taken is False else "plain")
    yield from _failures(arc.values)


def _guard(arc: ArcAhead) -> str:
    when = "" if arc.when is None else f" when {short(arc.when)}"
    match arc.taken:
        case True:
            return f"{when} (it holds)" if when else ""
        case False:
            return f"{when} (never, with this workload)"
        case None if when:
            return when
        case None:
            return " otherwise"


def _failures(values: Iterable[Rendered]) -> Iterator[Line]:
    every = tuple(values)
    yield from (Line(f"would fail: {error}", "bad") for error in errors_of(every))
    yield from (Line(f"would warn: {warning}", "warning") for warning in warnings_of(every))


# --- what all of it comes to ---


def _touches(forecast: Forecast) -> Iterator[Line]:
    """Each touch once, with the places that do it and how often, where a loop does."""
    found: dict[tuple[str, str], list[str]] = {}
    for step in forecast.steps:
        for task in step.tasks:
            for touch in task.touches if task.effects != "none" else ():
                found.setdefault((task.kind, touch), []).append(place_of(step, task) + _times(step))
    return columns([([kind, touch, names(places)], "plain") for (kind, touch), places in found.items()])


def _times(step: StepAhead) -> str:
    if step.loop is None:
        return ""
    return " ×?" if step.loop.count is None else f" ×{step.loop.count}"


def _secrets(forecast: Forecast) -> Iterator[Line]:
    rows: list[tuple[list[str], str]] = []
    for secret in forecast.secrets:
        kind = (
            "credential" if secret.kind == "credential" and not secret.source else f"keychain, {secret.kind}"
        )
        behind = f" of {secret.provider} {secret.source}" if secret.source else ""
        state, mood = _state(secret.exists)
        users = names(secret.used_by) or "nobody"
        rows.append(([secret.name, kind + behind, f"used by {users}", f"{state}{_note(secret.note)}"], mood))
    return columns(rows)


def _state(exists: bool | None) -> tuple[str, str]:
    match exists:
        case True:
            return "there", "plain"
        case False:
            return "missing", "bad"
        case None:
            return "unknown", "warning"


def _note(note: str) -> str:
    return f" ({note})" if note else ""


def _environment(forecast: Forecast) -> Iterator[Line]:
    rows = [
        (
            [
                one.name,
                f"used by {names(one.used_by)}",
                "given" if one.given else "missing (not set, or not in NOETL_ENV_ALLOW)",
            ],
            "plain" if one.given else "bad",
        )
        for one in forecast.variables
    ]
    return columns(rows)


def _playbooks(forecast: Forecast) -> Iterator[Line]:
    rows: list[tuple[list[str], str]] = []
    for one in forecast.playbooks:
        state = "unknown" if one.found is None else one.found or "missing"
        mood = "warning" if one.found is None or (one.found and one.note) else "plain" if one.found else "bad"
        path = short(one.path) + (f" version {short(one.version)}" if one.version is not None else "")
        rows.append(([path, f"called by {names(one.used_by)}", f"{state}{_note(one.note)}"], mood))
    return columns(rows)


def _unreached(forecast: Forecast) -> Iterator[Line]:
    if forecast.unreached:
        yield Line(names(forecast.unreached), "warning")
