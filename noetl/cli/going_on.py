"""What is told behind an execution of this machine that did not end well: how to go on from
there."""

from __future__ import annotations

import shlex

import click

from noetl.cli.process import open_runtime
from noetl.errors import NoetlError
from noetl.facts.json import JsonMap
from noetl.usecases import retry
from noetl.usecases.ports import ENDED
from noetl.usecases.retry import RetryRequest


def tell_how_to_go_on(report: JsonMap, file: str) -> None:
    """The command for it, on standard error, and what that has to be told besides. `file` is the
    playbook."""
    if report["status"] not in ENDED - {"completed"}:
        return
    playbook = f" --playbook {shlex.quote(file)}" if file else ""
    command = f"noetl execution retry {report['execution_id']}{playbook}"
    repeats = _name_repeats(str(report["execution_id"]))
    if not repeats:
        click.echo(f"Go on from here, once it is mended: {command}", err=True)
        return
    click.echo(f"Go on from here, once it is mended: {command} --dry-run", err=True)
    click.echo(
        f"That shows its plan: calls are made again that may have had effects ({repeats}). It begins with "
        "--yes in the place of --dry-run.",
        err=True,
    )


def _name_repeats(execution_id: str) -> str:
    """The calls with effects that a retry would make again; empty where there are none, and where
    no retry is possible as it stands."""
    try:
        with open_runtime() as rt:
            return retry.name_repeats(retry.plan(rt, RetryRequest(execution_id)).plan)
    except NoetlError:
        return ""
