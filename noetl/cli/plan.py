"""`noetl plan`: what would run, and what it would touch, without running anything."""

from __future__ import annotations

from pathlib import Path

import click

from noetl import bootstrap
from noetl.cli.check import compile_file
from noetl.cli.complaints import INVALID
from noetl.cli.inputs import complete_file, json_out, overrides_of, payload_of
from noetl.cli.plan_text import print_forecast
from noetl.config import Settings
from noetl.dsl.explain.rendering import render
from noetl.dsl.problems import Problem
from noetl.engine.plan import Plan
from noetl.engine.request import check_overrides
from noetl.errors import NoetlError, PlaybookInvalid
from noetl.facts.json import JsonMap
from noetl.forecast.foresee import PlanInput, foresee
from noetl.forecast.model import Forecast
from noetl.forecast.shape import as_json as forecast_as_json
from noetl.forecast.tasks import Kinds
from noetl.store.library import FileLibrary
from noetl.tools.code.quoting import CommandLine
from noetl.tools.kit.registry import kinds as installed_kinds
from noetl.tools.kit.registry import touches
from noetl.usecases.provisions import Provisions, provided, unseen


@click.command(epilog="Example: noetl plan examples/weather.yaml --set page_size=500")
@click.argument("file", type=click.Path(path_type=Path))
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="A.B=V",
    help="Set a workload value (typed as YAML); +A=V adds one.",
)
@click.option(
    "--payload",
    metavar="JSON|FILE",
    shell_complete=complete_file,
    help="Workload values as JSON, or a file with them.",
)
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
    given, over = payload_of(payload), overrides_of(overrides)
    found = compile_file(file, installed_kinds(), strict=strict)
    if found.net is None:
        _refuse(found.problems, as_json=as_json)
        ctx.exit(INVALID)
    over = check_overrides(Plan(found.net), given, over)
    ahead = _look_up(foresee(found.net, _given(given, over)), file)
    if as_json:
        json_out(
            {
                "ok": True,
                **forecast_as_json(ahead),
                "problems": [problem.as_json() for problem in found.problems],
            }
        )
        return
    for problem in found.problems:
        click.echo(render(problem), err=True)
    print_forecast(ahead)


def _refuse(problems: tuple[Problem, ...], *, as_json: bool) -> None:
    if not as_json:
        raise PlaybookInvalid("The playbook cannot be run.", problems)
    json_out({"ok": False, "problems": [problem.as_json() for problem in problems]})


def _given(payload: JsonMap, overrides: JsonMap) -> PlanInput:
    settings = Settings.from_env()
    return PlanInput(
        Kinds(installed_kinds(), touches, CommandLine),
        payload,
        overrides,
        settings.environment(),
        settings.loop_max_in_flight,
    )


def _look_up(ahead: Forecast, file: Path) -> Forecast:
    """`ahead` with what this home has of what it needs."""
    if not ahead.secrets and not ahead.playbooks:
        return ahead
    settings = Settings.from_env()
    try:
        with bootstrap.read_database(settings) as tx:
            library = FileLibrary(file.absolute().parent)
            return provided(ahead, Provisions(tx, bootstrap.providers(settings), library, installed_kinds()))
    except NoetlError as error:
        # A plan is worth something without its database as well.
        return unseen(ahead, f"not looked up: {error.message.rstrip('.')}")
