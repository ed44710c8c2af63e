"""`noetl server`, `scheduler`, `worker`, `sweeper`: one process of the stack each.

They become the program that does the work (`gunicorn`, `celery`), so that signals reach it
directly.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
from importlib.metadata import version

import click

from noetl import bootstrap
from noetl.cli.process import drop_repeats, handle_signals, open_runtime
from noetl.config import Settings
from noetl.dispatch.naming import SCHEDULER_QUEUE
from noetl.dispatch.titles import name_process
from noetl.dsl.document.texts import is_template
from noetl.errors import ConfigError, NoetlError, Unavailable
from noetl.local_access import keep_first_token
from noetl.net.model import Net
from noetl.tools.code.runner.control import sweep_runs
from noetl.tools.kit.registry import kinds as installed_kinds
from noetl.usecases.results import collect
from noetl.usecases.runtime import Runtime
from noetl.usecases.sweep import sweep

log = logging.getLogger(__name__)

#: Queues whose tasks hold a processor, as simulations do, or a child process.
PREFORK_QUEUES = ("python", "shell", "quantum")


def server_argv(
    host: str, port: int, requests: int = 8, streams: int = 300, log_level: str = "warning"
) -> list[str]:
    """What follows `python -m gunicorn` for the API server: a thread for each request that is
    answered or waits, as NOETL_SERVER_THREADS and NOETL_SERVER_STREAMS allow."""
    threads = requests + streams
    # gunicorn from 25.1 opens a control socket in the user's home, the same for all servers: two
    # stacks would fight for it.
    release = tuple(int(part) for part in version("gunicorn").split(".")[:2])
    bind = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
    return [
        *("noetl.wsgi:app", "--bind", bind, "--name", "noetl: server"),
        *("--workers", "1", "--threads", str(threads), "--worker-class", "noetl.api.refusals.ProblemWorker"),
        *("--worker-connections", str(2 * threads + 500)),
        *("--graceful-timeout", "5", "--log-level", log_level),
        *("--logger-class", "noetl.api.server_log.ServerLog"),
        *(["--no-control-socket"] if release >= (25, 1) else ()),
    ]


def worker_argv(queues: str, pool: str, concurrency: int, name: str) -> list[str]:
    """What follows `python -m celery` for a worker."""
    return [
        *("-A", "noetl", "worker", "-Q", queues, "-P", pool),
        *("-c", str(concurrency), "-n", f"{name}@%h", "-E", "--without-gossip", "--without-mingle"),
        *("-l", Settings.from_env().log_level),
    ]


def _become_program(module: str, argv: list[str]) -> None:
    # The process is to be replaced, without a shell in between.
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, *argv])  # noqa: S606


def _need_broker() -> None:
    if not Settings.from_env().broker_url:
        raise ConfigError("NOETL_BROKER_URL is not set; set it (redis://host:6379/0) or use `noetl up`.")


@click.command(epilog="Example: noetl server --port 8642")
@click.option(
    "--host",
    metavar="ADDRESS",
    default=lambda: Settings.from_env().host,
    help="Where to listen.  [default: NOETL_HOST, else 127.0.0.1]",
)
@click.option(
    "--port",
    metavar="PORT",
    type=click.IntRange(0, 65535),
    default=lambda: Settings.from_env().port,
    help="On which port.  [default: NOETL_PORT, else 8642]",
)
@click.option(
    "--threads",
    metavar="N",
    type=click.IntRange(1),
    default=lambda: Settings.from_env().server_threads,
    help="Requests answered at once, besides those that wait.  [default: NOETL_SERVER_THREADS, else 8]",
)
def server(host: str, port: int, threads: int) -> None:
    """Run the REST API (gunicorn)."""
    settings = Settings.from_env()
    if settings.broker_url:
        bootstrap.check_celery(settings)
    try:
        with open_runtime() as rt:
            keep_first_token(rt, settings)
    except Unavailable as error:
        log.warning("The first token has to wait: %s", error)
    # The program that this becomes reads its settings itself, and whom it answers follows from
    # where it listens.
    os.environ.update({"NOETL_HOST": host, "NOETL_PORT": str(port), "NOETL_SERVER_THREADS": str(threads)})
    # At `info` gunicorn says where it listens.
    _become_program("gunicorn", server_argv(host, port, threads, settings.server_streams, "info"))


@click.command(epilog="Example: noetl scheduler")
def scheduler() -> None:
    """Run the scheduler: the single consumer of the `scheduler` queue."""
    _need_broker()
    _become_program("celery", worker_argv(SCHEDULER_QUEUE, "solo", 1, "scheduler"))


@click.command(epilog="Example: noetl worker -Q python,http --pool threads --concurrency 4")
@click.option(
    "--queues", "-Q", metavar="A,B", help="Comma-separated; every queue of the installed tools unless given."
)
@click.option(
    "--pool",
    "-P",
    type=click.Choice(["prefork", "threads", "solo"]),
    default="threads",
    show_default=True,
    help="How tasks run side by side: in processes, in threads, or one after another.",
)
@click.option(
    "--concurrency",
    "-c",
    metavar="N",
    type=click.IntRange(1),
    default=4,
    show_default=True,
    help="Tasks at once.",
)
@click.option("--name", "-n", metavar="NAME", default="worker", show_default=True, help="Name in Flower.")
def worker(queues: str | None, pool: str, concurrency: int, name: str) -> None:
    """Run a worker for some queues."""
    _need_broker()
    _become_program("celery", worker_argv(queues or ",".join(all_queues()), pool, concurrency, name))


def all_queues() -> list[str]:
    """The queues of the installed tools, and the default one."""
    return sorted({info.queue for info in installed_kinds().values()} | {"default"})


def queues_of(net: Net) -> set[str]:
    """The queues that the steps of a playbook go to, as far as the playbook itself says."""
    return {step.queue for step in net.transitions if step.calls and not is_template(step.queue)}


@click.command(epilog="Example: noetl sweeper --interval 2")
@click.option(
    "--interval",
    metavar="SECONDS",
    type=click.FloatRange(min=0.1),
    help="Between sweeps.  [default: NOETL_SWEEP_S, else 1]",
)
def sweeper(interval: float | None) -> None:
    """Run the sweeper: finds again what messages lost. Any number may run."""
    settings = Settings.from_env()
    name_process("sweeper")
    bootstrap.open_log(settings)
    drop_repeats()
    stop = threading.Event()
    handle_signals(lambda *_: stop.set(), signal.SIGTERM, signal.SIGINT)
    rt = bootstrap.runtime(settings, bootstrap.dispatcher_of(settings))
    if settings.results_gc_s:
        collector = threading.Thread(target=_collect, args=(rt, stop, settings.results_gc_s), daemon=True)
        collector.start()
    pause = settings.sweep_s if interval is None else interval
    while not stop.wait(pause or 1.0):
        if not pause:
            continue
        try:
            sweep_runs(settings.home_dir / "scratch")
            sweep(rt)
        except Unavailable as error:
            log.warning("Nothing is swept: %s", error)
        except Exception:
            # Nobody else finds what messages lost: not even a defect may end it.
            log.exception("A sweep failed; the next one goes on")
    bootstrap.close(rt)


def _collect(rt: Runtime, stop: threading.Event, pause_s: float) -> None:
    """Clears results away now and then; beside the sweeps, because a large store takes its time."""
    while True:
        try:
            collect(rt, rt.clock())
        except (NoetlError, OSError):
            log.exception("Results could not be cleared away; the next time goes on")
        if stop.wait(pause_s):
            return
