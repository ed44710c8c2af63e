"""`noetl execution retry|fork`: run again what has ended, and go on from an earlier moment."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final, get_args

import click

from noetl.cli import run as run_command
from noetl.cli.address import execution_argument
from noetl.cli.complaints import word
from noetl.cli.console import (
    Assigned,
    align_columns,
    as_json_option,
    assigned_of,
    directories_of,
    json_out,
    overrides_of,
    payload_of,
    payload_option,
    read_text,
    set_option,
    where_option,
)
from noetl.cli.execution_control import assignments_of
from noetl.cli.fleet import Manner, confirmed, retry_many
from noetl.cli.process import open_runtime, run_here
from noetl.errors import BadRequest
from noetl.facts.json import JsonMap
from noetl.forecast.again import PlannedRun, Verdict
from noetl.store.library import FileLibrary
from noetl.usecases import catalog, inspect
from noetl.usecases import fork as forking
from noetl.usecases import retry as retrying
from noetl.usecases.fleet.planning import CONCURRENCY, LIMIT, MOST_AT_ONCE, MOST_CHOSEN, FleetRequest
from noetl.usecases.fork import ForkRequest
from noetl.usecases.ports import ExecutionRow
from noetl.usecases.retry import NEWEST, PlannedRetry, RetryRequest
from noetl.usecases.runtime import Runtime

#: Characters of a line that is not cut.
_UNBOUNDED: Final = 1 << 20


@click.command(
    short_help="Run an ended execution again, from what failed on; or many.",
    epilog="Example: noetl execution retry 1234567890123 --playbook fixed.yaml --dry-run",
)
@execution_argument(required=False)
@where_option
@click.option(
    "--from",
    "from_step",
    metavar="STEP[#K]",
    default="",
    help="Run this step again, and all that followed from it, whatever is equal.",
)
@click.option(
    "--iterations",
    type=click.Choice(("failed", "all")),
    help="Of loops that failed: only those that failed, whatever has changed; or all.",
)
@set_option
@payload_option
@click.option("--playbook", "file", type=click.Path(path_type=Path), help="Run this text of the playbook.")
@click.option("--version", metavar="N|latest", help="Run this version; else the one that it ran.")
@click.option("--dry-run", is_flag=True, help="Print what would run again, and why; start nothing.")
@click.option("--yes", is_flag=True, help="Calls that may have had effects may be made again.")
@click.option(
    "--concurrency",
    metavar="N",
    type=click.IntRange(1, MOST_AT_ONCE),
    help=f"With --where: how many are under way at once, at most.  [default: {CONCURRENCY}]",
)
@click.option(
    "--limit",
    metavar="N",
    type=click.IntRange(1, MOST_CHOSEN),
    help=f"With --where: how many are retried, at most, the newest ones.  [default: {LIMIT}]",
)
@click.option("--reason", default="", help="With --where: kept with the operation.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@as_json_option
@click.pass_context
def retry(
    ctx: click.Context,
    execution_id: str | None,
    where: str | None,
    from_step: str,
    iterations: str | None,
    overrides: tuple[str, ...],
    payload: str | None,
    file: Path | None,
    version: str | None,
    dry_run: bool,
    yes: bool,
    concurrency: int | None,
    limit: int | None,
    reason: str,
    quiet: bool,
    as_json: bool,
) -> None:
    """Run an ended execution again. What it recorded stands in for calls that nothing has changed
    for: their code, what they read, and the names of their credentials. What is set goes over what
    it was given. With --where all are retried of which that is true, as one operation."""
    if (execution_id is None) is (where is None):
        raise BadRequest("Name the execution that is to be retried, or say which ones by --where.")
    if where is None and (concurrency or limit or reason):
        raise BadRequest(
            "--concurrency, --limit and --reason are for many executions: say which ones by --where."
        )
    wanted = RetryRequest(
        execution_id or "",
        from_step,
        iterations or "",  # type: ignore[arg-type]  # click has checked it
        payload_of(payload),
        version=version_of(version, file),
        confirmed=yes,
    )
    assigned = assigned_of(overrides)
    if where is not None:
        fleet = FleetRequest(where, wanted, concurrency or CONCURRENCY, limit or LIMIT, reason=reason)
        how = Manner(dry_run=dry_run, quiet=quiet, as_json=as_json)
        ctx.exit(retry_many(lambda rt: _with_file(rt, wanted, file), fleet, assigned, how))
    with open_runtime() as rt:
        shard = inspect.execution(rt, wanted.execution_id).shard
        wanted = _with_overrides(rt, _with_file(rt, wanted, file), assigned)
        planned = retrying.plan(with_files(rt, shard, file), wanted)
    if dry_run or not (as_json or quiet):
        show_plan(planned, as_json=as_json, err=not dry_run)
    if dry_run:
        return
    wanted = confirmed(wanted, needed=bool(planned.plan.repeats))
    run_there(ctx, shard, lambda rt: retrying.retry(rt, wanted), quiet=quiet, as_json=as_json, file=file)


def version_of(version: str | None, file: Path | None) -> int | None:
    """Raises BadRequest."""
    if version is None:
        return None
    if file is not None:
        raise BadRequest(
            "--playbook and --version exclude each other: the text of the file is its own version."
        )
    if version == "latest":
        return NEWEST
    if not version.isascii() or not version.isdecimal() or not int(version[:9]) > 0:
        raise BadRequest(f"--version is a number from 1, or `latest`, not {version!r}.")
    return int(version)


def _with_file(rt: Runtime, wanted: RetryRequest, file: Path | None) -> RetryRequest:
    if file is None:
        return wanted
    row = catalog.register(rt, read_text(file), str(file))
    places = tuple(map(str, directories_of(file)))
    return replace(wanted, path=row.path, version=row.version, directories=places)


def with_files(rt: Runtime, shard: str, file: Path | None) -> Runtime:
    """`rt`, which finds the playbooks beside `file`, as the process does that runs it here."""
    return rt if file is None or not shard else replace(rt, library=FileLibrary(directories_of(file)[0]))


def _with_overrides(rt: Runtime, wanted: RetryRequest, assigned: Sequence[Assigned]) -> RetryRequest:
    """What `--set` says, read as the playbook's inputs say."""
    if not assigned:
        return wanted
    inputs = catalog.inputs_of(rt, retrying.playbook_of(rt, wanted))
    return replace(wanted, overrides=overrides_of(assigned, inputs))


