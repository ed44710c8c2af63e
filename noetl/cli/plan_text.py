"""A forecast for people: the steps as they follow each other, then what all of it touches and
needs."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from math import prod
from typing import Final

import click

from noetl.cli.plan_lines import IN, MOODS, Line, columns, names, reads, short, wrapped
from noetl.cli.plan_steps import failures, steps
from noetl.facts.json import Json
from noetl.forecast.model import Forecast, Rendered, StepForecast, TaskForecast, warnings_of
from noetl.forecast.tasks import place_of

#: Whether a secret is there, and how that looks.
_STATES: Final = {True: ("there", "plain"), False: ("missing", "bad"), None: ("unknown", "warning")}


def print_forecast(forecast: Forecast) -> None:
    """Prints to standard output; on a terminal lines are wrapped."""
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 0
    for line in lines(forecast):
        for text in wrapped(line.text, width):
            click.echo(click.style(text, **MOODS[line.mood]) if line.mood != "plain" else text)


def lines(forecast: Forecast) -> Iterator[Line]:
    yield Line(f"{forecast.name} ({forecast.path}): what a run would do. Nothing was run.", "title")
    yield from _section("workload", _values(forecast.workload))
    yield from _section("ctx", _values(forecast.ctx))
    yield from _section("steps", steps(forecast))
    yield from _section("touches", _touches(forecast))
    yield from _section(
        "queues", (Line(f"{queue}: {names(users)}") for queue, users in forecast.queues.items())
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
        yield from (Line(IN + line.text, line.mood) for line in found)


# --- what it begins with ---


def _values(values: Mapping[str, Rendered]) -> Iterator[Line]:
    rows = [([name, _value(value)], "bad" if value.error else "plain") for name, value in values.items()]
    yield from columns(rows)
    yield from (Line(f"would warn: {one}", "warning") for one in warnings_of(values.values()))


def _value(value: Rendered) -> str:
    if value.error:
        return f"would fail: {value.error}"
    return short(value.value) + reads(value.needs)


# --- what all of it comes to ---


def _touches(forecast: Forecast) -> Iterator[Line]:
    """Each touch once, with the places that do it and how often, where something repeats it."""
    found: dict[tuple[str, str], list[str]] = {}
    for step in forecast.steps:
        for task in step.tasks:
            if task.effects == "none" or not task.is_called:
                continue
            for touch in task.touches:
                found.setdefault((task.kind, touch), []).append(place_of(step, task) + _times(step, task))
    return columns([([kind, touch, names(places)], "plain") for (kind, touch), places in found.items()])


def _times(step: StepForecast, task: TaskForecast) -> str:
    """How often: a product, where loops stand in one another."""
    numbers: list[Json] = [loop.count for loop in (step.loop, task.loop) if loop is not None]
    if task.repeat is not None:
        numbers.append(task.repeat.most.value)
    if not numbers:
        return ""
    if not all(isinstance(number, int) for number in numbers):
        return " ×?"
    return f" ×{'≤' if task.repeat is not None else ''}{prod(numbers)}"


def _secrets(forecast: Forecast) -> Iterator[Line]:
    rows: list[tuple[list[str], str]] = []
    for secret in forecast.secrets:
        kind = (
            "credential" if secret.kind == "credential" and not secret.source else f"keychain, {secret.kind}"
        )
        behind = f" of {secret.provider} {secret.source}" if secret.source else ""
        state, mood = _STATES[secret.exists]
        users = names(secret.used_by) or "nobody"
        rows.append(([secret.name, kind + behind, f"used by {users}", f"{state}{_note(secret.note)}"], mood))
    yield from columns(rows)
    yield from failures(forecast.entries)


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
