"""Fixtures of the tests in a browser: the browser, a site to look at, and windows that are
watched."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from playwright.sync_api import Browser, expect

from tests import services
from tests.acceptance.stack import Stack
from tests.needed import running
from tests.services import RedisServer

from .chromium import Chromium, chromium
from .serving import Site
from .visit import PATIENCE_MS, Visit, window_options

#: `look(site.url, size=NARROW, dark=True)`: a new window, with the options of `window_options`.
Look: TypeAlias = Callable[..., Visit]

PARTS = ("scheduler", "alone", "sweeper", "api")

expect.set_options(timeout=PATIENCE_MS)


@pytest.fixture(scope="session")
def browser_of_session() -> Iterator[Chromium]:
    with running(chromium()) as found:
        yield found


@pytest.fixture(scope="module")
def browser(browser_of_session: Chromium) -> Iterator[Browser]:
    """All modules of a process share one, and none keeps it from other tests."""
    with browser_of_session.used() as found:
        yield found


@pytest.fixture
def look(browser: Browser) -> Iterator[Look]:
    """Opens windows. The test fails where one of them has met what no visitor should."""
    visits: list[Visit] = []

    def look_at(url: str, **options: Any) -> Visit:
        visits.append(Visit(browser.new_context(**window_options(**options)), url))
        return visits[-1]

    yield look_at
    complaints = []
    for visit in visits:
        try:
            visit.close()
        except AssertionError as error:
            complaints.append(str(error))
    assert not complaints, "\n".join(complaints)


@pytest.fixture(scope="module")
def site(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Site]:
    """A server on SQLite, for what has ended. Where there is no browser, none is started."""
    with Site(tmp_path_factory.mktemp("site")) as found:
        yield found
        found.check_log()


@contextlib.contextmanager
def _broker(home: Path) -> Iterator[str]:
    """A Redis that no other test flushes. Raises Missing."""
    server = RedisServer(home)
    server.start()
    try:
        yield server.url
    finally:
        server.kill()


@pytest.fixture(scope="module")
def live(
    browser: Browser,
    tmp_path_factory: pytest.TempPathFactory,
    postgres_server: services.Postgres,
    postgres_template: str,
) -> Iterator[Stack]:
    """A whole stack on PostgreSQL and Redis, for what changes while somebody looks."""
    home = tmp_path_factory.mktemp("live")
    url = postgres_server.create(postgres_template)
    with running(_broker(home / "redis")) as broker, Stack(home, url, broker, PARTS) as stack:
        yield stack
        stack.check_logs()
    postgres_server.drop(url)
