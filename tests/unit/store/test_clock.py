"""A process follows the clock of its database, and no other one."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from noetl.store import sql
from noetl.store.clock import FOLLOW_S, DatabaseClock
from noetl.store.sql import SqlStore

NOON = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)


class Passing:
    """The database's clock and the seconds that a process counts. A question takes `trip` seconds:
    the answer is as of `read_after` of them."""

    def __init__(self, trip: float = 0.0, read_after: float = 0.0) -> None:
        self.seconds = 1_000.0
        self.ahead = timedelta()
        self.trip, self.read_after = trip, read_after
        self.clock = DatabaseClock(lambda: self.seconds)

    @property
    def truth(self) -> datetime:
        return NOON + timedelta(seconds=self.seconds - 1_000) + self.ahead

    def ask(self) -> datetime:
        self.seconds += self.read_after
        found = self.truth
        self.seconds += self.trip - self.read_after
        return found

    def error(self) -> float:
        read = self.clock.read()
        assert read is not None
        return (read - self.truth).total_seconds()


def test_it_counts_on_from_the_answer_of_the_database() -> None:
    passing = Passing()
    assert passing.clock.read() is None
    passing.clock.follow(passing.ask)
    passing.seconds += 90
    assert passing.clock.read() == NOON + timedelta(seconds=90)


@pytest.mark.parametrize("read_after", [0.0, 0.5, 2.0])
def test_it_is_off_by_half_of_the_time_that_asking_took_at_most(read_after: float) -> None:
    passing = Passing(trip=2.0, read_after=read_after)
    passing.clock.follow(passing.ask)
    assert abs(passing.error()) <= 1


def test_a_slow_answer_does_not_move_a_clock_that_it_does_not_contradict() -> None:
    passing = Passing()
    passing.clock.follow(passing.ask)
    passing.trip, passing.read_after = 3.0, 3.0
    passing.clock.follow(passing.ask)
    assert passing.error() == 0


@pytest.mark.parametrize("ahead", [timedelta(hours=1), timedelta(seconds=-2)])
def test_a_database_whose_clock_is_set_is_followed(ahead: timedelta) -> None:
    passing = Passing(trip=0.2, read_after=0.1)
    passing.clock.follow(passing.ask)
    passing.ahead = ahead
    passing.clock.follow(passing.ask)
    assert passing.error() == 0


def test_the_database_is_asked_at_first_and_then_now_and_then() -> None:
    passing = Passing()
    assert passing.clock.is_due
    passing.clock.follow(passing.ask)
    assert not passing.clock.is_due
    passing.seconds += FOLLOW_S
    assert passing.clock.is_due


def test_for_as_long_as_a_database_was_never_reached_the_clock_is_that_of_the_machine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sql, "read_machine_clock", lambda: NOON)
    store = SqlStore("postgresql:///x?host=/nowhere")
    assert store.clock() == NOON
    store.close()
