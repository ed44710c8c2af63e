"""Which results are cleared away, and when."""

from __future__ import annotations

from datetime import datetime, timedelta

import pytest

from noetl.facts.json import JsonMap
from noetl.facts.reference import ResultScope, Retention
from noetl.testing import Simulation
from noetl.usecases import catalog, control
from noetl.usecases.results import collect
from noetl.usecases.runtime import RuntimeLimits

CHILD = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: child, path: child}
workflow: [{step: start, tool: {kind: noop}}]
"""
CALLER = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: caller, path: caller}
workflow: [{step: start, tool: {kind: playbook, path: child, detached: DETACHED}}]
"""
DAY = 86_400.0


def simulation(keep_s: float = DAY, playbook: str = CHILD) -> Simulation:
    return Simulation(playbook, limits=RuntimeLimits(slice_s=3600.0, results_keep_s=keep_s))


def put(
    sim: Simulation, execution_id: str, scope: ResultScope = "execution", until: datetime | None = None
) -> JsonMap:
    return sim.rt.results.put(["x", scope, execution_id], Retention(execution_id, scope, until))


def is_there(sim: Simulation, reference: JsonMap) -> bool:
    place, _, _ = reference["ref"].removeprefix("noetl://results/").rpartition("/")
    return place in sim.rt.results.places()


def ended(sim: Simulation) -> str:
    execution_id = sim.start()
    sim.settle()
    return execution_id


def test_results_of_an_execution_go_when_the_retention_time_is_over() -> None:
    sim = simulation()
    reference = put(sim, ended(sim))
    assert collect(sim.rt, sim.now + timedelta(seconds=DAY - 1)).removed == ()
    assert is_there(sim, reference)
    done = collect(sim.rt, sim.now + timedelta(seconds=DAY))
    assert (len(done.removed), done.objects, done.kept, done.unknown) == (1, 1, 0, 0)
    assert not is_there(sim, reference)


def test_without_a_retention_time_results_of_executions_stay_for_ever() -> None:
    sim = simulation(keep_s=0.0)
    put(sim, ended(sim))
    assert collect(sim.rt, sim.now + timedelta(days=10_000)).removed == ()


def test_results_of_a_running_execution_stay_however_old() -> None:
    sim = simulation()
    execution_id = sim.start()
    references = [put(sim, execution_id), put(sim, execution_id, "step")]
    assert collect(sim.rt, sim.now + timedelta(days=10_000)).removed == ()
    assert all(is_there(sim, one) for one in references)


def test_results_of_steps_go_as_soon_as_their_execution_has_ended() -> None:
    sim = simulation(keep_s=0.0)
    execution_id = sim.start()
    reference = put(sim, execution_id, "step")
    sim.settle()
    assert collect(sim.rt, sim.now).removed == (f"running/{execution_id}",)
    assert not is_there(sim, reference)


@pytest.mark.parametrize("detached", ["true", "false"])
def test_results_of_a_family_go_together(detached: str) -> None:
    sim = simulation(playbook=CALLER.replace("DETACHED", detached))
    catalog.register(sim.rt, CHILD, "child.yaml")
    caller = sim.start()
    for _ in range(50):
        with sim.rt.store.read() as tx:
            children = tx.executions.find(parent=caller)
        if children:
            break
        sim.deliver()
    references = [put(sim, caller), put(sim, children[0].execution_id)]
    late = sim.now + timedelta(days=100)
    assert collect(sim.rt, late).removed == ()
    sim.settle()
    done = collect(sim.rt, sim.now + timedelta(seconds=DAY))
    assert len(done.removed) == 2
    assert not any(is_there(sim, one) for one in references)


def test_what_has_a_time_of_its_own_goes_when_its_hour_is_over_and_not_before() -> None:
    sim = simulation()
    until = sim.now + timedelta(minutes=90)
    reference = put(sim, sim.start(), "permanent", until)
    assert collect(sim.rt, until - timedelta(seconds=1)).removed == ()
    assert is_there(sim, reference)
    assert len(collect(sim.rt, until + timedelta(hours=1)).removed) == 1
    assert not is_there(sim, reference)


def test_what_is_permanent_stays() -> None:
    sim = simulation(keep_s=0.1)
    reference = put(sim, ended(sim), "permanent")
    assert collect(sim.rt, sim.now + timedelta(days=10_000)).removed == ()
    assert is_there(sim, reference)


def test_results_of_executions_that_nobody_here_knows_stay_and_are_counted() -> None:
    sim = simulation(keep_s=0.1)
    references = [put(sim, "123"), put(sim, "9999999999999999999", "step")]
    done = collect(sim.rt, sim.now + timedelta(days=10_000))
    assert (done.removed, done.unknown) == ((), 2)
    assert all(is_there(sim, one) for one in references)


def test_a_dry_run_tells_and_removes_nothing() -> None:
    sim = simulation()
    reference = put(sim, ended(sim))
    late = sim.now + timedelta(seconds=DAY)
    assert len(collect(sim.rt, late, dry_run=True).removed) == 1
    assert is_there(sim, reference)
    assert len(collect(sim.rt, late).removed) == 1


STUBBORN = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: stubborn, path: stubborn}
executor: {spec: {policy: {retry: {attempts: 2, delay: 30d}}}}
workflow: [{step: start, tool: {kind: python, code: "result = 1 / 0"}}]
"""


def test_what_waits_for_its_next_attempt_keeps_what_that_will_need() -> None:
    sim = simulation(playbook=STUBBORN)
    failed = ended(sim)
    kept = [put(sim, failed), put(sim, failed, "step")]
    assert collect(sim.rt, sim.now + timedelta(days=29)).removed == ()
    assert all(is_there(sim, reference) for reference in kept)
    control.cancel(sim.rt, failed)
    sim.settle()
    assert len(collect(sim.rt, sim.now + timedelta(days=29)).removed) == 2
