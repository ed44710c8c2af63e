"""Fixtures of all tests: stores, and the real servers behind them.

A server that cannot be had skips the test on a laptop and fails it in CI.
"""

from __future__ import annotations

import atexit
import functools
import gc
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
import redis
from hypothesis import settings

from noetl.store import migrate, open_store
from noetl.usecases.ports import Store

from . import remains, scratch, services, zygote
from .budget import STACKS, Profile, examples, is_chosen, may_have_chosen, profile
from .needed import running

pytest_plugins = ("tests.changed", "tests.costs")

# How long one example takes says how fast this machine is.
settings.register_profile("untimed", deadline=None, max_examples=examples(100))
settings.load_profile("untimed")

_redis_numbers = count(0)


#: Folders whose files take long; what is in none of them comes behind.
LONGEST_FIRST = (*STACKS, "tests/properties/", "tests/playbooks/", "tests/docs/", "tests/integration/")

LEFT_BEHIND = pytest.StashKey[list[str]]()
ZYGOTE = pytest.StashKey[subprocess.Popen[bytes]]()


def pytest_configure(config: pytest.Config) -> None:
    """One profile and one seed for a run, whatever its number of processes: they inherit the
    environment."""
    os.environ.setdefault("NOETL_TEST_FUZZ_SEED", str(random.SystemRandom().randrange(1 << 32)))
    if not _is_worker(config):
        if profile() == "quick":
            scratch.use_memory()
        remains.mark()
        config.stash[ZYGOTE] = zygote.prepare()
    if _runs_tests(config):
        _stop_ignoring_signals()


def _is_worker(config: pytest.Config) -> bool:
    return hasattr(config, "workerinput")


def _runs_tests(config: pytest.Config) -> bool:
    """Not so where workers run them, which xdist starts."""
    return _is_worker(config) or not config.getoption("numprocesses", None)


def _stop_ignoring_signals() -> None:
    """A job in the background ignores SIGINT, one of `nohup` SIGHUP, and so would every process
    that tests start and send these signals to. A handler that does nothing is not inherited."""
    for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)


def pytest_collection() -> None:
    gc.disable()


def pytest_collection_finish() -> None:
    """Thousands of tests are no garbage, and looking at all of them again and again takes seconds.
    Bindings in C++ complain on standard error of what is left when they go."""
    gc.freeze()
    gc.enable()
    atexit.register(gc.unfreeze)


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Passes over files of tests of which the profile runs none, and over folders without others:
    their conftest would be imported."""
    if not collection_path.is_relative_to(config.rootpath):
        return None
    below = collection_path.rglob("*") if collection_path.is_dir() else [collection_path]
    files = [file for file in below if file.match("test_*.py")]
    texts = ((file.relative_to(config.rootpath).as_posix(), file.read_text("utf-8")) for file in files)
    run = profile()
    return True if files and not any(may_have_chosen(path, text, run) for path, text in texts) else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out what the profile does not run, and begins with what takes longest, so that no
    process is left alone with it at the end."""
    chosen: list[pytest.Item] = []
    left_out: list[pytest.Item] = []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        _check_place(item, marks)
        (chosen if is_chosen(item.nodeid, marks, profile()) else left_out).append(item)
    if left_out:
        config.hook.pytest_deselected(items=left_out)
        items[:] = chosen
    items.sort(key=_order)


_read = functools.cache(Path.read_text)


def _check_place(item: pytest.Item, marks: set[str]) -> None:
    """Every test is where its run looks for it."""
    if "acceptance" in marks and not item.nodeid.startswith(STACKS):
        raise pytest.UsageError(f"{item.nodeid} is `acceptance`: it belongs to {' or '.join(STACKS)}.")
    runs: tuple[Profile, ...] = ("quick", "rest")
    for run in runs:
        file = item.nodeid.partition("::")[0]
        if is_chosen(item.nodeid, marks, run) and not may_have_chosen(file, _read(item.path), run):
            raise pytest.UsageError(
                f"{item.nodeid} belongs to {run!r}, which passes over {file}: see `may_have_chosen`."
            )


