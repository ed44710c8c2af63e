"""NoETL's processes as production runs them, and executions started from this one."""

from __future__ import annotations

import contextlib
import os
import re
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg2
import psycopg2.extensions

from benchmarks import machine
from benchmarks.servers import Servers, process
from noetl import bootstrap
from noetl.cli.services import worker_argv
from noetl.config import Settings
from noetl.dispatch.celery import CeleryDispatcher, make_app
from noetl.store.migrate import upgrade
from noetl.usecases import catalog, inspect
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start

PLAYBOOKS = Path(__file__).parent / "playbooks"
#: Worker processes that run the steps; raw Celery has as many.
WORKERS = 2
POLL_S = 0.001
PATIENCE_S = 300.0


@dataclass(frozen=True)
class Stack:
    """The processes by name, and the way to them."""

    rt: Runtime
    watcher: psycopg2.extensions.connection
    pids: dict[str, int]
    home: Path

    def start(self, path: str) -> str:
        return start(self.rt, StartRequest(path)).execution_id

    def wait(self, execution_id: str) -> None:
        wait_until_ended(self.watcher, execution_id)

    def result(self, execution_id: str) -> Any:
        """What the execution yields. Raises RuntimeError where it did not complete."""
        report = inspect.report(self.rt, execution_id)
        if report.row.status != "completed":
            raise RuntimeError(f"Execution {execution_id} is {report.row.status}: {report.error}")
        return report.result

    def resent(self) -> int:
        """How many commands the sweeper has sent again so far: without a fault there should be
        none."""
        said = (self.home / "sweeper.log").read_text()
        return sum(int(number) for number in re.findall(r"(\d+) commands were never claimed", said))

    def workers(self) -> list[int]:
        """The processes that run the steps: children of the prefork worker."""
        return [
            child.pid
            for child in machine.family(self.pids["code"])[1:]
            if child.ppid() == self.pids["code"] and "child" in " ".join(child.cmdline())
        ]


@contextlib.contextmanager
def stack(servers: Servers, home: Path) -> Iterator[Stack]:
    """Scheduler, workers and sweeper on these servers, with every playbook of the benchmark
    registered."""
    settings = Settings(home=home, database_url=servers.database_url, broker_url=f"{servers.redis_url}/0")
    upgrade(settings.database)
    environment = {**os.environ, **settings.as_environ()}
    commands = {
        "scheduler": ["celery", *worker_argv("scheduler", "solo", 1, "scheduler")],
        "code": ["celery", *worker_argv("python,default", "prefork", WORKERS, "code")],
        "sweeper": ["noetl", "sweeper"],
    }
    with contextlib.ExitStack() as running:
        pids = {
            name: running.enter_context(process(argv, home / f"{name}.log", environment)).pid
            for name, argv in commands.items()
        }
        rt = bootstrap.runtime(settings, CeleryDispatcher(make_app(settings.broker_url, settings.backend)))
        running.callback(bootstrap.close, rt)
        for file in sorted(PLAYBOOKS.glob("*.yaml")):
            catalog.register(rt, file.read_text(), file.name)
        yield Stack(
            rt, running.enter_context(contextlib.closing(open_watcher(servers.database_url))), pids, home
        )


def open_watcher(url: str) -> psycopg2.extensions.connection:
    """A connection for `wait_until_ended`, which waits for nothing else."""
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute("PREPARE ended(bigint) AS SELECT ended_at FROM execution WHERE execution_id = $1")
    return connection


def wait_until_ended(watcher: psycopg2.extensions.connection, execution_id: str) -> None:
    """Looks at the execution's row until it has ended. Raises TimeoutError."""
    deadline = time.monotonic() + PATIENCE_S
    with watcher.cursor() as cursor:
        while True:
            cursor.execute("EXECUTE ended(%s)", (int(execution_id),))
            if cursor.fetchone() != (None,):
                return
            if time.monotonic() > deadline:
                raise TimeoutError(f"Execution {execution_id} took longer than {PATIENCE_S:g} s.")
            time.sleep(POLL_S)
