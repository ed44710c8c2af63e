"""What a turn promises where workers hold what it is about: on PostgreSQL, the only store with a
lock for each row."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta

import pytest

from noetl.store import open_store
from noetl.testing import Simulation
from noetl.usecases import inspect
from noetl.usecases.turn.advance import advance
from tests.waiting import GUARD_S, until

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
        assert locked.wait(GUARD_S)
        scheduler = pool.submit(advance, sim.rt)
        until(lambda: _decided(sim, free), "the turn of what is free")
        assert not _decided(sim, held)
        let_go.set()
        worker.result()
        assert scheduler.result() == [], "nobody whom it cannot serve"
    assert _decided(sim, held)
    sim.rt.store.close()


STUBBORN = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: test, path: tests/test}
executor: {spec: {policy: {retry: {attempts: 2, delay: 60}}}}
workflow:
  - step: start
    tool: {kind: python, code: "result = 1"}
    next: work
  - step: work
    tool: {kind: python, code: "result = 1 / 0"}
"""


@pytest.mark.postgres
def test_of_many_schedulers_one_begins_the_next_attempt(postgres_url: str) -> None:
    sims = [Simulation(STUBBORN, store=open_store(postgres_url)) for _ in range(3)]
    failed = [sims[0].start() for _ in range(5)]
    sims[0].settle()
    for sim in sims:
        sim.now += timedelta(seconds=60)
    with ThreadPoolExecutor(3) as pool:
        for turns in [pool.submit(advance, sim.rt) for sim in sims]:
            turns.result()
    for run in failed:
        (again,) = inspect.executions(sims[0].rt, source=run)
        assert sims[0].types(run).count("execution.retry.started") == 1
        assert sims[0].report(again.execution_id).steps["start"]["reused"] == 1
    for sim in sims:
        sim.rt.store.close()


def _hold(sim: Simulation, run: str, locked: threading.Event, let_go: threading.Event) -> None:
    """What a report does that has nothing to wake the scheduler for."""
    with sim.rt.store.begin() as tx:
        tx.executions.lock(run)
        locked.set()
        let_go.wait(GUARD_S)


def _decided(sim: Simulation, run: str) -> bool:
    row = sim.report(run).row
    return row.decided_version == row.head_version
