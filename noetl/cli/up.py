"""`noetl up` and `down`: the whole stack on one machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from noetl.cli.access import warn_if_open
from noetl.cli.console import (
    assigned_of,
    complete_file,
    payload_of,
    read_text,
)
from noetl.cli.process import handle_signals
from noetl.cli.run import EXIT, show
from noetl.cli.stack import find_queues, run_stack
from noetl.cli.stack_settings import stack_settings
from noetl.config import Settings
from noetl.dispatch.titles import name_process
from noetl.errors import Conflict, Unavailable
from noetl.store.migrate import upgrade
from noetl.store.running import RunningStack, find, hold_home, is_held

#: Seconds that a stack may take to stop: its running tasks have eight of them.
STOP_S: Final = 30.0
_PAUSE_S: Final = 0.05
#: Lines of its log that are shown of a stack that did not come up.
_LINES: Final = 20


@click.command(epilog="Example: noetl up --run examples/hello.yaml")
@click.option(
    "--run",
    "files",
    multiple=True,
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Run this playbook and stop; may be repeated.",
)
@click.option(
    "--set",
    "overrides",
    multiple=True,
    metavar="A.B=V",
    help="Set a workload value, with --run; +A=V adds one.",
)
@click.option(
    "--payload", metavar="JSON|FILE", shell_complete=complete_file, help="Workload values, with --run."
)
@click.option("--json", "as_json", is_flag=True, help="With --run, print one JSON object for each playbook.")
@click.option(
    "--host", metavar="ADDRESS", help="Where the API listens.  [default: NOETL_HOST, else 127.0.0.1]"
)
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    help="On which port; 0 takes a free one.  [default: NOETL_PORT, else 8642]",
)
@click.option("--detach", "-d", is_flag=True, help="Return once it answers; `noetl down` stops it.")
@click.option("--flower/--no-flower", default=True, help="Start Flower, unless NOETL_FLOWER_URL names one.")
@click.option(
    "--concurrency",
    "-c",
    metavar="N",
    type=click.IntRange(1),
    default=2,
    show_default=True,
    help="Python, shell and quantum tasks at once.",
)
@click.option(
    "--queues",
    "-Q",
    metavar="A,B",
    default="",
    help="Served besides those of the installed tools and those that playbooks of --run name.",
)
@click.pass_context
def up(
    ctx: click.Context,
    files: tuple[Path, ...],
    overrides: tuple[str, ...],
    payload: str | None,
    as_json: bool,
    host: str | None,
    port: int | None,
    detach: bool,
    flower: bool,
    concurrency: int,
    queues: str,
) -> None:
    """Start API, scheduler, workers, sweeper and Flower, and keep them running until Ctrl-C.

    The database is that of NOETL_DATABASE_URL, else SQLite in NOETL_HOME; the broker that of
    NOETL_BROKER_URL, else a private Redis, else files.
    """
    if not files and (overrides or payload is not None or as_json):
        raise click.UsageError("--set, --payload and --json belong to --run; name a playbook with it.", ctx)
    if detach:
        if files:
            raise click.UsageError("--run waits for its playbooks; leave out --detach.", ctx)
        given = {"--host": host, "--port": port, "--queues": queues or None, "--concurrency": concurrency}
        options = [f"{name}={value}" for name, value in given.items() if value is not None]
        _leave_running(host, [*options, "--flower" if flower else "--no-flower"])
        return
    handle_signals(_leave, signal.SIGTERM, signal.SIGHUP)
    texts = {file: read_text(file) for file in files}
    # Errors of one are reported under its name, before anything is started.
    more = find_queues(texts) | {queue for queue in queues.split(",") if queue}
    values, assigned = payload_of(payload), assigned_of(overrides)
    name_process("up")
    with (
        # A stack that holds the home is reported before its port.
        hold_home(Settings.from_env().make_home()),
        run_stack(
            stack_settings(host, port, files), flower=flower, concurrency=concurrency, queues=more
        ) as stack,
    ):
        warn_if_open(stack.settings)
        if not files:
            announce(stack.note())
            click.echo("Ctrl-C stops everything.")
            stack.serve()
            return
        if not as_json:
            names = ", ".join(stack.supervisor.pids)
            click.echo(f"NoETL is up at {stack.url}: {names}. Broker: {stack.broker.about}.", err=True)
        worst = 0
        for file, text in texts.items():
            report = stack.run(file, text, values, assigned, quiet=as_json)
            show(report, as_json=as_json, file=str(file), is_here=False)
            worst = max(worst, EXIT.get(str(report["status"]), 1))
    ctx.exit(worst)


def _leave_running(host: str | None, options: list[str]) -> None:
    """Starts a stack with these options that goes on behind this command, and says where it is."""
    settings = Settings.from_env()
    running = _start_detached(settings, options)
    announce(running)
    at = urlsplit(running.api).port or settings.port
    warn_if_open(replace(settings, host=host or settings.host, port=at))
    click.echo("`noetl status` says how it is, `noetl down` stops it.")


def _leave(number: int, _frame: object) -> None:
    """Whenever the signal comes, what was started is stopped on the way out."""
    raise SystemExit(128 + number)


# --- a stack in the background ---


def _start_detached(settings: Settings, options: Sequence[str]) -> RunningStack:
    """Starts `noetl up` in another session, and returns once it answers. Raises Conflict where one
    runs already, Unavailable where it does not answer."""
    home = settings.make_home()
    if is_held(home):
        raise Conflict(f"A stack runs on {home} already; `noetl status` says where, `noetl down` stops it.")
    # Here, where somebody reads what it says.
    upgrade(settings.database, settings.database_schema)
    log = home / "logs" / "up.log"
    log.parent.mkdir(exist_ok=True)
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, "-P", "-m", "noetl", "up", *options],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return _wait_until_up(process, home, log)
    except BaseException:
        process.terminate()
        raise


def _wait_until_up(process: subprocess.Popen[bytes], home: Path, log: Path) -> RunningStack:
    while process.poll() is None:
        running = find(home)
        if running is not None and running.pids["up"] == process.pid:
            return running
        time.sleep(_PAUSE_S)
    last = "\n".join(log.read_text(errors="replace").splitlines()[-_LINES:])
    raise Unavailable(f"`noetl up` ended with exit code {process.returncode}; its log is {log}:\n{last}")


def announce(stack: RunningStack) -> None:
    """Says where the parts of a stack are."""
    click.echo(f"NoETL is up: {stack.api} (API document: {stack.api}/api/openapi.json)")
    if stack.flower is not None:
        click.echo(f"Flower:      {stack.flower}")
    click.echo(f"Database:    {stack.database}")
    click.echo(f"Broker:      {stack.broker_about}")
    click.echo(f"Logs:        {stack.logs}")
    if stack.token is not None:
        click.echo(f"Token:       {stack.token} (of admin)")
    if stack.needs_token:
        click.echo(
            "Requests need a token (`Authorization: Bearer …`), that of admin or one of `noetl token create`."
        )


@click.command(epilog="Example: noetl down")
def down() -> None:
    """Stop the stack that `noetl up` runs on this home.

    Running tasks have eight seconds to end; what does not end is run again by the next `noetl up`.
    """
    home = Settings.from_env().home_dir
    stack = find(home)
    if stack is None and is_held(home):
        raise Conflict(f"The stack on {home} is just starting or stopping; try again in a moment.")
    if stack is None:
        click.echo(f"Nothing runs on {home}.")
        return
    pid = stack.pids["up"]
    os.kill(pid, signal.SIGTERM)
    give_up = time.monotonic() + STOP_S
    while is_held(home) or _is_alive(pid):
        if time.monotonic() > give_up:
            raise Unavailable(f"The stack does not end within {STOP_S:g} s; `kill -9 {pid}` ends it at once.")
        time.sleep(_PAUSE_S)
    click.echo(f"Stopped {stack.api}.")


def _is_alive(pid: int) -> bool:
    """Whether that process still runs: the last thing that it does is to release its lock."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
