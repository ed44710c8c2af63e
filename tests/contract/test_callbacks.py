"""Several calls of one address at once come to one event, whatever the database."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from noetl.facts.callbacks import TaskAddress
from noetl.store import open_store
from noetl.testing import Simulation
from noetl.usecases.callbacks import AcceptedCall, receive_call

ASKS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: test, path: tests/test}
workflow:
  - step: start
    loop: {in: [a, b], iterator: x, spec: {mode: parallel}}
    tool:
      - post: {kind: noop, input: {to: "{{ callback.answer.url }}"}}
      - answer: {kind: wait, callback: {}}
"""
AT_ONCE = 6


@pytest.fixture(params=["sqlite_url", pytest.param("postgres_url", marks=pytest.mark.postgres)])
def sim(request: pytest.FixtureRequest) -> Iterator[Simulation]:
    """An engine over a database that several threads may write to."""
    opened = open_store(request.getfixturevalue(request.param))
    yield Simulation(ASKS, store=opened)
    opened.close()


def test_of_calls_at_once_one_counts_and_all_get_its_answer(sim: Simulation) -> None:
    run = sim.start()
    sim.settle()
    gate = threading.Barrier(2 * AT_ONCE)

    def call(number: int) -> AcceptedCall:
        gate.wait()
        return receive_call(sim.rt, TaskAddress(run, "start#1", number % 2, "answer"), {"n": number})

    with ThreadPoolExecutor(2 * AT_ONCE) as pool:
        answers = list(pool.map(call, range(2 * AT_ONCE)))
    sim.settle()
    assert [one.existing for one in answers].count(False) == 2
    assert sim.types(run).count("callback.received") == 2
    report = sim.report(run)
    assert report.row.status == "completed"
    first = {n % 2: {"n": n} for n, answer in enumerate(answers) if not answer.existing}
    assert [one["payload"] for one in report.result["results"]] == [first[0], first[1]]
