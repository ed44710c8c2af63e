"""Fixtures of the acceptance tests: a stack of real processes that healthy tests share."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import make_url

from tests import services
from tests.services import RedisServer

from .stack import CORE, Stack

#: From 1: the healthy stack is on 0. Redis has 16 databases, and three modules ask for one.
_redis_numbers = count(1)


@pytest.fixture(scope="session")
def broker_of_stacks(tmp_path_factory: pytest.TempPathFactory, redis_server: str) -> Iterator[str]:
    """A Redis that no other test flushes. Where only a given server is to be had, its last
    database."""
    server = RedisServer(tmp_path_factory.mktemp("redis"))
    try:
        server.start()
    except services.Missing:
        yield f"{redis_server}/15"
        return
    yield server.url
    server.kill()


@pytest.fixture(scope="module")
def broker_of_module(broker_of_stacks: str) -> str:
    """A database of that Redis for the stacks of one module: workers of another stack on the same
    one, such as `healthy_stack`, would take their messages and know nothing of what these are
    about."""
    server = broker_of_stacks.rsplit("/", 1)[0]
    return f"{server}/{next(_redis_numbers)}"


@pytest.fixture(scope="session")
def healthy_stack(
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
    broker_of_stacks: str,
) -> Iterator[Stack]:
    """API, scheduler, workers and sweeper with the settings of production. Nobody injects faults
    here, so nothing may ever be sent twice."""
    url = postgres_server.create(postgres_template)
    home = tmp_path_factory.mktemp("healthy")
    with Stack(home, url, broker_of_stacks, (*CORE, "sweeper", "api")) as running:
        yield running
    postgres_server.drop(url)


@pytest.fixture
def dsn(postgres_server: services.Postgres) -> Iterator[str]:
    """A database of the playbook's own."""
    url = postgres_server.create()
    yield make_url(url).set(drivername="postgresql").render_as_string(hide_password=False)
    postgres_server.drop(url)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[RedisServer]:
    """A Redis of the test's own, which it may kill."""
    server = RedisServer(tmp_path / "broker")
    try:
        server.start()
    except services.Missing as missing:
        pytest.skip(f"a Redis of its own is needed: {missing}")
    yield server
    server.kill()


@pytest.fixture
def stack(healthy_stack: Stack) -> Iterator[Stack]:
    """The shared stack; its logs and its commands are looked at after each test."""
    yield healthy_stack
    healthy_stack.check_logs()
    healthy_stack.check_nothing_was_sent_twice()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, Any]:
    """Attaches the ends of the processes' logs to failures."""
    report = yield
    if report.failed:
        for value in getattr(item, "funcargs", {}).values():
            if isinstance(value, Stack):
                report.sections += [(f"log of {name}", said) for name, said in value.tails()]
    return report


@pytest.fixture
def effects(tmp_path: Path) -> Path:
    """A file that tasks append lines to: what really happened, whatever the log says."""
    return tmp_path / "effects"
