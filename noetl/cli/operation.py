"""`noetl operation`: what is done to many executions at once, and how far that is."""

from __future__ import annotations

from pathlib import Path
from typing import get_args

import click

from noetl import bootstrap
from noetl.cli.console import as_json_option, json_out, table
from noetl.cli.fleet import Manner, follow_here, show_operation, states_text
from noetl.cli.process import open_runtime, run_here
from noetl.config import Settings
from noetl.facts.json import JsonMap
from noetl.usecases.fleet import operations
from noetl.usecases.fleet.operations import Operation
from noetl.usecases.ports import ItemState, OperationItem


@click.group(epilog="Example: noetl operation list")
def operation() -> None:
    """Follow what is done to many executions at once, and steer it."""


@operation.command(
    name="list", short_help="List operations, newest first.", epilog="Example: noetl operation list --limit 5"
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(1, 1000), default=20, show_default=True, help="How many."
)
@as_json_option
def list_(limit: int, as_json: bool) -> None:
    """Newest first."""
    with open_runtime() as rt:
        found = operations.operations(rt, limit=limit)
    if as_json:
        json_out([one.as_json() for one in found])
        return
    table(
        ("operation", "status", "started", "executions", "where"),
        [
            (
                one.row.operation_id,
                one.row.status,
                f"{one.row.created_at:%Y-%m-%d %H:%M:%S}",
                states_text(one.counts),
                one.row.chosen_by,
            )
            for one in found
        ],
    )


@operation.command(epilog="Example: noetl operation show 1234567890123 --state failed")
@click.argument("operation_id")
@click.option(
    "--state",
    metavar="STATE",
    type=click.Choice(get_args(ItemState)),
    help=f"Only executions in this state: {', '.join(get_args(ItemState))}.",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    help="How many executions.",
)
@as_json_option
def show(operation_id: str, state: ItemState | None, limit: int, as_json: bool) -> None:
    """How far it is, and what becomes of its executions."""
    with open_runtime() as rt:
        found = operations.operation(rt, operation_id)
        items = operations.items(rt, operation_id, state=state, limit=limit)
        if not as_json:
            show_operation(rt, found)
    if as_json:
        json_out({**found.as_json(), "executions": [_as_json(item) for item in items]})
        return
    table(
        ("execution", "state", "retry", "reason"),
        [(item.execution_id, item.state, item.begun_id, item.reason) for item in items],
    )


def _as_json(item: OperationItem) -> JsonMap:
    return {
        "position": item.position,
        "execution_id": item.execution_id,
        "state": item.state,
        "begun_id": item.begun_id,
        "reason": item.reason,
    }


@operation.command(
    short_help="Begin nothing more of it.", epilog="Example: noetl operation cancel 1234567890123"
)
@click.argument("operation_id")
@click.option("--reason", default="", help="Kept with it.")
@as_json_option
def cancel(operation_id: str, reason: str, as_json: bool) -> None:
    """Begin nothing more; what it has begun goes on to its end."""
    with open_runtime() as rt:
        _report(operations.cancel(rt, operation_id, reason), as_json=as_json)


@operation.command(
    short_help="Begin nothing more until it is resumed.",
    epilog="Example: noetl operation pause 1234567890123",
)
@click.argument("operation_id")
@click.option("--reason", default="", help="Kept with it.")
@as_json_option
def pause(operation_id: str, reason: str, as_json: bool) -> None:
    """Begin nothing more until `resume`; what it has begun goes on to its end."""
    with open_runtime() as rt:
        _report(operations.pause(rt, operation_id, reason), as_json=as_json)


@operation.command(
    short_help="Go on after `pause`, or with one whose process has gone.",
    epilog="Example: noetl operation resume 1234567890123",
)
@click.argument("operation_id")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@as_json_option
@click.pass_context
def resume(ctx: click.Context, operation_id: str, quiet: bool, as_json: bool) -> None:
    """Go on after `pause`. What is done to executions of `noetl run` goes on in this process, where
    its own has gone; with a stack, the sweeper carries operations on."""
    with open_runtime() as rt:
        found = operations.resume(rt, operation_id)
    row = found.row
    if not row.shard or bootstrap.is_at_work(Settings.from_env(), row.shard):
        _report(found, as_json=as_json)
        return
    places = row.how["directories"]
    with run_here(Path(places[0]) if places else None, row.shard) as rt:
        operations.adopt(rt, operation_id)
        ctx.exit(follow_here(rt, operation_id, Manner(dry_run=False, quiet=quiet, as_json=as_json)))


def _report(found: Operation, *, as_json: bool) -> None:
    if as_json:
        json_out(found.as_json())
        return
    click.echo(f"{found.row.operation_id}: {found.row.status} ({states_text(found.counts)}).")
