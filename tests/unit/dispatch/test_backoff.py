"""What fails is tried again, ever more rarely, and is given up by those who wait for it."""

from __future__ import annotations

from itertools import pairwise

import pytest

from noetl.dispatch.backoff import LEAST_TRIES, LONGEST_S, Backoff
from noetl.errors import Unavailable


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def backoff(clock: Clock) -> Backoff:
    return Backoff(clock)


def fail(backoff: Backoff, name: str, times: int) -> list[float]:
    """The delays behind each of so many failures."""
    delays = []
    for _ in range(times):
        backoff.failed(name, Unavailable(f"{name} failed"))
        delays.append(backoff.delay(name))
    return delays


def test_delays_double_up_to_a_limit_and_begin_anew_behind_a_success(backoff: Backoff) -> None:
    delays = fail(backoff, "one", 12)
    assert [later / sooner for sooner, later in pairwise(delays[:4])] == [2, 2, 2]
    assert delays[-2:] == [LONGEST_S, LONGEST_S]
    assert backoff.delay("other") == 0
    backoff.succeeded("one")
    assert backoff.delay("one") == 0
    assert fail(backoff, "one", 1) == delays[:1]


def test_what_fails_all_the_time_is_told_with_its_last_error_and_the_longest_first(
    backoff: Backoff, clock: Clock
) -> None:
    fail(backoff, "long", LEAST_TRIES)
    clock.now += 10
    fail(backoff, "short", LEAST_TRIES)
    assert backoff.find_failing(60) is None
    clock.now += 60
    for name in ("short", "long"):
        backoff.failed(name, Unavailable(f"{name}: the last word"))
    failing = backoff.find_failing(60)
    assert failing is not None
    assert failing.error == "long: the last word"
    backoff.succeeded("long")
    assert (failing := backoff.find_failing(60)) is not None
    assert failing.error == "short: the last word"


def test_what_waited_for_its_second_try_has_not_failed_meanwhile(backoff: Backoff, clock: Clock) -> None:
    fail(backoff, "one", 1)
    clock.now += 3600
    assert backoff.find_failing(60) is None
    fail(backoff, "one", 1)
    assert backoff.find_failing(60) is None
