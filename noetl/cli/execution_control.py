"""`noetl execution cancel|pause|resume|patch`: steering what runs."""

from __future__ import annotations

from collections.abc import Sequence

import click

from noetl import bootstrap
from noetl.cli import run as run_command
from noetl.cli.address import execution_argument
from noetl.cli.console import assigned_of, overrides_of
from noetl.cli.process import open_runtime
from noetl.config import Settings
from noetl.errors import Conflict
from noetl.facts.json import Json
from noetl.usecases import control, history, inspect, pausing, waiting
from noetl.usecases.ports import ENDED, ExecutionRow
from noetl.usecases.runtime import Runtime

#: How long `cancel` waits for the process that the execution runs in, in seconds.
CANCEL_S = 10.0


@click.command(
    short_help="End an execution.",
    epilog="Example: noetl execution cancel 1234567890123 --step load --iteration 7",
)
@execution_argument()
@click.option("--reason", default="", help="Kept in the log.")
@click.option("--step", metavar="STEP[#K]", help="End this step alone, or one run of it; the rest goes on.")
@click.option(
    "--iteration", metavar="N", type=click.IntRange(0), help="End this iteration of --step alone, from 0."
)
@click.option("--region", metavar="NAME", help="End this region alone; the rest goes on.")
@click.pass_context
def cancel(
    ctx: click.Context,
    execution_id: str,
    reason: str,
    step: str | None,
    iteration: int | None,
    region: str | None,
) -> None:
    """End an execution: nothing new starts, running work is asked to stop.

    Of one that has failed and is going to be retried by itself the retry is called off. With --step
    the execution goes on: arcs that ask for `step.cancelled` are taken. With --region all that runs
    or waits in it is withdrawn, and undone where the playbook says so."""
    if iteration is not None and step is None:
        raise click.UsageError("--iteration belongs to --step; name the step whose iteration it is.", ctx)
    if step is not None and region is not None:
        raise click.UsageError("--step and --region are two things; end one of them.", ctx)
    if step is not None or region is not None:
        _cancel_part(execution_id, step, iteration, region, reason)
        return
    with open_runtime() as rt:
        control.cancel(rt, execution_id, reason)
        row = inspect.execution(rt, execution_id)
        if _is_at_work(row):
            waiting.wait_for_result(rt, execution_id, CANCEL_S)
    if row.shard and not _is_at_work(row):
        # The process of its `noetl run` has gone: the turns that are left are taken here.
        run_command.resume_here(execution_id, row.shard, quiet=True)
    with open_runtime() as rt:
        following = history.next_attempt(rt, execution_id) or {}
        is_called_off = following.get("standing") == "cancelled"
        report(rt, execution_id, "its retry is called off" if is_called_off else "cancel requested")


def _cancel_part(
    execution_id: str, step: str | None, iteration: int | None, region: str | None, reason: str
) -> None:
    with open_runtime() as rt:
        if region is not None:
            control.cancel_region(rt, execution_id, region, reason)
            what = f"region {region}"
        else:
            control.cancel_step(rt, execution_id, step or "", iteration, reason)
            what = f"{step}" if iteration is None else f"iteration {iteration} of {step}"
    click.echo(f"{execution_id}: {what} is being cancelled.")


@click.command(epilog="Example: noetl execution pause 1234567890123")
@execution_argument()
@click.option("--reason", default="", help="Kept in the log.")
@click.option("--step", metavar="STEP", help="Pause this step alone; the rest goes on.")
def pause(execution_id: str, reason: str, step: str | None) -> None:
    """Start nothing new until `resume`."""
    with open_runtime() as rt:
        if step is None:
            control.pause(rt, execution_id, reason)
        else:
            pausing.pause_step(rt, execution_id, step, reason)
        report(rt, execution_id, "pause requested" if step is None else f"step {step} is paused")


@click.command(epilog="Example: noetl execution resume 1234567890123")
@execution_argument()
@click.option("--reason", default="", help="Kept in the log.")
@click.option("--step", metavar="STEP", help="Go on with this step, which was paused alone.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@click.pass_context
def resume(ctx: click.Context, execution_id: str, reason: str, step: str | None, quiet: bool) -> None:
    """Go on after `pause`, or with a `noetl run` whose process has gone.

    What ran in a process of its own goes on in this one, behind the last task that is in the log.
    """
    if step is not None:
        with open_runtime() as rt:
            pausing.resume_step(rt, execution_id, step, reason)
            report(rt, execution_id, f"step {step} is resumed")
        return
    with open_runtime() as rt:
        row = inspect.execution(rt, execution_id)
        is_at_work = _is_at_work(row)
        if row.halt == "pause" or not row.shard:
            control.resume(rt, execution_id, reason)
        elif is_at_work and (row.status not in ENDED or row.waits_for_retry):
            raise Conflict(
                f"Execution {execution_id} runs in another process of this machine; "
                f"`noetl execution events {execution_id} --follow` shows how it goes on."
            )
        else:
            control.adopt(rt, execution_id)
        if is_at_work or not row.shard:
            report(rt, execution_id, "resumed")
            return
    ended = run_command.resume_here(execution_id, row.shard, quiet=quiet)
    run_command.show(ended, as_json=False)
    ctx.exit(run_command.EXIT.get(str(ended["status"]), 1))


def _is_at_work(row: ExecutionRow) -> bool:
    """Whether the process of a `noetl run` that the execution belongs to is alive, on this
    machine."""
    return bool(row.shard) and bootstrap.is_at_work(Settings.from_env(), row.shard)


@click.command(epilog="Example: noetl execution patch 1234567890123 --set approved=true")
@execution_argument()
@click.option(
    "--set", "pairs", multiple=True, required=True, metavar="A.B=V", help="A ctx value, typed as YAML."
)
def patch(execution_id: str, pairs: tuple[str, ...]) -> None:
    """Assign ctx values from outside."""
    with open_runtime() as rt:
        version = control.patch_ctx(rt, execution_id, assignments_of(pairs))
    click.echo(f"ctx of {execution_id} is patched at version {version}.")


def assignments_of(pairs: Sequence[str]) -> dict[str, Json]:
    """Dotted name → value, of the texts `a.b=v`. Raises BadRequest."""
    assignments: dict[str, Json] = {}
    for pair in pairs:
        name = pair.partition("=")[0]
        value: Json = overrides_of(assigned_of([pair]))
        for part in name.split("."):
            value = value[part]
        assignments[name] = value
    return assignments


def report(rt: Runtime, execution_id: str, what: str) -> None:
    """Says what was done, where the execution is now, and who has to go on with it."""
    row = inspect.execution(rt, execution_id)
    click.echo(f"{execution_id}: {what} (now {row.status}).")
    if row.shard and row.status not in ENDED and not _is_at_work(row):
        click.echo(
            f"If its process has gone, `noetl execution resume {execution_id}` takes its place.", err=True
        )
