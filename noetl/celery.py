"""The Celery application: `celery -A noetl worker -Q http,python`, `celery -A noetl flower`."""

from __future__ import annotations

import gc
import logging
import os
import socket
import threading

from celery import Celery
from celery.signals import (
    setup_logging,
    worker_init,
    worker_process_init,
    worker_process_shutdown,
    worker_shutdown,
)

from noetl import bootstrap
from noetl.config import Settings
from noetl.dispatch.celery import CeleryDispatcher, make_app
from noetl.tasks.commands import register
from noetl.usecases.leases import Leases
from noetl.usecases.work import Worker

settings = Settings.from_env()
app: Celery = make_app(settings.broker_url or "redis://127.0.0.1:6379/0", settings.backend)


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
                self._pid, self._worker = os.getpid(), Worker(rt, name, Leases(rt))
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


@worker_process_shutdown.connect
@worker_shutdown.connect
def _end(**_: object) -> None:
    process.close()


@setup_logging.connect
def _logging(**_: object) -> None:
    logging.basicConfig(level=settings.log_level, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
