"""The Celery application: `celery -A noetl worker -Q http,python`, `celery -A noetl flower`."""

from __future__ import annotations

import gc
import logging
import os
import socket
import threading
from typing import Any

from celery import Celery
from celery.signals import (
    setup_logging,
    task_rejected,
    task_unknown,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_ready,
    worker_shutdown,
)

from noetl import bootstrap
from noetl.config import Settings
from noetl.dispatch.celery import CeleryDispatcher, make_app
from noetl.dispatch.naming import SCHEDULER_QUEUE
from noetl.errors import NoetlError
from noetl.store import open_store
from noetl.tasks.commands import register
from noetl.usecases.leases import Leases, Presence
from noetl.usecases.work import Worker

log = logging.getLogger(__name__)

settings = Settings.from_env()
app: Celery = make_app(settings.broker_url or "redis://127.0.0.1:6379/0", settings.backend)


#: Characters of an unreadable message that are kept.
KEPT = 2000


def _role() -> tuple[str, tuple[str, ...]]:
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
                rt = bootstrap.runtime(settings, CeleryDispatcher(app))
                name = f"{socket.gethostname()}:{os.getpid()}"
                leases = Leases(rt, Presence(name, *_role()))
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


@worker_init.connect
def _settle(**_: object) -> None:
    """Before any fork: what is imported by now stays for ever. The collector needs not look at it again, and
    what Celery's requests leave in cycles is collected while it is small (25 % of everything, otherwise)."""
    gc.collect()
    gc.freeze()


@worker_process_init.connect
def _begin(**_: object) -> None:
    process.worker()


@worker_ready.connect
def _ready(sender: Any = None, **_: object) -> None:
    """Pools without children of their own work in this process; a prefork pool's parent must stay without
    threads, because it forks again."""
    if not getattr(getattr(sender, "pool", None), "uses_semaphore", False):
        process.worker()


@worker_process_shutdown.connect
@worker_shutdown.connect
def _end(**_: object) -> None:
    process.close()


@task_unknown.connect
@task_rejected.connect
def _unreadable(message: Any = None, exc: BaseException | None = None, **_: object) -> None:
    """A message that is none of ours is taken off the queue and kept for people to look at."""
    body = str(getattr(message, "body", message))[:KEPT]
    queue = str((getattr(message, "delivery_info", None) or {}).get("routing_key", ""))
    try:
        store = open_store(settings.database)
        with store.begin() as tx:
            tx.add_dead_letter(f"broker:{queue}", str(exc) or type(exc).__name__, body, bootstrap.now())
        store.close()
    except NoetlError:
        log.exception("An unreadable message could not be kept: %s", body)


@setup_logging.connect
def _logging(**_: object) -> None:
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
