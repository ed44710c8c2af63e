"""PostgreSQL as it comes, Redis, Celery workers, `noetl server`: started for one run, stopped with
it."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psycopg2

from noetl.config import Settings
from tests import services
from tests.acceptance.stack import environment, is_healthy
from tests.ports import free_port

#: What PostgreSQL must answer. Anything else would measure a database that forgets.
DURABLE = {"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on"}


class NotDurable(Exception):
    """The PostgreSQL server would lose what it has acknowledged."""


@dataclass(frozen=True)
class Servers:
    """`database_url` is an empty database; `redis_url` has no database number. `settings` are the
    server's own words about its durability."""

    database_url: str
    redis_url: str
    settings: Mapping[str, str]


@contextlib.contextmanager
def servers() -> Iterator[Servers]:
    """Raises services.Missing where a server cannot be had, and NotDurable."""
    with services.durable_postgres() as postgres, services.broker() as redis_url:
        url = postgres.create()
        try:
            yield Servers(url, redis_url, durability(url))
        finally:
            postgres.drop(url)


def durability(url: str) -> dict[str, str]:
    """Raises NotDurable."""
    with contextlib.closing(psycopg2.connect(url)) as connection, connection.cursor() as cursor:
        said = {}
        for name in (*DURABLE, "server_version"):
            cursor.execute(f"SHOW {name}")
            said[name] = " ".join(map(str, cursor.fetchone() or ()))
    wrong = {name: said[name] for name, value in DURABLE.items() if said[name] != value}
    if wrong:
        raise NotDurable(f"PostgreSQL runs with {wrong}; the benchmark needs its defaults, {DURABLE}.")
    return said


def process(
    argv: Sequence[str], log: Path, environment: Mapping[str, str]
) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
    """`python -m` of these words, until the block ends."""
    return services.started([sys.executable, "-m", *argv], log, env=dict(environment))


@contextlib.contextmanager
def noetl_server(settings: Settings) -> Iterator[str]:
    """The address of `noetl server`, with these settings and no others, once it answers."""
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    variables = {**environment({}), **settings.as_environ()}
    with process(["noetl", "server", "--port", str(port)], settings.home_dir / "server.log", variables):
        until("the server", lambda: is_healthy(url))
        yield url


def until(what: str, probe: Callable[[], bool], seconds: float = 60.0) -> None:
    """Waits until `probe()` is true. Raises TimeoutError."""
    deadline = time.monotonic() + seconds
    while not probe():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{what} took longer than {seconds:g} s")
        time.sleep(0.05)
