"""What every store promises of signals about a value, and of who waits for them."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from datetime import datetime, timedelta
from typing import TypeVar

import pytest

from noetl.usecases.ports import REMEMBERED, CorrelatedWait, Correlation, KeptSignal, Store

from .given import LATER, NOW, SECOND, add, command, create, execution

T = TypeVar("T")

PAID = Correlation("paid", "order 7")
OTHER = Correlation("paid", "order 8")
FULL = KeptSignal("s1", PAID, {"amount": [1.5, None, "ü"]}, NOW, LATER, True, "ci", "r-1")
ODD = ("ä'\"%_\\;--", "{}[]:$1", "日本語 🎉", " ", "x" * 128)


def signal(name: str = "s1", about: Correlation = PAID, at: datetime = NOW) -> KeptSignal:
    return KeptSignal(name, about, None, at)


def wait(
    store: Store, execution_id: str = "100", about: Correlation = PAID, places: Sequence[str] = ("p",)
) -> None:
    with store.begin() as tx:
        tx.correlations.wait([CorrelatedWait(about, execution_id, place) for place in places])


def keep(store: Store, *signals: KeptSignal) -> list[bool]:
    with store.begin() as tx:
        return [tx.correlations.keep(one) for one in signals]


def take(store: Store, name: str = "s1", at: datetime = NOW) -> bool:
    with store.begin() as tx:
        return tx.correlations.take(name, at)


def waiting(store: Store, about: Correlation = PAID) -> list[tuple[str, str]]:
    with store.read() as tx:
        return [(one.execution_id, one.place) for one in tx.correlations.waiting(about)]


def matches(store: Store, limit: int = 10) -> list[str]:
    with store.read() as tx:
        return [one.id for one in tx.correlations.matches(limit)]


def matches_of(store: Store, *about: Correlation) -> list[str]:
    with store.read() as tx:
        return [one.id for one in tx.correlations.matches_of(about)]


def together(*works: Callable[[], T]) -> list[T]:
    """Runs each in a thread of its own, all at once."""
    gate = threading.Barrier(len(works))

    def run(work: Callable[[], T]) -> T:
        gate.wait()
        return work()

    with ThreadPoolExecutor(len(works)) as pool:
        return list(pool.map(run, works))


def test_a_signal_comes_back_as_it_was_kept(store: Store) -> None:
    assert keep(store, FULL, signal("s2")) == [True, True]
    with store.read() as tx:
        assert tx.correlations.get("s1") == FULL
        assert tx.correlations.get("s2") == signal("s2")
        assert tx.correlations.get("s3") is None


@pytest.mark.parametrize("text", ODD)
def test_ids_names_and_values_may_have_any_characters(store: Store, text: str) -> None:
    create(store)
    about = Correlation(text, text)
    wait(store, about=about, places=[text])
    assert keep(store, signal(text, about)) == [True]
    assert waiting(store, about) == [("100", text)]
    assert matches(store) == matches_of(store, about) == [text]
    assert take(store, text)
    with store.begin() as tx:
        tx.correlations.wait_no_more("100", [text])
    assert waiting(store, about) == []


def test_those_that_wait_come_back_the_oldest_execution_first(store: Store) -> None:
    create(store, *(execution(name) for name in ("9", "100", "20")))
    for name, place in (("100", "a"), ("9", "c"), ("20", "b")):
        wait(store, name, places=[place])
    wait(store, "9", OTHER)
    assert waiting(store) == [("9", "c"), ("20", "b"), ("100", "a")]
    assert waiting(store, Correlation("other", PAID.value)) == []


def test_a_wait_that_is_recorded_twice_is_one(store: Store) -> None:
    create(store)
    wait(store)
    wait(store, places=["p", "q"])
    assert waiting(store) == [("100", "p"), ("100", "q")]


def test_nothing_waits_where_it_was_said_to_wait_no_more(store: Store) -> None:
    create(store, execution("100"), execution("101"))
    wait(store, places=["p", "q", "r"])
    wait(store, "101")
    with store.begin() as tx:
        tx.correlations.wait_no_more("100", ["p", "r", "none"])
        tx.correlations.wait_no_more("100", [])
    assert waiting(store) == [("100", "q"), ("101", "p")]
    with store.begin() as tx:
        tx.correlations.wait_no_more("100")
    assert waiting(store) == [("101", "p")]


def test_a_second_signal_of_one_id_is_refused_and_the_first_one_stands(store: Store) -> None:
    assert keep(store, FULL, signal("s1", OTHER)) == [True, False]
    assert keep(store, signal("s1", OTHER)) == [False]
    with store.read() as tx:
        assert tx.correlations.get("s1") == FULL


def test_a_signal_is_taken_once_and_its_id_is_remembered(store: Store) -> None:
    create(store)
    wait(store)
    keep(store, FULL)
    assert [take(store), take(store), take(store, "none")] == [True, False, False]
    assert matches(store) == matches_of(store, PAID) == []
    assert keep(store, FULL) == [False]
    with store.read() as tx:
        assert tx.correlations.get("s1") is None


def test_what_was_rolled_back_was_not_taken(store: Store) -> None:
    keep(store, FULL)
    with suppress(KeyError), store.begin() as tx:
        assert tx.correlations.take("s1", NOW)
        raise KeyError("rolled back")
    assert take(store)


def test_only_signals_that_somebody_waits_for_match_the_oldest_first(store: Store) -> None:
    create(store)
    wait(store, places=["p", "q"])
    keep(store, signal("a", at=LATER), signal("b", OTHER), signal("d"), signal("c"))
    assert matches(store) == ["c", "d", "a"]
    assert matches(store, 2) == ["c", "d"]
    assert matches_of(store, PAID, OTHER, PAID) == ["b", "c", "d", "a"]
    assert matches_of(store) == []


def test_what_has_expired_goes_at_its_instant_and_not_before(store: Store) -> None:
    keep(store, replace(FULL, expires_at=LATER), signal("for ever"))
    for now, is_over in ((LATER - SECOND, False), (LATER, True)):
        with store.begin() as tx:
            assert tx.correlations.has_expired(now) is is_over
            tx.correlations.remove_expired(now)
            assert (tx.correlations.get("s1") is None) is is_over
    with store.read() as tx:
        assert not tx.correlations.has_expired(NOW + timedelta(days=9999))
        assert tx.correlations.get("for ever") is not None


def test_the_id_of_a_taken_signal_is_forgotten_after_its_time(store: Store) -> None:
    keep(store, signal())
    take(store, at=NOW)
    for now, is_free in ((NOW + REMEMBERED - SECOND, False), (NOW + REMEMBERED, True)):
        with store.begin() as tx:
            tx.correlations.remove_expired(now)
        assert keep(store, signal()) == [is_free]


def test_of_many_that_take_a_signal_at_once_one_has_it(store: Store) -> None:
    for number in range(10):
        keep(store, signal(f"s{number}"))
        assert sum(together(*[lambda name=f"s{number}": take(store, name)] * 4)) == 1


def test_of_many_that_keep_one_id_at_once_one_does(store: Store) -> None:
    for number in range(10):
        kept = together(*[lambda name=f"s{number}": keep(store, signal(name))] * 4)
        assert sorted(kept) == [[False]] * 3 + [[True]]


def test_a_signal_and_a_wait_that_cross_find_each_other_once(store: Store) -> None:
    create(store)
    for number in range(20):
        about = Correlation("paid", str(number))
        name = f"s{number}"

        def sender(about: Correlation = about, name: str = name) -> bool:
            keep(store, signal(name, about))
            return bool(waiting(store, about)) and take(store, name)

        def waiter(about: Correlation = about, name: str = name) -> bool:
            wait(store, about=about)
            return name in matches_of(store, about) and take(store, name)

        assert sorted(together(sender, waiter)) == [False, True]


def test_two_executions_that_begin_to_wait_share_one_signal_out_once(store: Store) -> None:
    create(store, execution("100"), execution("101"))
    for number in range(20):
        about = Correlation("paid", str(number))
        name = f"s{number}"
        keep(store, signal(name, about))

        def waiter(execution_id: str, about: Correlation = about, name: str = name) -> bool:
            wait(store, execution_id, about)
            return name in matches_of(store, about) and take(store, name)

        assert sorted(together(lambda: waiter("100"), lambda: waiter("101"))) == [False, True]
        assert waiting(store, about) == [("100", "p"), ("101", "p")]


def test_what_an_execution_waits_for_stands_in_its_row_until_a_turn_says_otherwise(store: Store) -> None:
    create(store)
    for text in ("signal 'paid' or 2026-03-02", "ä'\"%", None):
        with store.begin() as tx:
            tx.executions.save_turn(
                "100",
                decided_version=0,
                status="waiting" if text else "running",
                next_wake_at=None,
                halt="",
                now=NOW,
                waiting_for=text,
            )
        with store.read() as tx:
            row = tx.executions.get("100")
        assert row is not None
        assert row.waiting_for == text


def test_commands_see_how_many_parts_of_their_execution_were_cancelled(store: Store) -> None:
    create(store, execution("100"), execution("101"))
    add(store, command("c1"), command("c2", "101"))
    for more in (2, 3):
        with store.begin() as tx:
            tx.executions.add_cancelled_parts("100", more)
    with store.read() as tx:
        standings = tx.commands.standings(["c1", "c2", "none"])
        row = tx.executions.get("100")
    assert {name: one.cancelled_parts for name, one in standings.items()} == {"c1": 5, "c2": 0}
    assert row is not None
    assert row.cancelled_parts == 5
