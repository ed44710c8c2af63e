"""What a turn promises where workers hold what it is about: on PostgreSQL, the only store with a
lock for each row."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import pytest

from noetl.store import open_store
from noetl.testing import Simulation
from noetl.usecases.turn.advance import advance

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: test, path: tests/test}
workflow:
  - step: start
    tool: {kind: noop}
"""


@pytest.mark.postgres
def test_a_turn_waits_for_an_execution_that_a_worker_holds_and_will_not_wake_for(postgres_url: str) -> None:
    sim = Simulation(PLAYBOOK, store=open_store(postgres_url))
    held, free = sim.start(), sim.start()
    locked, let_go = threading.Event(), threading.Event()
    with ThreadPoolExecutor(2) as pool:
        worker = pool.submit(_hold, sim, held, locked, let_go)
        assert locked.wait(10)
        scheduler = pool.submit(advance, sim.rt)
        assert _soon(lambda: _decided(sim, free))
        assert not _decided(sim, held)
        let_go.set()
        worker.result(10)
        assert scheduler.result(10) == 2
    assert _decided(sim, held)
    sim.rt.store.close()


def _hold(sim: Simulation, run: str, locked: threading.Event, let_go: threading.Event) -> None:
    """What a report does that has nothing to wake the scheduler for."""
    with sim.rt.store.begin() as tx:
        tx.executions.lock(run)
        locked.set()
        let_go.wait(10)


def _decided(sim: Simulation, run: str) -> bool:
    row = sim.report(run).row
    return row.decided_version == row.head_version


def _soon(true: Callable[[], bool]) -> bool:
    ends = time.monotonic() + 10
    while not true() and time.monotonic() < ends:
        time.sleep(0.01)
    return true()
