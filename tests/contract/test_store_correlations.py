"""What every store promises of signals about values, and of those that wait for them."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from datetime import datetime

import pytest

from noetl.usecases.ports import REMEMBERED, CorrelatedWait, Correlation, KeptSignal, Store

from .given import LATER, NOW, SECOND, create, execution

ORDER = Correlation("payment", "order-7")
ODD = Correlation("zahlung für", "'; -- % \\ \u2028 日本")
SIGNAL = KeptSignal(
    "s-1",
    ORDER,
    {"amount": 1.5, "items": [None, "ä"]},
    NOW,
    LATER,
    everyone=True,
    principal="ci",
    request_id="r",
)
PLAIN = KeptSignal("s-2", ORDER, None, NOW)


def wait(store: Store, *waits: tuple[Correlation, str, str]) -> None:
    with store.begin() as tx:
        tx.correlations.wait([CorrelatedWait(*one) for one in waits])


def keep(store: Store, *signals: KeptSignal) -> list[bool]:
    with store.begin() as tx:
        return [tx.correlations.keep(one) for one in signals]


def waiting(store: Store, correlation: Correlation = ORDER) -> list[tuple[str, str]]:
    with store.read() as tx:
        return [(one.execution_id, one.place) for one in tx.correlations.waiting(correlation)]


def matches(store: Store, limit: int = 10) -> list[str]:
    with store.read() as tx:
        return [one.id for one in tx.correlations.matches(limit)]


def take(store: Store, name: str, at: datetime = NOW) -> bool:
    with store.begin() as tx:
        return tx.correlations.take(name, at)


@pytest.fixture(autouse=True)
def executions(store: Store) -> None:
    create(store, *(execution(name) for name in ("90", "100", "110")))


def test_those_that_wait_are_found_by_name_and_value_the_oldest_first(store: Store) -> None:
    wait(
        store, (ORDER, "100", "s#1/-"), (ORDER, "90", "s#1/2"), (ORDER, "90", "s#1/1"), (ODD, "110", "t#1/-")
    )
    assert waiting(store) == [("90", "s#1/1"), ("90", "s#1/2"), ("100", "s#1/-")]
    assert waiting(store, ODD) == [("110", "t#1/-")]
    assert waiting(store, Correlation("payment", "order-70")) == []
    assert waiting(store, Correlation("Payment", "order-7")) == []


def test_the_same_wait_twice_is_one(store: Store) -> None:
    wait(store, (ORDER, "90", "s#1/-"))
    wait(store, (ORDER, "90", "s#1/-"))
    assert waiting(store) == [("90", "s#1/-")]


def test_an_execution_waits_no_more_at_places_or_at_all(store: Store) -> None:
    wait(store, (ORDER, "90", "a"), (ORDER, "90", "b"), (ODD, "90", "c"), (ORDER, "100", "a"))
    with store.begin() as tx:
        tx.correlations.wait_no_more("90", ["a", "not there"])
    assert waiting(store) == [("90", "b"), ("100", "a")]
    with store.begin() as tx:
        tx.correlations.wait_no_more("90")
    assert (waiting(store), waiting(store, ODD)) == ([("100", "a")], [])


def test_a_signal_comes_back_as_it_was_kept(store: Store) -> None:
    assert keep(store, SIGNAL, replace(PLAIN, correlation=ODD)) == [True, True]
    with store.read() as tx:
        assert tx.correlations.get("s-1") == SIGNAL
        assert tx.correlations.get("s-2") == replace(PLAIN, correlation=ODD)
        assert tx.correlations.get("s-3") is None


def test_of_two_with_one_id_the_second_is_the_first(store: Store) -> None:
    assert keep(store, PLAIN, replace(PLAIN, payload="other", correlation=ODD)) == [True, False]
    assert take(store, "s-2")
    assert keep(store, PLAIN) == [False], "also where it was taken"
    with store.read() as tx:
        assert tx.correlations.get("s-2") is None


def test_a_signal_is_taken_by_one_of_all_that_try(store: Store) -> None:
    keep(store, PLAIN)
    gate = threading.Barrier(4)

    def attempt(_: int) -> bool:
        gate.wait()
        return take(store, "s-2")

    with ThreadPoolExecutor(4) as threads:
        assert sorted(threads.map(attempt, range(4))) == [False, False, False, True]


def test_matches_are_signals_that_somebody_waits_for_the_oldest_first(store: Store) -> None:
    keep(
        store,
        PLAIN,
        replace(PLAIN, id="s-0", received_at=NOW - SECOND),
        replace(PLAIN, id="odd", correlation=ODD),
    )
    assert matches(store) == []
    wait(store, (ORDER, "90", "a"), (ORDER, "100", "a"))
    assert matches(store) == ["s-0", "s-2"]
    assert matches(store, 1) == ["s-0"]
    take(store, "s-0")
    assert matches(store) == ["s-2"]


def test_matches_of_values_are_found_whoever_waits(store: Store) -> None:
    keep(store, PLAIN, replace(PLAIN, id="odd", correlation=ODD, received_at=NOW - SECOND))
    with store.read() as tx:
        found = tx.correlations.matches_of([ORDER, ODD, ORDER, Correlation("x", "y")])
        assert [one.id for one in found] == ["odd", "s-2"]
        assert tx.correlations.matches_of([]) == []


def test_what_has_expired_goes_and_an_id_is_forgotten_a_day_behind_its_end(store: Store) -> None:
    keep(store, SIGNAL, PLAIN)
    take(store, "s-2", NOW)

    def tidy(at: datetime) -> list[bool]:
        with store.read() as tx:
            there = tx.correlations.has_expired(at)
        with store.begin() as tx:
            tx.correlations.remove_expired(at)
            return [there, tx.correlations.keep(SIGNAL), tx.correlations.keep(PLAIN)]

    assert tidy(LATER - SECOND) == [False, False, False]
    assert tidy(LATER) == [True, True, False]
    assert tidy(NOW + REMEMBERED)[2] is True
