"""What every store promises those who act on several executions at once."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from noetl.testing import Simulation
from noetl.usecases import inspect
from noetl.usecases.access import ANYBODY
from noetl.usecases.chosen import Acted, act_on
from noetl.usecases.ports import Store

PLAYBOOK = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: test, path: tests/test}
workload: {n: 1}
workflow:
  - step: start
    tool: {kind: python, code: "result = 1 / n", input: {n: "{{ workload.n }}"}}
    next: wait
  - step: wait
    tool: {kind: wait, signal: go}
"""


def test_each_is_acted_on_by_itself(store: Store) -> None:
    sim = Simulation(PLAYBOOK, store=store)
    failed, *waiting = sim.start(n=0), sim.start(), sim.start()
    sim.settle()
    refused = Acted(failed, f"Execution {failed} has ended (failed).")
    for act, status in (("pause", "paused"), ("resume", "waiting"), ("cancel", "cancelled")):
        acted = act_on(sim.rt, ANYBODY, act, [waiting[0], failed, waiting[1]])  # type: ignore[arg-type]
        assert acted == [Acted(waiting[0]), refused, Acted(waiting[1])]
        sim.settle()
        assert [inspect.execution(sim.rt, one).status for one in waiting] == [status] * 2
    (again, none) = act_on(sim.rt, ANYBODY, "retry", [failed, "404"])
    assert inspect.execution(sim.rt, str(again.became)).source_id == failed
    assert none == Acted("404", "There is no execution '404'.")


def test_of_two_who_choose_the_same_only_one_retries_each(store: Store) -> None:
    sim = Simulation(PLAYBOOK, store=store)
    ids = [sim.start(n=0) for _ in range(4)]
    sim.settle()
    with ThreadPoolExecutor(2) as pool:
        acted = [
            one
            for all_ in pool.map(lambda _: act_on(sim.rt, ANYBODY, "retry", ids), range(2))
            for one in all_
        ]
    assert Counter(one.execution_id for one in acted if not one.refused) == Counter(ids)
    assert {one.execution_id for one in acted if "is being retried by" in one.refused} == set(ids)
