"""`noetl up`: the whole stack on one machine."""

from __future__ import annotations

import signal
import socket
from collections.abc import Collection
from dataclasses import replace
from pathlib import Path

import click

from noetl.api.guards import is_loopback
from noetl.cli.background import announce, start_detached
from noetl.cli.inputs import complete_file, directories_of, overrides_of, payload_of, read_text
from noetl.cli.process import handle_signals
from noetl.cli.run import EXIT, show
from noetl.cli.stack import queues_named, run_stack
from noetl.config import Settings
from noetl.dispatch.titles import name_process
from noetl.errors import ConfigError
from noetl.store.running import hold_home


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
@click.option("--flower/--no-flower", default=True, help="Start the Flower dashboard.")
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
        announce(start_detached(_make_home(), [*options, "--flower" if flower else "--no-flower"]))
        click.echo("`noetl status` says how it is, `noetl down` stops it.")
        return
    handle_signals(_leave, signal.SIGTERM, signal.SIGHUP)
    texts = {file: read_text(file) for file in files}
    # Errors of one are reported under its name, before anything is started.
    more = queues_named(texts) | {queue for queue in queues.split(",") if queue}
    values, over = payload_of(payload), overrides_of(overrides)
    name_process("up")
    with (
        # A stack that holds the home is reported before its port.
        hold_home(_make_home()),
        run_stack(_settings(host, port, files), flower=flower, concurrency=concurrency, queues=more) as stack,
    ):
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
            report = stack.run(file, text, values, over, quiet=as_json)
            show(report, as_json=as_json, file=str(file))
            worst = max(worst, EXIT.get(str(report["status"]), 1))
    ctx.exit(worst)


def _leave(number: int, _frame: object) -> None:
    """Whenever the signal comes, what was started is stopped on the way out."""
    raise SystemExit(128 + number)


def _settings(host: str | None, port: int | None, files: Collection[Path]) -> Settings:
    settings = Settings.from_env()
    settings = replace(settings, home=settings.home_dir, host=host or settings.host)
    settings = with_files(settings, files)
    wanted = settings.port if port is None else port
    free = _find_port(settings.host, wanted)
    if free is None and port is None and files:
        free = _find_port(settings.host, 0)
    if free is None:
        raise ConfigError(f"Port {wanted} is in use; give another with --port, or --port 0 for a free one.")
    flower = _find_port(settings.host, settings.flower_port) or _find_port(settings.host, 0)
    return replace(settings, port=free, flower_port=flower or 0)


def _find_port(host: str, port: int) -> int | None:
    """`port` where it is free, else None; for 0 any that is free."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
        except OSError:
            if port:
                return None
            raise
        return int(probe.getsockname()[1])


def with_files(settings: Settings, playbooks: Collection[Path]) -> Settings:
    """A stack that only this machine reaches works for its user; the directories of `--run` are
    roots where there are any."""
    if not settings.files and is_loopback(settings.host):
        settings = replace(settings, files="user")
    if not settings.file_roots:
        return settings
    named = [one for file in playbooks for one in directories_of(file)]
    return replace(settings, file_roots=tuple(dict.fromkeys((*settings.file_roots, *named))))


def _make_home() -> Path:
    settings = Settings.from_env()
    settings.make_home()
    return settings.home_dir
