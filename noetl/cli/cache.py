"""`noetl cache`: results that stand in for equal calls."""

from __future__ import annotations

import click

from noetl.cli.console import as_json_option, json_out, table
from noetl.cli.process import open_runtime
from noetl.usecases import cache as caching


@click.group(epilog="Example: noetl cache list")
def cache() -> None:
    """Look at results that stand in for equal calls of tasks with `cache`, and clear them away."""


@cache.command(
    name="list",
    short_help="List cached results, newest first.",
    epilog="Example: noetl cache list --path reports/daily",
)
@click.option("--path", metavar="PATH", help="Only those of this playbook.")
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 1000), default=100, show_default=True, help="How many."
)
@as_json_option
def list_(path: str | None, limit: int, as_json: bool) -> None:
    """Which call came to each, how large it is, and until when it counts."""
    with open_runtime() as rt:
        rows = caching.cached(rt, path, limit)
    if as_json:
        json_out([caching.describe(row) for row in rows])
        return
    table(
        ("key", "playbook", "task", "execution", "bytes", "made", "until"),
        [
            (
                row.key,
                row.path,
                f"{row.site.run_id}/{row.site.task}",
                row.site.execution_id,
                caching.describe(row)["bytes"],
                f"{row.created_at:%Y-%m-%d %H:%M}",
                f"{row.expires_at:%Y-%m-%d %H:%M}",
            )
            for row in rows
        ],
    )


@cache.command(
    short_help="Clear cached results away.", epilog="Example: noetl cache clear --path reports/daily"
)
@click.option("--path", metavar="PATH", help="Those of this playbook.")
@click.option("--key", metavar="KEY", help="The one with this key, as `list` shows it.")
@click.option("--all", "everything", is_flag=True, help="All of them.")
@as_json_option
def clear(path: str | None, key: str | None, everything: bool, as_json: bool) -> None:
    """Clear results away, so that their calls are made again."""
    with open_runtime() as rt:
        removed = caching.clear(rt, path, key, everything=everything)
    if as_json:
        json_out({"removed": removed})
    else:
        click.echo(f"{removed} {'result was' if removed == 1 else 'results were'} cleared away.")
