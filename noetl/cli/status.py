"""`noetl status`: whether NoETL runs here, where, and how it is."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from pathlib import Path

import click

from noetl import bootstrap
from noetl.cli.complaints import word
from noetl.cli.console import as_json_option, json_out, table
from noetl.cli.remote import TRIES, own_server
from noetl.cli.up import announce
from noetl.cli.work_in_hand import find_pid
from noetl.client import Client
from noetl.config import Settings
from noetl.errors import NoetlError
from noetl.facts.json import Json, JsonMap
from noetl.store.running import RunningStack, find, is_held
from noetl.usecases.health import SEEN
from noetl.usecases.ports import WorkerRow


@click.command(epilog="Example: noetl status --json")
@as_json_option
@click.pass_context
def status(ctx: click.Context, as_json: bool) -> None:
    """Say whether NoETL runs here, where, and how it is. Exit code 1 where it is not well.

    That is the stack of `noetl up` on this home; without one, the API at NOETL_HOST and NOETL_PORT,
    and the processes that serve the queues of this database.
    """
    settings = Settings.from_env()
    home = settings.home_dir
    stack = find(home)
    if stack is not None:
        ctx.exit(_show_stack(home, stack, as_json=as_json))
    # It holds the home from the first moment on, and writes where it is when it answers.
    if is_held(home):
        ctx.exit(_show_change(home, as_json=as_json))
    ctx.exit(_show_processes(settings, as_json=as_json))


def _show_stack(home: Path, stack: RunningStack, *, as_json: bool) -> int:
    """The stack of `noetl up`. Returns the exit code."""
    health = _health(stack.api)
    if as_json:
        # Without the URL of the broker, which may hold a password.
        parts = {name: value for name, value in asdict(stack).items() if name != "broker_about"}
        parts["broker"] = stack.broker_about
        json_out({"running": True, "home": str(home), **parts, "health": health})
    else:
        announce(stack)
        click.echo("Processes:   " + ", ".join(f"{name} {pid}" for name, pid in stack.pids.items()))
        _describe(health)
    return 0 if health["status"] == "ok" else 1


def _show_change(home: Path, *, as_json: bool) -> int:
    if as_json:
        json_out({"running": False, "starting_or_stopping": True, "home": str(home)})
    else:
        click.echo(f"The stack on {home} is just starting or stopping.")
    return 1


def _show_processes(settings: Settings, *, as_json: bool) -> int:
    """What was started one by one, as the Procfile does. Returns the exit code."""
    api = own_server(settings)
    seen, health = _read_processes(settings), _health(api)
    processes = seen.rows
    running = bool(processes) or health["status"] != "down"
    if as_json:
        home = str(settings.home_dir)
        about: dict[str, Json] = {"running": running, "starting_or_stopping": False, "home": home}
        if running:
            about |= {"api": api, "processes": [*map(_as_json, processes)], "health": health}
        json_out(about)
    elif running:
        click.echo(f"`noetl up` does not run on {settings.home_dir}. What runs was started by itself.")
        click.echo(f"API:         {api}")
        _list_processes(seen)
        _describe(health)
    else:
        click.echo(
            f"Nothing runs on {settings.home_dir}: no `noetl up`, no API at {api}, no worker of its "
            "database; `noetl up` starts a stack."
        )
    return 0 if health["status"] == "ok" and _has_scheduler(processes) else 1


@dataclass(frozen=True, slots=True)
class SeenProcesses:
    """Those that are alive as of `now`, by the clock that they write."""

    now: datetime
    rows: Sequence[WorkerRow]


def _read_processes(settings: Settings) -> SeenProcesses:
    """The processes whose signs of life are in the settings' database, but for those of this
    machine that were killed since; none where it cannot be read, which the health of the API tells
    of."""
    try:
        with bootstrap.read_database(settings) as tx:
            now = bootstrap.now() if tx is None else tx.now() or bootstrap.now()
            rows = [] if tx is None else tx.workers.alive(now - SEEN)
    except NoetlError:
        return SeenProcesses(bootstrap.now(), [])
    return SeenProcesses(now, [row for row in rows if not _is_gone(row)])


def _is_gone(row: WorkerRow) -> bool:
    pid = find_pid(row.name)
    if pid is None:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return True
    except PermissionError:
        pass  # it runs as another user
    return False


def _has_scheduler(processes: Sequence[WorkerRow]) -> bool:
    return any(row.role == "scheduler" for row in processes)


def _as_json(row: WorkerRow) -> JsonMap:
    return {
        "name": row.name,
        "role": row.role,
        "queues": list(row.queues),
        "started_at": row.started_at.isoformat(),
        "seen_at": row.seen_at.isoformat(),
    }


def _list_processes(seen: SeenProcesses) -> None:
    table(
        ("process", "role", "queues", "last seen"),
        (
            (row.name, row.role, ", ".join(row.queues), f"{_seconds_since(row, seen):.0f} s ago")
            for row in seen.rows
        ),
    )
    if not _has_scheduler(seen.rows):
        click.echo(f"{word('down', 'red')}: scheduler: nothing goes on without it; start `noetl scheduler`.")


def _seconds_since(row: WorkerRow, seen: SeenProcesses) -> float:
    return (seen.now - row.seen_at).total_seconds()


def _health(api: str) -> dict[str, Json]:
    """What the API reports; `down` where it does not answer."""
    try:
        with Client(api, tries=TRIES) as client:
            return dict(client.health())
    except NoetlError as error:
        return {"status": "down", "api": {"status": "down", "detail": error.message}}


def _describe(health: dict[str, Json]) -> None:
    for part, state in health.items():
        if isinstance(state, dict) and state["status"] == "down":
            click.echo(f"{word('down', 'red')}: {part}: {state.get('detail', '')}")
    click.echo(f"Health:      {health['status']}")
