"""`noetl execution failures`: what executions failed of."""

from __future__ import annotations

import click

from noetl.cli.console import as_json_option, json_out, table, where_option
from noetl.cli.process import open_runtime
from noetl.usecases.fleet import failures as failing


@click.command(
    short_help="Group failed executions by what they failed of.",
    epilog="Example: noetl execution failures --where \"path = 'shop/orders' and ended > '-1d'\"",
)
@where_option
@as_json_option
def failures(where: str | None, as_json: bool) -> None:
    """Failures of one fingerprint have the same kind, step, task, and message but for what varies
    in it. Retry those of a group by `--where "fingerprint = '…'"`."""
    with open_runtime() as rt:
        found = failing.failures(rt, where)
    if as_json:
        json_out(found.as_json())
        return
    table(
        ("count", "retried", "last", "fingerprint", "step", "kind", "message"),
        [
            (
                group.count,
                group.retried,
                f"{group.last_at:%Y-%m-%d %H:%M:%S}",
                group.failure.fingerprint,
                group.failure.step,
                group.failure.type or group.failure.kind,
                group.failure.shape,
            )
            for group in found.groups
        ],
    )
    if found.more:
        click.echo(f"Only the newest {found.count} were looked at; narrow them by --where.", err=True)
