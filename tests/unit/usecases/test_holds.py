"""Why nothing of an execution runs: in lists, reports and explanations."""

from __future__ import annotations

from noetl.testing import Simulation
from noetl.usecases import history, inspect, pausing
from noetl.usecases.holds import Hold
from noetl.usecases.ports import WorkerRow

from .playbooks import playbook

TRAIN = playbook("""
    - step: start
      next: [train, tell]
    - step: train
      spec: {queue: gpu}
      tool: {kind: python, code: "result = 1"}
    - step: tell
      tool: {kind: python, code: "result = 2"}
""")
BOUNDED = playbook("""
    - step: work
      spec: {concurrency: {limit: 1, key: crm}}
      tool: {kind: wait, timer: 10m}
""")
UNSERVED = Hold("unserved", "queued: no worker serves gpu")


def begin(sim: Simulation) -> str:
    """An execution whose commands have left, and none has been taken."""
    run = sim.start()
    while any(one.command is None for one in sim.mailbox.messages):
        sim.deliver()
    return run


def serve(sim: Simulation, *queues: str) -> None:
    with sim.rt.store.begin() as tx:
        tx.workers.see(WorkerRow("w1", "worker", queues, sim.now, sim.now))


def held(sim: Simulation, run: str) -> Hold | None:
    """As lists say it, and reports."""
    (listed,) = (row.hold for row in inspect.executions(sim.rt) if row.execution_id == run)
    assert inspect.report(sim.rt, run).hold == listed
    return listed


def test_a_step_in_a_queue_that_no_worker_serves_says_so() -> None:
    sim = Simulation(TRAIN)
    serve(sim, "python")
    run = begin(sim)
    assert held(sim, run) is None, "the other step is about to run"
    assert sim.report(run).steps["train"]["hold"] == UNSERVED.as_json()
    assert "hold" not in sim.report(run).steps["tell"]
    (train,) = history.explain(sim.rt, run, "train").steps
    assert train.why == "It runs: its command is in queue 'gpu', which no worker serves."
    (tell,) = (one for one in sim.mailbox.messages if one.command and one.command.step == "tell")
    sim.deliver(sim.mailbox.messages.index(tell))
    assert held(sim, run) == UNSERVED
    serve(sim, "gpu")
    assert held(sim, run) is None
    sim.settle()
    assert sim.report(run).row.status == "completed"


def test_a_worker_that_fell_silent_serves_nothing() -> None:
    sim = Simulation(TRAIN)
    serve(sim, "python", "gpu")
    run = begin(sim)
    assert held(sim, run) is None
    sim.pass_time(61)
    assert sim.report(run).steps["train"]["hold"] == UNSERVED.as_json()
    assert held(sim, run) is not None


def test_what_waits_for_a_slot_or_the_end_of_a_pause_says_so() -> None:
    sim = Simulation(BOUNDED)
    first, second = sim.start(), sim.start()
    sim.settle()
    assert held(sim, first) is None
    assert held(sim, second) == Hold("slot", "waits for a slot of crm")
    pausing.pause_key(sim.rt, "crm")
    assert held(sim, second) == Hold("paused", "key crm paused")
    assert sim.report(second).steps["work"]["hold"]["text"] == "key crm paused"


def test_a_paused_queue_is_named_rather_than_that_nobody_serves_it() -> None:
    sim = Simulation(TRAIN)
    run = begin(sim)
    pausing.pause_queue(sim.rt, "gpu")
    pausing.pause_queue(sim.rt, "python")
    assert held(sim, run) in (Hold("paused", "queue gpu paused"), Hold("paused", "queue python paused"))
    pausing.pause_step(sim.rt, run, "train")
    assert sim.report(run).steps["train"]["hold"]["text"] == "step train paused"
