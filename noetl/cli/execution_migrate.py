"""`noetl execution migrate`: open executions that wait go on under another version."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from pathlib import Path

import click

from noetl.cli.address import execution_argument
from noetl.cli.complaints import word
from noetl.cli.console import as_json_option, directories_of, is_asked, json_out, read_text
from noetl.cli.execution_again import run_there, show_runs, version_of
from noetl.cli.process import open_runtime
from noetl.errors import BadRequest
from noetl.usecases import catalog, inspect
from noetl.usecases import migrate as migrating
from noetl.usecases.migrate import MigrateRequest, PlannedMigration
from noetl.usecases.retry import NEWEST
from noetl.usecases.runtime import Runtime


@click.command(
    short_help="Let open executions that wait go on under another version.",
    epilog="Example: noetl execution migrate 1234567890123 --playbook fixed.yaml --dry-run",
)
@execution_argument("execution_ids", nargs=-1, required=True, metavar="EXECUTION_IDS...")
@click.option("--playbook", "file", type=click.Path(path_type=Path), help="To this text of the playbook.")
@click.option("--version", metavar="N|latest", help="To this version; else to the newest.")
@click.option("--dry-run", is_flag=True, help="Print what would stand and what would run; change nothing.")
@click.option("--yes", is_flag=True, help="Calls that may have had effects may be made again.")
@as_json_option
@click.pass_context
def migrate(
    ctx: click.Context,
    execution_ids: tuple[str, ...],
    file: Path | None,
    version: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Let open executions that wait go on under another version of their playbook, as other
    executions. What they recorded stands as for a retry, and so has what they hold: where it is
    another thing in that version, they stay as they are, and the reason is printed."""
    stayed = False
    for execution_id in execution_ids:
        with open_runtime() as rt:
            shard = inspect.execution(rt, execution_id).shard
            wanted = _request(rt, execution_id, file, version_of(version, file))
            planned = migrating.plan(rt, wanted)
        if dry_run:
            _show(planned, as_json=as_json)
        elif planned.obstacles:
            stayed = True
            _say_stays(planned, as_json=as_json)
        elif shard and len(execution_ids) > 1:
            raise BadRequest("Executions of `noetl run` are migrated one at a time: each goes on here.")
        else:
            wanted = replace(wanted, confirmed=yes or _confirm(planned))
            begin = partial(migrating.migrate, request=wanted)
            run_there(ctx, shard, begin, quiet=False, as_json=as_json, file=file)
    if stayed:
        ctx.exit(1)


def _request(rt: Runtime, execution_id: str, file: Path | None, version: int | None) -> MigrateRequest:
    if file is None:
        return MigrateRequest(execution_id, NEWEST if version is None else version)
    row = catalog.register(rt, read_text(file), str(file))
    return MigrateRequest(execution_id, row.version, row.path, tuple(map(str, directories_of(file))))


def _show(planned: PlannedMigration, *, as_json: bool) -> None:
    if as_json:
        json_out(planned.as_json())
        return
    show_runs(planned.again, "migration", err=False)
    for obstacle in planned.obstacles:
        click.echo(f"{word('stays', 'yellow')}: {obstacle}")


def _say_stays(planned: PlannedMigration, *, as_json: bool) -> None:
    if as_json:
        json_out(planned.as_json())
        return
    click.echo(f"{planned.again.source.execution_id} stays: {'; '.join(planned.obstacles)}", err=True)


def _confirm(planned: PlannedMigration) -> bool:
    """Whether somebody at a terminal says that effects may happen again; nobody is asked where
    there are none."""
    if not planned.again.plan.repeats or not is_asked():
        return False
    show_runs(planned.again, "migration", err=True)
    return click.confirm("Make these calls again?", abort=True, err=True)
