"""`noetl plan`: what would run, and what it would touch, without running anything."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod
from pathlib import Path
from typing import Final

import click

from noetl import bootstrap
from noetl.cli.check import bounds_of_patience, compile_file
from noetl.cli.complaints import INVALID
from noetl.cli.console import assigned_of, json_out, overrides_of, payload_of, payload_option, set_option
from noetl.cli.plan_steps import IN, Line, columns, failures, names, print_lines, reads, short, steps
from noetl.config import Settings
from noetl.dsl.checks.soundness import why_undecided
from noetl.dsl.explain.rendering import render
from noetl.engine.admission import admit
from noetl.engine.plan import Plan
from noetl.errors import NoetlError, PlaybookInvalid
from noetl.facts.json import Json
from noetl.forecast.foresee import PlanInput, foresee
from noetl.forecast.model import Forecast, Rendered, StepForecast, TaskForecast, warnings_of
from noetl.forecast.shape import as_json as forecast_as_json
from noetl.forecast.tasks import Kinds, place_of
from noetl.store.library import FileLibrary
from noetl.tools.code.quoting import CommandLine
from noetl.tools.kit.registry import kinds as installed_kinds
from noetl.tools.kit.registry import touches
from noetl.usecases.provisions import Provisions, find_provisions, mark_unknown


@click.command(epilog="Example: noetl plan examples/weather.yaml --set page_size=500")
@click.argument("file", type=click.Path(path_type=Path))
@set_option
@payload_option
@click.option("--strict", is_flag=True, help="Warnings are errors.")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object and nothing else.")
@click.pass_context
def plan(
    ctx: click.Context,
    file: Path,
    overrides: tuple[str, ...],
    payload: str | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Show what the playbook FILE would do: steps, loops, queues, secrets, calls, and what it
    touches.

    Nothing is run: no tool, no network, no secret is opened, and nothing is written. Exit code 2
    where FILE is invalid.
    """
    payload_given, assigned = payload_of(payload), assigned_of(overrides)
    found = compile_file(file, installed_kinds(), strict=strict)
    if found.net is None:
        if not as_json:
            raise PlaybookInvalid("The playbook cannot be run.", found.problems)
        json_out({"ok": False, "problems": [problem.as_json() for problem in found.problems]})
        ctx.exit(INVALID)
    over = overrides_of(assigned, found.inputs)
    given = admit(Plan(found.net), payload_given, over, foreseen=True)
    settings = Settings.from_env()
    tools = Kinds(installed_kinds(), touches, CommandLine)
    known = PlanInput(
        tools, given.payload, given.overrides, settings.environment(), settings.loop_max_in_flight
    )
    ahead = _look_up(foresee(found.net, known), file, settings)
    undecided = why_undecided(found.net, bounds_of_patience())
    if as_json:
        json_out(
            {
                "ok": True,
                **forecast_as_json(ahead),
                "undecided": undecided,
                "problems": [problem.as_json() for problem in found.problems],
            }
        )
        return
    for problem in found.problems:
        click.echo(render(problem), err=True)
    print_forecast(ahead)
    if undecided is not None:
        said = f"not decided whether every run comes to an end: {undecided}"
        print_lines([Line(""), Line(said, "warning")])


def _look_up(ahead: Forecast, file: Path, settings: Settings) -> Forecast:
    """`ahead` with what this home has of what it needs."""
    if not ahead.secrets and not ahead.playbooks:
        return ahead
    try:
        with bootstrap.read_database(settings) as tx:
            library = FileLibrary(file.absolute().parent)
            return find_provisions(
                ahead, Provisions(tx, bootstrap.providers(settings), library, installed_kinds())
            )
    except NoetlError as error:
        # A plan is worth something without its database as well.
        return mark_unknown(ahead, f"not looked up: {error.message.rstrip('.')}")


#: Whether a secret is there, and how that looks.
_STATES: Final = {True: ("there", "plain"), False: ("missing", "bad"), None: ("unknown", "warning")}


def print_forecast(forecast: Forecast) -> None:
    """Prints to standard output."""
    print_lines(lines(forecast))


def lines(forecast: Forecast) -> Iterator[Line]:
    yield Line(f"{forecast.name} ({forecast.path}): what a run would do. Nothing was run.", "title")
    yield from _section("key", () if forecast.key is None else _values({"value": forecast.key}))
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
    unreached = [Line(names(forecast.unreached), "warning")] if forecast.unreached else []
    yield from _section("never reached", unreached)


def _section(title: str, content: Iterable[Line]) -> Iterator[Line]:
    found = list(content)
    if found:
        yield Line("")
        yield Line(title, "title")
        yield from (Line(IN + line.text, line.mood) for line in found)


# --- what it begins with ---


def _values(values: Mapping[str, Rendered]) -> Iterator[Line]:
    rows = []
    for name, value in values.items():
        text = f"would fail: {value.error}" if value.error else short(value.value) + reads(value.needs)
        rows.append(([name, text], "bad" if value.error else "plain"))
    yield from columns(rows)
    yield from (Line(f"would warn: {one}", "warning") for one in warnings_of(values.values()))


# --- what all of it comes to ---


#: Kinds whose touches have a section of their own.
_LISTED: Final = frozenset({"playbook", "secrets"})


def _touches(forecast: Forecast) -> Iterator[Line]:
    """Each touch once, with the places that do it and how often, where something repeats it."""
    found: dict[tuple[str, str], list[str]] = {}
    for step in forecast.steps:
        for task in step.tasks:
            if task.kind in _LISTED or not task.is_called:
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
        users = names(secret.used_by) or "no task"
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
