"""`noetl execution migrate`: open executions that wait go on under another version."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from noetl.cli.address import execution_argument
from noetl.cli.complaints import word
from noetl.cli.console import as_json_option, directories_of, is_asked, json_out, read_text, where_option
from noetl.cli.execution_again import run_there, show_runs, version_of, with_files
from noetl.cli.process import open_runtime
from noetl.errors import BadRequest, Conflict
from noetl.usecases import catalog, inspect
from noetl.usecases import migrate as migrating
from noetl.usecases.fleet.choosing import find_open
from noetl.usecases.migrate import MigrateRequest, PlannedMigration
from noetl.usecases.ports import ExecutionRow
from noetl.usecases.retry import NEWEST
from noetl.usecases.runtime import Runtime


@click.command(
    short_help="Let open executions that wait go on under another version.",
    epilog="Example: noetl execution migrate 1234567890123 --playbook fixed.yaml --dry-run",
)
@execution_argument("execution_ids", nargs=-1, metavar="EXECUTION_IDS...")
@where_option
@click.option("--playbook", "file", type=click.Path(path_type=Path), help="To this text of the playbook.")
@click.option("--version", metavar="N|latest", help="To this version; else to the newest.")
@click.option("--dry-run", is_flag=True, help="Print what would be kept and what would run; change nothing.")
@click.option("--yes", is_flag=True, help="Calls that may have had effects may be made again.")
@as_json_option
@click.pass_context
def migrate(
    ctx: click.Context,
    execution_ids: tuple[str, ...],
    where: str | None,
    file: Path | None,
    version: str | None,
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Let open executions that wait go on under another version of their playbook, as other
    executions. What they recorded stands as for a retry, and so has what they hold: where it is
    another thing in that version, they stay as they are, and the reason is printed. With --where
    all open ones are meant of which that is true, but for those that run that version already."""
    if bool(execution_ids) is (where is not None):
        raise BadRequest("Name the executions that are to be migrated, or say which ones by --where.")
    wanted = _Wanted(file, version_of(version, file), yes, as_json)
    with open_runtime() as rt:
        rows = (
            [inspect.execution(rt, one) for one in execution_ids]
            if where is None
            else _find(rt, where, wanted)
        )
    if not dry_run and len(rows) > 1 and any(row.shard for row in rows):
        raise BadRequest("Executions of `noetl run` are migrated one at a time: each goes on here.")
    moved = [_migrate(ctx, row, wanted, dry_run=dry_run, many=len(rows) > 1) for row in rows]
    if where is not None and not rows:
        click.echo(f"No open execution is to be migrated where {where}.", err=True)
    if not all(moved):
        ctx.exit(1)


@dataclass(frozen=True, slots=True)
class _Wanted:
    file: Path | None
    version: int | None
    yes: bool
    as_json: bool


def _find(rt: Runtime, where: str, wanted: _Wanted) -> list[ExecutionRow]:
    rows = find_open(rt, where)
    requests = {row.execution_id: _request(rt, row.execution_id, wanted) for row in rows}
    versions = {name: migrating.version_of(rt, one) for name, one in requests.items()}
    return [row for row in rows if versions[row.execution_id] != row.playbook_version]


def _migrate(ctx: click.Context, row: ExecutionRow, wanted: _Wanted, *, dry_run: bool, many: bool) -> bool:
    """False where it stays. Of many, one that cannot be migrated keeps none of the others."""
    try:
        return _migrate_one(ctx, row, wanted, dry_run=dry_run)
    except Conflict as error:
        if not many:
            raise
        click.echo(f"{row.execution_id} stays: {error.message}", err=True)
        return False


def _migrate_one(ctx: click.Context, row: ExecutionRow, wanted: _Wanted, *, dry_run: bool) -> bool:
    with open_runtime() as rt:
        request = _request(rt, row.execution_id, wanted)
        planned = migrating.plan(with_files(rt, row.shard, wanted.file), request)
    if dry_run:
        _show(planned, as_json=wanted.as_json)
    elif planned.obstacles:
        _say_stays(planned, as_json=wanted.as_json)
        return False
    else:
        request = replace(request, confirmed=wanted.yes or _confirm(planned))
        begin = partial(migrating.migrate, request=request)
        run_there(ctx, row.shard, begin, quiet=False, as_json=wanted.as_json, file=wanted.file)
    return True


def _request(rt: Runtime, execution_id: str, wanted: _Wanted) -> MigrateRequest:
    if wanted.file is None:
        return MigrateRequest(execution_id, NEWEST if wanted.version is None else wanted.version)
    row = catalog.register(rt, read_text(wanted.file), str(wanted.file))
    return MigrateRequest(execution_id, row.version, row.path, tuple(map(str, directories_of(wanted.file))))


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
