"""Who watches an execution hears of every commit that changes it, whoever commits."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

import psycopg2
import pytest

from noetl.errors import Unavailable
from noetl.facts.logs import LogChunk, LogPosition
from noetl.store import open_store
from noetl.store.watching import CHANNEL, Hear, Watches, make_notice
from noetl.usecases.ports import Store, Watch
from tests import pace

from .given import NOW, append, create, execution, patched

#: Seconds after which nothing is expected any more.
LONG = 15.0
#: Seconds in which nothing may happen.
SHORT = 0.3


@pytest.fixture
def elsewhere(store: Store, store_url: str) -> Iterator[Store]:
    """What another process would open: the same rows, nothing else in common. In memory there is
    none."""
    if store_url == "memory://":
        yield store
        return
    opened = open_store(store_url)
    yield opened
    opened.close()


def quiet(watch: Watch) -> None:
    """Until what may wake a watcher for nothing, when it begins, has done so."""
    while watch.wait(SHORT):
        pass


def save_turn(store: Store, execution_id: str = "100") -> None:
    with store.begin() as tx:
        values = {"status": "waiting", "next_wake_at": None, "halt": "", "now": NOW}
        tx.executions.save_turn(execution_id, decided_version=1, **values)


def test_a_watcher_is_woken_by_the_commit_and_by_nothing_else(store: Store, elsewhere: Store) -> None:
    create(store, execution("100"), execution("101"))
    with store.watch("100") as watch, store.watch("101") as other:
        quiet(watch)
        quiet(other)

        append(elsewhere, [patched("x")])
        assert watch.wait(LONG)
        save_turn(elsewhere)
        assert watch.wait(LONG)

        with suppress(KeyError), elsewhere.begin() as tx:
            tx.events.append("100", 1, [patched("y")], NOW)
            raise KeyError("rolled back")
        append(elsewhere, [patched("x")], execution_id="101")
        assert other.wait(LONG)
        assert not watch.wait(SHORT)


def test_those_who_are_woken_together_say_the_same_moment_behind_the_commit(
    store: Store, elsewhere: Store
) -> None:
    create(store)
    with store.watch("100") as one, store.watch("100") as two:
        quiet(one)
        quiet(two)
        append(elsewhere, [patched("x")])
        committed = time.monotonic()
        assert one.wait(LONG)
        assert two.wait(LONG)
        assert one.woken_at == two.woken_at
        # The commit had come to its end a little before `append` did.
        assert one.woken_at > committed - SHORT


def test_who_watches_several_or_all_is_woken_by_each_of_them(store: Store, elsewhere: Store) -> None:
    create(store, execution("100"), execution("101"))
    with store.watch("100", "101") as both, store.watch() as every:
        for number, name in enumerate(("100", "101")):
            quiet(both)
            quiet(every)
            append(elsewhere, [patched("x")], execution_id=name)
            assert both.wait(LONG), number
            assert every.wait(LONG), number
        quiet(both)
        quiet(every)
        create(elsewhere, execution("102"))
        append(elsewhere, [patched("x")], execution_id="102")
        assert every.wait(LONG), "one that is new"
        assert not both.wait(SHORT)


def test_who_watches_all_sleeps_while_nothing_happens(store: Store, elsewhere: Store) -> None:
    create(store)
    with store.watch() as every, store.watch("100"):
        quiet(every)
        assert not every.wait(2 * SHORT)


def test_no_commit_is_missed_between_two_waits(store: Store, elsewhere: Store) -> None:
    create(store)
    with store.watch("100") as watch:
        for number in range(50):
            append(elsewhere, [patched("x")], number)
            assert watch.wait(LONG), number


def test_a_watcher_is_woken_within_milliseconds(store: Store, elsewhere: Store) -> None:
    create(store)
    took = []
    with store.watch("100") as watch:
        for number in range(21):
            quiet_for = 0.01 * (number % 3)
            watch.wait(quiet_for)
            began = time.perf_counter()
            append(elsewhere, [patched("x")], number)
            while _head(store) == number:
                watch.wait(LONG)
            took.append(time.perf_counter() - began)
    pace.check(statistics.median(took), 0.02)


def _head(store: Store) -> int:
    with store.read() as tx:
        row = tx.executions.get("100")
    assert row is not None
    return row.head_version


def test_a_watcher_is_woken_by_what_is_printed(store: Store, elsewhere: Store) -> None:
    create(store)
    place = LogPosition("100", "s", "s#1", None, "t", 1, 1)
    with store.watch("100") as watch:
        quiet(watch)
        for text in "ab":
            with elsewhere.begin_async_commit() as tx:
                tx.executions.lock("100")
                tx.logs.add("100", [LogChunk(place, "stdout", 0, text, NOW)] * 3)
            assert watch.wait(LONG), text


def test_marks_differ_where_a_client_could_tell(store: Store) -> None:
    create(store)

    def marks() -> dict[str, object]:
        with store.read() as tx:
            return dict(tx.executions.marks(["100", "999"]))

    seen = [marks()]
    append(store, [patched("x")])
    seen.append(marks())
    save_turn(store)
    seen.append(marks())
    with store.begin() as tx:
        tx.executions.lock("100")
        tx.logs.add("100", [LogChunk(LogPosition("100", "s", "s#1", None, "t", 1, 1), "stdout", 0, "a", NOW)])
    seen.append(marks())
    assert all(set(one) == {"100"} for one in seen)
    assert len({one["100"] for one in seen}) == 4
    assert marks() == seen[-1]


@pytest.mark.postgres
def test_one_notice_tells_of_all_that_a_transaction_prints(postgres_url: str) -> None:
    store = open_store(postgres_url)
    create(store, execution("100"), execution("101"))
    connection = psycopg2.connect(postgres_url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(f"LISTEN {CHANNEL}")
        with store.begin_async_commit() as tx:
            for one in ("100", "101"):
                tx.executions.lock(one)
                place = LogPosition(one, "s", "s#1", None, "t", 1, 1)
                tx.logs.add(one, [LogChunk(place, "stdout", 0, str(n), NOW) for n in range(1000)])
        cursor.execute("SELECT 1")
    connection.poll()
    assert [one.payload for one in connection.notifies] == ["100,101"]
    connection.close()
    store.close()


@pytest.mark.postgres
def test_who_watches_hears_again_after_the_connection_was_lost(postgres_url: str) -> None:
    here, there = open_store(postgres_url), open_store(postgres_url)
    create(here)
    with here.watch("100") as watch:
        append(there, [patched("x")])
        assert watch.wait(LONG)
        quiet(watch)
        _end_all_connections(postgres_url)
        assert watch.wait(LONG), "everybody looks once after the connection is back"
        quiet(watch)
        with suppress(Unavailable):
            append(there, [patched("x")], 1)
        append(there, [patched("x")], 1 if _head_again(there) == 1 else 2)
        assert watch.wait(LONG)
    here.close()
    there.close()


def _head_again(store: Store) -> int:
    with suppress(Unavailable):
        return _head(store)
    return _head(store)


def _end_all_connections(url: str) -> None:
    connection = psycopg2.connect(url)
    connection.autocommit = True
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    connection.close()


@pytest.mark.postgres
def test_one_connection_listens_for_all_watchers_of_a_process_and_only_while_there_are_any(
    postgres_url: str,
) -> None:
    store = open_store(postgres_url)
    create(store)
    assert _listeners(postgres_url) == 0
    with store.watch("100") as one, store.watch("100") as two, store.watch("101"):
        append(store, [patched("x")])
        assert one.wait(LONG)
        assert two.wait(LONG)
        assert _listeners(postgres_url) == 1
    store.close()
    assert _eventually(lambda: _listeners(postgres_url) == 0)


def _listeners(url: str) -> int:
    connection = psycopg2.connect(url)
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE query LIKE 'LISTEN %' AND datname = "
            "current_database()"
        )
        (count,) = cursor.fetchone()
    connection.close()
    return int(count)


def _eventually(probe: Callable[[], bool]) -> bool:
    ends = time.monotonic() + LONG
    while not probe() and time.monotonic() < ends:
        time.sleep(0.02)
    return probe()


def test_where_nothing_is_heard_of_changes_they_are_looked_for() -> None:
    """As behind a pooler that hands LISTEN to somebody else."""
    store = open_store("memory://")
    create(store)

    @contextmanager
    def deaf() -> Iterator[Hear]:
        def hear(seconds: float) -> frozenset[str]:
            time.sleep(seconds)
            return frozenset()

        yield hear

    woken = {look_s: _is_woken(store, deaf, look_s, number) for number, look_s in enumerate((0.05, 0.0))}
    assert woken == {0.05: True, 0.0: False}


def _is_woken(
    store: Store, ear: Callable[[], AbstractContextManager[Hear]], look_s: float, head: int
) -> bool:
    watches = Watches(ear, store.read, look_s)
    with watches.watch("100") as watch:
        while watch.wait(0.6):
            pass
        append(store, [patched("x")], head)
        woken = watch.wait(1.0)
    watches.close()
    return woken


def test_a_notice_that_would_be_too_long_makes_everybody_look() -> None:
    ids = [str(10**18 + number) for number in range(500)]
    assert b"'1000000000000000000,1000000000000000001'" in make_notice(ids[1::-1])
    assert make_notice(ids).endswith(b"'')")
