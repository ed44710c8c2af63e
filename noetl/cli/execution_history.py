"""`noetl execution explain|diff|replay`: why an execution went as it did, in what another one
differs, what was true at an earlier version."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

from noetl.cli.address import execution_argument
from noetl.cli.comparison_lines import comparison
from noetl.cli.console import as_json_option, json_out, table
from noetl.cli.explanation_lines import close_up, overview
from noetl.cli.plan_steps import print_lines
from noetl.cli.process import open_runtime
from noetl.cli.run import status_text
from noetl.facts import json
from noetl.history import shape
from noetl.history.compare import MOST
from noetl.usecases import history, inspect

F = TypeVar("F", bound=Callable[..., Any])


def _at_option(*spellings: str) -> Callable[[F], F]:
    return click.option(
        *spellings,
        "version",
        metavar="VERSION",
        type=click.IntRange(min=0),
        help="As of this version; the newest unless given.",
    )


@click.command(
    short_help="Say why steps ran, did not run, or wait.",
    epilog="Example: noetl execution explain 1234567890123 publish",
)
@execution_argument()
@click.argument("step", required=False)
@_at_option("--at")
@as_json_option
def explain(execution_id: str, step: str | None, version: int | None, as_json: bool) -> None:
    """Say why each step ran, did not run, or waits and for what; of STEP alone, all that is
    known."""
    with open_runtime() as rt:
        found = history.explain(rt, execution_id, step, version)
    if as_json:
        json_out(shape.as_json(found))
    else:
        print_lines(overview(found) if step is None else close_up(found))


@click.command(
    short_help="Say in what two executions differ.",
    epilog="Example: noetl execution diff 1234567890123 1234567890456",
)
@execution_argument("a")
@execution_argument("b")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=MOST,
    show_default=True,
    help="How many differences of each kind.",
)
@as_json_option
def diff(a: str, b: str, limit: int, as_json: bool) -> None:
    """Say in what execution B differs from A: playbook, inputs, path, guards, results, errors,
    durations."""
    with open_runtime() as rt:
        found = history.compare(rt, a, b, limit)
    if as_json:
        json_out(shape.comparison_as_json(found))
    else:
        print_lines(comparison(found))


@click.command(epilog="Example: noetl execution replay 1234567890123 --at 12")
@execution_argument()
# It was called `--version` before.
@_at_option("--at", "--version")
@as_json_option
def replay(execution_id: str, version: int | None, as_json: bool) -> None:
    """Fold the log again and show what was true at a version."""
    with open_runtime() as rt:
        view = inspect.state_view(rt, execution_id, version)
    if as_json:
        json_out(view)
        return
    click.echo(f"{execution_id} at version {view['version']}: {view['status']}")
    table(
        ("step", "status", "runs"),
        [(name, status_text(one), one["runs"]) for name, one in view["steps"].items()],
    )
    click.echo(f"ctx {json.dumps(view['ctx'], ensure_ascii=False)}")
