"""A stack whose workers are killed while they work: what the tests of that share.

`NOETL_TEST_KILLS` says how often (12, in the quick profile 5), `NOETL_TEST_SEED` repeats the points
of a run that failed. A point is a place in the work: `go_on` waits for so many further events, and
at a `Barrier` a task stands in the midst of a transaction.
"""

from __future__ import annotations

import contextlib
import os
import random
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import psutil
import psycopg2

from noetl.usecases.ports import ENDED
from tests import services
from tests.budget import budget
from tests.waiting import until

from .stack import Stack, kill_all, worker

KILLS = budget("NOETL_TEST_KILLS", quick=5, full=12, long=500)
SEED = int(os.environ.get("NOETL_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 1 << 31)
#: Each so-many-th kill takes one worker with all its processes, the others one process of a pool.
WHOLE = min(10, KILLS)
NAMES = ("one", "two")
FAST = {"lease_s": 1.5, "heartbeat_s": 0.3, "resend_s": 3, "sweep_s": 0.3, "max_deliveries": 1000}


@contextlib.contextmanager
def mortal_stack(
    home: Path,
    postgres: services.Postgres,
    template: str,
    broker: str,
    queues: str,
    more: Sequence[str] = (),
    **settings: object,
) -> Iterator[Stack]:
    """Two workers of `queues` with two processes each: there are always some while others are
    started again. `more` are further arguments of them, `settings` come before those of `FAST`."""
    url = postgres.create(template)
    with Stack(home, url, broker, ("scheduler", "sweeper"), {**FAST, **settings}) as running:
        for name in NAMES:
            running.launch(name, [*worker(queues, "prefork", 2, name), *more])
            running.await_ready(name)
        yield running
    postgres.drop(url)


def ask(dsn: str, query: str) -> list[tuple[object, ...]]:
    """What a database of the test answers."""
    connection = psycopg2.connect(dsn)
    try:
        connection.autocommit = True
        with connection.cursor() as cursor:
            cursor.execute(query)
            return cursor.fetchall() if cursor.description else []
    finally:
        connection.close()


class Barrier:
    """A place in transactions of tasks that they wait at while it is closed; one for a database."""

    #: The place, as a statement of SQL.
    PASS = "select pg_advisory_xact_lock_shared(7)"

    def __init__(self, dsn: str) -> None:
        self._connection = psycopg2.connect(dsn)
        self._connection.autocommit = True

    def _ask(self, query: str) -> int:
        with self._connection.cursor() as cursor:
            cursor.execute(query)
            return int(cursor.fetchone()[0] or 0)

    def close(self) -> None:
        """Returns once the transactions that have passed it are over."""
        self._ask("select count(pg_advisory_lock(7))")

    def open(self) -> None:
        self._ask("select count(pg_advisory_unlock(7))")

    def arrived(self) -> int:
        """How many wait."""
        return self._ask(
            "select count(*) from pg_locks where locktype = 'advisory' and not granted"
            " and database = (select oid from pg_database where datname = current_database())"
        )

    def leave(self) -> None:
        self._connection.close()


def supervise(stack: Stack) -> None:
    """Starts again whatever has ended: a pool whose processes die too often gives up."""
    for name in NAMES:
        part = stack.running[name]
        if part.process is None or part.process.poll() is not None:
            stack.launch(name, part.argv)


def go_on(stack: Stack, chance: random.Random, is_over: Callable[[], bool], most: int = 20) -> bool:
    """Waits until as many further events are written as chance will have it. False where it is over
    before."""
    wanted = _events(stack) + chance.randint(0, most)

    def have_come() -> bool:
        supervise(stack)
        return is_over() or _events(stack) >= wanted

    until(have_come, "further events")
    return not is_over()


def _events(stack: Stack) -> int:
    return int(stack.sql("SELECT count(*) FROM event")[0][0])


def processes(stack: Stack) -> list[psutil.Process]:
    """Those that run tasks, of both workers."""
    supervise(stack)
    found: list[psutil.Process] = []
    for name in NAMES:
        # A worker whose processes are just being replaced has some that are neither there nor gone.
        with contextlib.suppress(psutil.Error):
            found += stack.pool(name)
    return found


def is_whole(number: int) -> bool:
    """Whether the kill of that number, from 0, takes a worker as a whole."""
    return number % WHOLE == WHOLE - 1


def kill_worker(stack: Stack, chance: random.Random) -> None:
    """SIGKILL to a worker with all its processes; it is started again."""
    name = chance.choice(NAMES)
    stack.kill(name)
    stack.launch(name, stack.running[name].argv)


def kill_workers(stack: Stack) -> None:
    """SIGKILL to both workers with all their processes; returns once they are ready again."""
    for name in NAMES:
        stack.kill(name)
    for name in NAMES:
        stack.launch(name, stack.running[name].argv)
    for name in NAMES:
        stack.await_ready(name)


def kill_process(stack: Stack, chance: random.Random) -> None:
    """SIGKILL to a process that runs tasks."""
    kill_all([chance.choice(until(lambda: processes(stack), "a process that runs tasks"))])


def kill_something(stack: Stack, chance: random.Random, number: int) -> None:
    """The kill of that number, from 0: a process that runs tasks, a worker, or the scheduler, which
    are started again."""
    match number % 4:
        case 3:
            stack.restart("scheduler")
        case 1:
            kill_worker(stack, chance)
        case _:
            kill_process(stack, chance)


def kept_open(stack: Stack, begun: list[str], most: int, begin: Callable[[], str]) -> None:
    """Begins executions until `most` of them run."""
    running = [one for one in begun if stack.row(one).status not in ENDED]
    begun += [begin() for _ in range(most - len(running))]


def progress(number: int, every: int) -> None:
    """Says now and then how far a long run has come."""
    print(f"kill {number + 1}", flush=True) if number % every == 0 else None
