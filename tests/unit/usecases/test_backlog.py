"""The bound of what waits: counted now and then, and kept in between."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from noetl.errors import TooManyRequests
from noetl.testing import Simulation
from noetl.usecases.backlog import Backlog

BODY = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: x, path: x}
workflow: [{step: start}]
"""
NOW = datetime(2026, 3, 1, tzinfo=UTC)


@pytest.fixture
def sim() -> Simulation:
    return Simulation(BODY)


def test_it_is_counted_once_a_second_and_starts_are_added(sim: Simulation) -> None:
    backlog = Backlog()
    backlog.admit(sim.rt.store, NOW, 5)
    for _ in range(5):
        sim.start()
    # What others have started is not seen yet; one's own is.
    for _ in range(5):
        backlog.admit(sim.rt.store, NOW, 5)
    with pytest.raises(TooManyRequests):
        backlog.admit(sim.rt.store, NOW, 5)
    later = NOW + timedelta(seconds=1)
    backlog.admit(sim.rt.store, later, 5)
    with pytest.raises(TooManyRequests) as refused:
        backlog.admit(sim.rt.store, later, 5)
    assert refused.value.retry_after_s >= 1


def test_starts_pass_again_when_less_waits(sim: Simulation) -> None:
    backlog = Backlog()
    for _ in range(3):
        sim.start()
    with pytest.raises(TooManyRequests):
        backlog.admit(sim.rt.store, NOW, 2)
    sim.settle()
    with pytest.raises(TooManyRequests):
        backlog.admit(sim.rt.store, NOW, 2)
    backlog.admit(sim.rt.store, NOW + timedelta(seconds=1), 2)


def test_a_clock_that_was_set_back_does_not_keep_the_count(sim: Simulation) -> None:
    backlog = Backlog()
    for _ in range(3):
        sim.start()
    with pytest.raises(TooManyRequests):
        backlog.admit(sim.rt.store, NOW, 2)
    sim.settle()
    backlog.admit(sim.rt.store, NOW - timedelta(hours=1), 2)


def test_many_starts_count_as_many(sim: Simulation) -> None:
    backlog = Backlog()
    backlog.admit(sim.rt.store, NOW, 5, starts=1000)
    with pytest.raises(TooManyRequests):
        backlog.admit(sim.rt.store, NOW, 5)


def test_zero_is_no_bound(sim: Simulation) -> None:
    backlog = Backlog()
    for _ in range(3):
        sim.start()
    backlog.admit(sim.rt.store, NOW, 0, starts=10**6)
    backlog.admit(sim.rt.store, NOW, 0)
