"""`noetl limits`: who has slots of keys, who waits for them, and what is paused."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import click

from noetl.cli.complaints import warn
from noetl.cli.console import as_json_option, json_out, table
from noetl.cli.process import open_runtime
from noetl.facts.json import Json
from noetl.facts.limits import WHOLE, SlotRow
from noetl.usecases import limits as looking
from noetl.usecases import pausing
from noetl.usecases.limits import KeyUse
from noetl.usecases.ports import Pause


@click.group(
    epilog="Example: noetl limits --key reports",
    invoke_without_command=True,
    context_settings={"ignore_unknown_options": False},
)
@click.option("--key", metavar="KEY", help="Only this key.")
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="Holders and waiters of each key.",
)
@as_json_option
@click.pass_context
def limits(ctx: click.Context, key: str | None, limit: int, as_json: bool) -> None:
    """Show who has slots of keys, who waits for them, and since when; pause keys and queues."""
    if ctx.invoked_subcommand is not None:
        return
    with open_runtime() as rt:
        found, paused = looking.look(rt, key, limit), looking.paused_parts(rt)
        doubt = pausing.find_doubt(rt, "key", key) if key is not None and not found else None
    if as_json:
        shown: Json = {
            "limits": [one.as_json() for one in found],
            "paused": [looking.describe_pause(one) for one in paused],
        }
        json_out(shown)
        return
    if doubt is None:
        _show(found, paused)
    else:
        click.echo(doubt)


def _show(found: Sequence[KeyUse], paused: Sequence[Pause]) -> None:
    for use in found:
        click.echo(_headline(use))
        rows = [("has", row, path, row.granted_at) for row, path in use.holders]
        rows += [("waits", row, path, row.requested_at) for row, path in use.waiters]
        if rows:
            table(
                ("", "execution", "playbook", "step", "priority", "since"),
                [
                    (what, row.execution_id, path, _place(row), row.priority, f"{since:%Y-%m-%d %H:%M:%S}")
                    for what, row, path, since in rows
                ],
            )
    for one in paused:
        if one.kind == "queue":
            click.echo(f"queue {one.name}: {_describe(one)}")
    if not found and not paused:
        click.echo("Nobody has a slot or waits for one, and nothing is paused.")


def _headline(use: KeyUse) -> str:
    most = "" if use.limit is None else f" of {use.limit}"
    window = "" if use.per_s is None else f" in {use.per_s:g} s"
    more = "" if use.paused is None else f", {_describe(use.paused)}"
    return f"{use.key}: {use.held}{most}{window} taken, {use.waiting} waiting{more}"


def _describe(pause: Pause) -> str:
    by = "" if pause.principal is None else f" by {pause.principal}"
    why = f" ({pause.reason})" if pause.reason else ""
    return f"paused since {pause.since:%Y-%m-%d %H:%M:%S}{by}{why}"


def _place(row: SlotRow) -> str:
    if not row.run_id:
        return ""
    return row.run_id if row.part == WHOLE else f"{row.run_id}/{row.part}"


@limits.command(epilog="Example: noetl limits pause reports")
@click.argument("key")
@click.option("--queue", is_flag=True, help="It is the name of a queue.")
@click.option("--reason", default="", help="Shown to whoever looks.")
def pause(key: str, queue: bool, reason: str) -> None:
    """Give nobody a slot of KEY until `resume`; or have workers take nothing of a queue."""
    with open_runtime() as rt:
        if queue:
            pausing.pause_queue(rt, key, reason)
        else:
            pausing.pause_key(rt, key, reason)
        doubt = pausing.find_doubt(rt, "queue" if queue else "key", key)
    click.echo(f"{'queue ' if queue else ''}{key}: paused.")
    if doubt is not None:
        back = f"noetl limits resume {shlex.quote(key)}{' --queue' if queue else ''}"
        warn(f"{doubt} If another one was meant: `{back}`.")


@limits.command(epilog="Example: noetl limits resume http --queue")
@click.argument("key")
@click.option("--queue", is_flag=True, help="It is the name of a queue.")
def resume(key: str, queue: bool) -> None:
    """Go on after `pause`."""
    with open_runtime() as rt:
        if queue:
            pausing.resume_queue(rt, key)
        else:
            pausing.resume_key(rt, key)
    click.echo(f"{'queue ' if queue else ''}{key}: resumed.")
