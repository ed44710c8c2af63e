"""The Celery application: `celery -A noetl worker -Q http,python`, `celery -A noetl flower`."""

from __future__ import annotations

import gc
import os
import socket
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

from noetl.collector import pause_collector

with pause_collector():
    import click
    from celery import Celery
    from celery.signals import (
        celeryd_init,
        setup_logging,
        task_rejected,
        worker_init,
        worker_process_init,
        worker_process_shutdown,
        worker_ready,
        worker_shutdown,
    )
    from click.core import ParameterSource

    from noetl import bootstrap
    from noetl.config import Settings
    from noetl.dispatch.celery import CeleryDispatcher, make_app
    from noetl.dispatch.dead_letters import DeadLetter, DeadLetterQueue
    from noetl.dispatch.debounce import Debouncer
    from noetl.dispatch.naming import SCHEDULER_QUEUE
    from noetl.dispatch.refused import refuse, refused
    from noetl.dispatch.titles import name_process
    from noetl.errors import ConfigError, Unavailable
    from noetl.processes import die_with_parent
    from noetl.store.running import find
    from noetl.tasks.commands import register
    from noetl.tools.code.runner.control import sweep_runs
    from noetl.usecases.work.leases import Leases, Worker, WorkerIdentity

#: The broker where none is set and no stack runs on this home.
_BROKER = "redis://127.0.0.1:6379/0"


def _configure() -> tuple[Settings, Celery]:
    """The settings and the application of this process. Where one cannot be used the process ends
    with the sentence that says so: Celery would show a traceback."""
    try:
        found = Settings.from_env()
        found = replace(found, broker_url=_broker_url(found))
        return found, make_app(found.broker_url, found.backend, found.task_timeout_s)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        raise SystemExit(2) from None


def _broker_url(settings: Settings) -> str:
    """The broker of the settings, else that of the stack which runs on this home, else a Redis on
    this machine.

    So `celery -A noetl inspect active` and `celery -A noetl flower` talk to the private broker of
    `noetl up`.
    """
    running = None if settings.broker_url else find(settings.home_dir)
    return settings.broker_url or (running.broker if running else _BROKER)


settings, app = _configure()


#: Seconds that a worker which is asked to stop waits for its dead letters.
LETTERS_S = 5.0

#: Seconds within which refused messages cause one wake: it might be refused as well, and cause the
#: next one.
WAKE_S = 0.5


def _find_role() -> tuple[str, tuple[str, ...]]:
    """What this process serves."""
    queues = tuple(sorted(app.amqp.queues.consume_from))
    return ("scheduler" if SCHEDULER_QUEUE in queues else "worker", queues)


class _Process:
    """This process's worker, made once after any fork."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._pid = 0
        self._worker: Worker | None = None

    def worker(self) -> Worker:
        with self._lock:
            if self._worker is None or self._pid != os.getpid():
                sweep_runs(settings.home_dir / "scratch")
                rt = bootstrap.runtime(settings, CeleryDispatcher(app))
                name = f"{socket.gethostname()}:{os.getpid()}"
                leases = Leases(rt, WorkerIdentity(name, *_find_role()))
                leases.start()
                self._pid, self._worker = os.getpid(), Worker(rt, name, leases)
            return self._worker

    def close(self) -> None:
        with self._lock:
            if self._worker is not None and self._pid == os.getpid():
                self._worker.leases.stop()
                bootstrap.close(self._worker.rt)
                self._worker = None


process = _Process()
register(app, process.worker)


#: What `ps` shows of this worker, once its name is known.
_title = "worker"

#: The process that was started, which forks those of a prefork pool.
_parent = 0


@celeryd_init.connect
def _learn_name(sender: str = "", instance: Any = None, **_: object) -> None:
    """`sender` is `NAME@HOST`: the scheduler has that name in every deployment of ours."""
    if settings.log_json:
        # Celery's banner is no line of a log, and it warns before it sets up its own.
        instance.quiet = True
        bootstrap.open_log(settings, _find_level())
    global _title  # noqa: PLW0603 - Celery's signals have nowhere else to keep it, and forks inherit it
    name = sender.partition("@")[0]
    _title = name if name == SCHEDULER_QUEUE else f"worker {name}"


@worker_init.connect
def _settle(**_: object) -> None:
    """Before any fork: what is imported by now stays for ever. The collector needs not look at it
    again, and what Celery's requests leave in cycles is collected while it is small (25 % of
    everything, otherwise)."""
    gc.collect()
    gc.freeze()
    global _parent  # noqa: PLW0603 - as `_title`
    _parent = os.getpid()


@worker_process_init.connect
def _begin(**_: object) -> None:
    if os.getpid() != _parent:
        # Celery asked for it as well, and the parent may have gone before that.
        die_with_parent(_parent)
    name_process(f"{_title}, child")
    process.worker()


@worker_ready.connect
def _on_ready(sender: Any = None, **_: object) -> None:
    """Pools without children work in this process; a prefork pool's parent must stay
    without threads, because it forks again."""
    name_process(_title)
    if not getattr(getattr(sender, "pool", None), "uses_semaphore", False):
        process.worker()


@worker_process_shutdown.connect
@worker_shutdown.connect
def _end(**_: object) -> None:
    process.close()
    letters.flush(LETTERS_S)


def _write_letters(found: Sequence[DeadLetter]) -> None:
    """Raises NoetlError."""
    store = bootstrap.open_database(settings)
    try:
        with store.begin() as tx:
            for one in found:
                tx.dead_letters.add(one.source, one.reason, one.body, one.recorded_at)
    finally:
        store.close()


letters = DeadLetterQueue(_write_letters)


def _wake() -> None:
    # The sweeper wakes the scheduler where this cannot.
    with suppress(Unavailable):
        CeleryDispatcher(app).wake()


wakes = Debouncer(_wake, WAKE_S)


@refused.connect
def _on_refused(queue: str = "", reason: str = "", body: str = "", **_: object) -> None:
    """A foreign message is off its queue, and kept for operators to look at."""
    letters.keep(DeadLetter(f"broker:{queue}", reason, body, bootstrap.now()))
    if queue == SCHEDULER_QUEUE:
        # Processes that wanted a turn while this was in the queue took it for a wake, and sent
        # none.
        wakes.request()


@task_rejected.connect
def _report_rejection(message: Any = None, exc: BaseException | None = None, **_: object) -> None:
    """What Celery itself finds wrong with a message, such as a malformed date."""
    queue = (getattr(message, "delivery_info", None) or {}).get("routing_key", "")
    refuse(queue, str(exc) or type(exc).__name__, getattr(message, "body", message))


@setup_logging.connect
def _on_setup_logging(**_: object) -> None:
    bootstrap.open_log(settings, _find_level())


def _prepare_flower() -> None:
    """Flower asks for the password that the server sends, unless it has one of its own. Tornado,
    which it is made of, logs in another form unless a handler is set already."""
    context = click.get_current_context(silent=True)
    if context is None or context.invoked_subcommand != "flower":
        return
    if settings.flower_auth:
        os.environ.setdefault("FLOWER_BASIC_AUTH", settings.flower_auth)
    if settings.log_json:
        bootstrap.open_log(settings)


_prepare_flower()


def _find_level() -> str | int | None:
    """What `-l` of Celery's command says; None where it was not given."""
    context = click.get_current_context(silent=True)
    if context is None or context.get_parameter_source("loglevel") is not ParameterSource.COMMANDLINE:
        return None
    level: str | int = context.params["loglevel"]
    return level
