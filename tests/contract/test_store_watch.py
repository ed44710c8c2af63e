"""Who watches an execution hears of every commit that changes it, whoever commits.

Watchers may be woken for nothing, once as somebody begins to listen and once as rows are looked at
for the first time. So what wakes them is done more often than that, and what does not as well.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import psycopg2
import pytest

from noetl.errors import Unavailable
from noetl.facts.logs import LogChunk, LogPosition
from noetl.store import open_store
from noetl.store.installation import DEFAULT, Installation
from noetl.store.watching import Hear, Watches, find_channel, make_notice
from noetl.usecases.ports import Store, Watch
from tests.waiting import GUARD_S, until

from .given import NOW, append, create, execution, patched

OURS = Installation(DEFAULT, predates_schemas=False, has_tables=True)
#: How often a watcher may be woken for nothing.
FOR_NOTHING = 2
#: More often than that.
OFTEN = 6


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


def save_turn(store: Store, execution_id: str = "100", version: int = 1) -> None:
    with store.begin() as tx:
        values = {"status": "waiting", "next_wake_at": None, "halt": "", "now": NOW}
        tx.executions.save_turn(execution_id, decided_version=version, **values)


def is_woken(watch: Watch) -> bool:
    """Whether it has been since it waited last."""
    return watch.wait(0)


def test_a_watcher_is_woken_by_each_commit_and_by_nothing_else(store: Store, elsewhere: Store) -> None:
    create(store, execution("100"), execution("101"))
    with store.watch("100") as watch, store.watch("101") as other, store.watch() as every:
        for number in range(OFTEN):
            append(elsewhere, [patched("x")], number)
            assert watch.wait(GUARD_S)
        for number in range(OFTEN):
            save_turn(elsewhere, version=number + 1)
            assert watch.wait(GUARD_S)
        for _ in range(OFTEN):
            with suppress(KeyError), elsewhere.begin() as tx:
                tx.events.append("100", OFTEN, [patched("y")], NOW)
                raise KeyError("rolled back")
        woken = 0
        for number in range(OFTEN):
            append(elsewhere, [patched("x")], number, execution_id="101")
            assert other.wait(GUARD_S)
            assert every.wait(GUARD_S)
            woken += is_woken(watch)
        assert woken <= FOR_NOTHING


def test_those_who_are_woken_together_say_the_same_moment() -> None:
    store = open_store("memory://")
    create(store)
    with store.watch("100") as one, store.watch("100") as two:
        begun = max(one.woken_at, two.woken_at)
        append(store, [patched("x")])
        assert is_woken(one)
        assert is_woken(two)
        assert one.woken_at == two.woken_at > begun
    store.close()


def test_who_watches_several_or_all_is_woken_by_each_of_them(store: Store, elsewhere: Store) -> None:
    create(store, execution("100"), execution("101"))
    with store.watch("100", "101") as both, store.watch() as every:
        for name in ("100", "101"):
            for number in range(OFTEN):
                append(elsewhere, [patched("x")], number, execution_id=name)
                assert both.wait(GUARD_S)
                assert every.wait(GUARD_S)
        create(elsewhere, execution("102"))
        woken = 0
        for number in range(OFTEN):
            append(elsewhere, [patched("x")], number, execution_id="102")
            assert every.wait(GUARD_S), "one that is new"
            woken += is_woken(both)
        assert woken <= FOR_NOTHING


def test_no_commit_is_missed_between_two_waits(store: Store, elsewhere: Store) -> None:
    create(store)
    with store.watch("100") as watch:
        for number in range(20):
            append(elsewhere, [patched("x")], number)
            while _head(store) == number:
                assert watch.wait(GUARD_S), number


def _head(store: Store) -> int:
    with store.read() as tx:
        row = tx.executions.get("100")
    assert row is not None
    return row.head_version


def test_a_watcher_is_woken_by_what_is_printed(store: Store, elsewhere: Store) -> None:
    create(store)
    place = LogPosition("100", "s", "s#1", None, "t", 1, 1)
    with store.watch("100") as watch:
        for text in "abcdef":
            with elsewhere.begin_async_commit() as tx:
                tx.executions.lock("100")
                tx.logs.add("100", [LogChunk(place, "stdout", 0, text, NOW)] * 3)
            assert watch.wait(GUARD_S), text


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
        cursor.execute(f"LISTEN {find_channel(OURS)}")
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
        for _ in range(OFTEN):
            until(lambda: _listeners(postgres_url) == 1, "somebody who listens")
            is_woken(watch)
            _end_all_connections(postgres_url)
            assert watch.wait(GUARD_S), "everybody looks once after the connection is back"
        until(lambda: _listeners(postgres_url) == 1, "somebody who listens")
        for _ in range(OFTEN):
            append(there, [patched("x")], until(lambda: _find_head(there), "an answer") - 1)
            assert watch.wait(GUARD_S)
    here.close()
    there.close()


def _find_head(store: Store) -> int:
    """One more than the newest version; 0 where the connection was lost."""
    with suppress(Unavailable):
        return _head(store) + 1
    return 0


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
        assert one.wait(GUARD_S)
        assert two.wait(GUARD_S)
        assert _listeners(postgres_url) == 1
    store.close()
    until(lambda: _listeners(postgres_url) == 0, "nobody to listen")


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


class Ear:
    """Hears of nothing, as behind a pooler that hands LISTEN to somebody else: each time that it is
    let."""

    def __init__(self) -> None:
        self._lets: queue.SimpleQueue[None] = queue.SimpleQueue()
        self._asked = threading.Semaphore(0)

    @contextmanager
    def __call__(self) -> Iterator[Hear]:
        yield self._hear

    def _hear(self, _seconds: float) -> frozenset[str]:
        self._asked.release()
        self._lets.get()
        return frozenset()

    def hear_nothing(self) -> None:
        """Once: what comes of it has come."""
        self._asked.acquire()
        self._lets.put(None)
        self._asked.acquire()
        self._asked.release()


@pytest.mark.parametrize(("look_s", "is_seen"), [(1e-9, True), (0.0, False), (3600.0, False)])
def test_where_nothing_is_heard_of_changes_they_are_looked_for(look_s: float, *, is_seen: bool) -> None:
    store, ear = open_store("memory://"), Ear()
    create(store)
    watches = Watches(ear, store.read, look_s)
    with watches.watch("100") as watch, watches.watch() as every:
        ear.hear_nothing()
        is_woken(watch)
        is_woken(every)
        for _ in range(OFTEN):
            ear.hear_nothing()
            assert not is_woken(watch), "nothing has happened"
            assert not is_woken(every), "nothing has happened"
        append(store, [patched("x")])
        ear.hear_nothing()
        assert is_woken(watch) == is_seen
    ear.hear_nothing()
    watches.close()
    store.close()


def test_a_notice_that_would_be_too_long_makes_everybody_look() -> None:
    ids = [str(10**18 + number) for number in range(500)]
    assert b"'1000000000000000000,1000000000000000001'" in make_notice(OURS, ids[1::-1])
    assert make_notice(OURS, ids).endswith(b"'')")