def _order(item: pytest.Item) -> int:
    """Tests of one folder stay in their order."""
    return next(
        (at for at, folder in enumerate(LONGEST_FIRST) if item.nodeid.startswith(folder)), len(LONGEST_FIRST)
    )


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish(session: pytest.Session) -> None:
    """A run that leaves processes behind has failed, whatever its tests say."""
    if _is_worker(session.config):
        return
    zygote.end(session.config.stash[ZYGOTE])
    session.config.stash[LEFT_BEHIND] = left = remains.end()
    if left and session.exitstatus in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    terminalreporter.write_line(
        f"NOETL_TEST_PROFILE={profile()} NOETL_TEST_FUZZ_SEED={os.environ['NOETL_TEST_FUZZ_SEED']}"
    )
    for process in config.stash.get(LEFT_BEHIND, []):
        terminalreporter.write_line(f"ERROR: this process was left behind: {process}", red=True)


@pytest.fixture(scope="session")
def postgres_server() -> Iterator[services.Postgres]:
    """A real PostgreSQL server, the same for the whole run: `server.url` has host, port and
    user."""
    with running(services.postgres()) as server:
        yield server


@pytest.fixture(scope="session")
def postgres_template(postgres_server: services.Postgres) -> str:
    """The URL of a migrated database to copy others from."""
    return services.postgres_template(postgres_server)


@pytest.fixture
def empty_postgres_url(postgres_server: services.Postgres) -> Iterator[str]:
    """The URL of an empty database of this test's own."""
    url = postgres_server.create()
    yield url
    postgres_server.drop(url)


@pytest.fixture(scope="session")
def postgres_databases(
    postgres_server: services.Postgres, postgres_template: str
) -> Iterator[services.Databases]:
    """Migrated databases that tests borrow in turn."""
    databases = services.Databases(postgres_server, postgres_template)
    yield databases
    databases.drop()


@pytest.fixture
def postgres_url(postgres_databases: services.Databases) -> Iterator[str]:
    """The URL of a migrated database of this test's own, without rows."""
    url = postgres_databases.borrow()
    yield url
    postgres_databases.give_back(url)


@pytest.fixture(scope="session")
def sqlite_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A migrated SQLite database to copy others from."""
    file = tmp_path_factory.mktemp("sqlite") / "noetl.sqlite"
    migrate.upgrade(f"sqlite:///{file}")
    assert [one.name for one in file.parent.iterdir()] == [file.name], "all of it is in one file"
    return file


@pytest.fixture
def sqlite_url(sqlite_template: Path, tmp_path: Path) -> str:
    """The URL of a migrated SQLite database of this test's own."""
    file = shutil.copy(sqlite_template, tmp_path / "noetl.sqlite")
    return f"sqlite:///{file}"


@pytest.fixture(scope="session")
def redis_server() -> Iterator[str]:
    """The URL of a real Redis server, without a database number."""
    with running(services.broker()) as server:
        yield server


@pytest.fixture
def redis_url(redis_server: str) -> str:
    """The URL of an empty Redis database."""
    databases = 16 if os.environ.get("NOETL_TEST_BROKER_URL") else services.REDIS_DATABASES
    url = f"{redis_server}/{next(_redis_numbers) % databases}"
    with redis.Redis.from_url(url) as client:
        client.flushdb()
    return url


@pytest.fixture(scope="session")
def s3_server() -> Iterator[str]:
    """The address of an S3 server in this process, which the environment names for its clients."""
    with running(services.s3()) as server:
        yield server


@pytest.fixture
def s3_url(s3_server: str) -> str:
    """The URL of an empty bucket."""
    return services.make_bucket(s3_server)


@pytest.fixture(scope="session")
def rabbitmq_url() -> Iterator[str]:
    """The URL of a real RabbitMQ server. No wheel brings one: without it the test is skipped, in CI
    too."""
    with running(services.rabbitmq(), required=False) as server:
        yield server


@pytest.fixture(
    params=[
        pytest.param("memory", id="memory"),
        pytest.param("sqlite", id="sqlite"),
        pytest.param("postgres", id="postgres", marks=pytest.mark.postgres),
    ]
)
def store_url(request: pytest.FixtureRequest) -> str:
    """The URL of an empty store, of each kind in turn."""
    if request.param == "memory":
        return "memory://"
    url: str = request.getfixturevalue(f"{request.param}_url")
    return url


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    """An empty store, of each kind in turn."""
    opened = open_store(store_url)
    yield opened
    opened.close()