@click.command(
    short_help="Go on from an earlier moment, as another execution.",
    epilog="Example: noetl execution fork 1234567890123 --before load --set limit=10",
)
@execution_argument()
@click.option("--at", metavar="N", type=click.IntRange(min=0), help="From this version of the log on.")
@click.option("--before", metavar="STEP[#K]", default="", help="From before this step ran (last).")
@click.option("--set", "pairs", multiple=True, metavar="A.B=V", help="A ctx value there, typed as YAML.")
@click.option("--quiet", "-q", is_flag=True, help="No progress.")
@as_json_option
@click.pass_context
def fork(
    ctx: click.Context,
    execution_id: str,
    at: int | None,
    before: str,
    pairs: tuple[str, ...],
    quiet: bool,
    as_json: bool,
) -> None:
    """Go on from an earlier moment of an execution, as another one. Calls that were on their way
    there are made anew."""
    wanted = ForkRequest(execution_id, at, before, assignments_of(pairs))
    with open_runtime() as rt:
        shard = inspect.execution(rt, execution_id).shard
    run_there(ctx, shard, lambda rt: forking.fork(rt, wanted), quiet=quiet, as_json=as_json, file=None)


# --- running it -----------------------------------------------------------------------------------


def run_there(
    ctx: click.Context,
    shard: str,
    begin: Callable[[Runtime], ExecutionRow],
    *,
    quiet: bool,
    as_json: bool,
    file: Path | None,
) -> None:
    """Starts it where the other one ran: here, or with the stack."""
    if shard:
        with run_here(None if file is None else directories_of(file)[0]) as rt:
            report = run_command.follow_here(rt, begin(rt).execution_id, quiet=quiet or as_json)
        run_command.show(report, as_json=as_json, file="" if file is None else str(file))
        ctx.exit(run_command.EXIT.get(str(report["status"]), 1))
    with open_runtime() as rt:
        row = begin(rt)
    if as_json:
        json_out(_summary(row))
        return
    click.echo(f"{row.execution_id}: {row.descent} of {row.source_id} ({row.status}).")


def _summary(row: ExecutionRow) -> JsonMap:
    return {
        "execution_id": row.execution_id,
        "status": row.status,
        "source_id": row.source_id,
        "descent": row.descent,
    }


# --- the plan -------------------------------------------------------------------------------------


def show_plan(planned: PlannedRetry, *, as_json: bool, err: bool) -> None:
    """What stands and what runs, a line for each firing; on standard error where a run follows."""
    if as_json:
        json_out(planned.as_json())
    else:
        show_runs(planned, "retry", err=err)


def show_runs(planned: PlannedRetry, word_for_it: str, *, err: bool) -> None:
    """The same as lines for people."""
    plan, request = planned.plan, planned.request
    source = planned.source.execution_id
    click.echo(f"{word_for_it} of {source}: {request.path}@{request.playbook_version}", err=err)
    counted = any(run.iterations for run in plan.runs)
    rows = [
        (run.step, run.verdict, *([_iterations(run)] if counted else []), run.reason) for run in plan.runs
    ]
    stream = sys.stderr if err else sys.stdout
    width = shutil.get_terminal_size().columns - 2 if stream.isatty() else _UNBOUNDED
    for line in align_columns(rows, width) if rows else ():
        click.echo(f"  {line}", err=err)
    counts = [f"{plan.count(verdict)} {verdict}" for verdict in get_args(Verdict) if plan.count(verdict)]
    click.echo(" · ".join(counts) or "no step with a tool has run", err=err)
    for run in plan.repeats:
        again = word("again", "yellow")
        click.echo(f"{again}: {', '.join(run.repeats)} of step '{run.step}' may have had effects", err=err)
    if plan.error is not None:
        click.echo(run_command.explain(plan.error.as_json()), err=err)


def _iterations(run: PlannedRun) -> str:
    if run.iterations is None:
        return ""
    return " · ".join(f"{count} {what}" for what, count in run.iterations.items() if count)
