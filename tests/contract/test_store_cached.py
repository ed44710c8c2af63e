"""What every store promises of results that stand in for calls, and of calls that others await."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from noetl.usecases.ports import CachedRow, CallLock, CallSite, Store

from .given import LATER, NOW, SECOND

SITE = CallSite("100", "s#1", None, "fetch")
OTHER = CallSite("200", "s#1", 3, "fetch")
ROW = CachedRow("k1", "a/b", "playbook", "http", SITE, {"result": {"n": [1]}, "extras": {}}, NOW, LATER)


def save(store: Store, *rows: CachedRow) -> None:
    with store.begin() as tx:
        for row in rows:
            tx.cached.save(row)


def test_a_result_counts_until_its_time_is_over_and_the_last_one_counts(store: Store) -> None:
    save(store, ROW)
    with store.read() as tx:
        assert tx.cached.get("k1", NOW) == tx.cached.get("k1", LATER - SECOND) == ROW
        assert tx.cached.get("k1", LATER) is tx.cached.get("k2", NOW) is None
    newer = replace(ROW, site=OTHER, outcome={"result": None, "extras": {"http": {"status": 200}}})
    save(store, newer)
    with store.begin() as tx:
        assert tx.cached.get("k1", NOW) == tx.cached.lock("k1", NOW) == newer
        assert tx.cached.lock("k1", LATER) is None


def test_results_are_listed_newest_first_and_removed_as_asked(store: Store) -> None:
    old = replace(ROW, key="k0", created_at=NOW - SECOND)
    foreign = replace(ROW, key="k2", path="c", site=OTHER, created_at=NOW + SECOND)
    save(store, ROW, old, foreign)
    with store.begin() as tx:
        assert [row.key for row in tx.cached.find()] == ["k2", "k1", "k0"]
        assert tx.cached.find("a/b", 1) == [ROW]
        assert tx.cached.remove("c", "k1") == 0
        assert tx.cached.remove("a/b", "k1") == 1
        assert tx.cached.remove(key="k9") == 0
        assert tx.cached.remove("a/b") == 1
        assert tx.cached.remove() == 1
        assert tx.cached.find() == []


def test_results_go_with_their_time_and_with_their_execution(store: Store) -> None:
    save(store, ROW, replace(ROW, key="k2", expires_at=LATER + SECOND), replace(ROW, key="k3", site=OTHER))
    with store.begin() as tx:
        assert not tx.cached.has_expired(NOW)
        assert tx.cached.remove_of("200") == 1
        assert tx.cached.has_expired(LATER)
        tx.cached.remove_expired(LATER)
        assert [row.key for row in tx.cached.find()] == ["k2"]


def test_a_call_is_held_by_one_and_taken_over_from_the_one_that_was_seen(store: Store) -> None:
    first, second, third = (
        CallLock(SITE, NOW),
        CallLock(OTHER, LATER),
        CallLock(replace(SITE, iteration=0), NOW),
    )
    with store.begin() as tx:
        assert tx.cached.hold("k1", first) == first
        assert tx.cached.hold("k1", second) == first
        assert not tx.cached.take_over("k1", third, second)
        assert tx.cached.take_over("k1", first, second)
        assert not tx.cached.take_over("k1", first, third)
        tx.cached.release("k1", first.site)
        assert tx.cached.hold("k1", third) == second
        tx.cached.release("k1", second.site)
        assert tx.cached.hold("k1", third) == third


def test_of_many_that_want_a_call_one_holds_it(store: Store) -> None:
    def hold(number: int) -> str:
        with store.begin() as tx:
            return tx.cached.hold(
                "k1", CallLock(CallSite(str(number), "s#1", None, "t"), NOW)
            ).site.execution_id

    with ThreadPoolExecutor(4) as pool:
        assert len(set(pool.map(hold, range(1, 13)))) == 1


def test_who_uses_the_results_of_an_execution_is_known_once(store: Store) -> None:
    with store.begin() as tx:
        for user in ("300", "200", "300"):
            tx.cached.use("100", user)
        assert tx.cached.users("100") == ["200", "300"]
        assert tx.cached.users("200") == []
