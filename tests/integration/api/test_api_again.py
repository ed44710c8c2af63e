"""`/retry` and `/fork` over HTTP: answers are held against their models by the fixtures."""

from __future__ import annotations

from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases import catalog, control


def _ended(sim: Simulation) -> str:
    return sim.run({"n": 2}).row.execution_id


def test_a_plan_is_answered_and_nothing_is_started(client: FlaskClient, sim: Simulation) -> None:
    run = _ended(sim)
    answer = client.post(f"/api/executions/{run}/retry?dry_run=true", json={"from": "start"})
    assert answer.status_code == 200
    assert [(one["step"], one["verdict"]) for one in answer.json["runs"]][:1] == [("start", "rerun")]
    assert answer.json["runs"][0]["reason"] == "asked for"
    assert len(client.get("/api/executions").json["executions"]) == 1


def test_a_retry_is_an_execution_of_its_own(client: FlaskClient, sim: Simulation) -> None:
    run = _ended(sim)
    answer = client.post(f"/api/executions/{run}/retry")
    assert (answer.status_code, answer.json["source_id"], answer.json["descent"]) == (202, run, "retry")
    again = client.post(f"/api/executions/{run}/retry")
    assert (again.status_code, answer.json["execution_id"] in again.text) == (409, True)
    sim.settle()
    found = client.get(f"/api/executions/{answer.json['execution_id']}").json
    assert (found["status"], found["source_id"]) == ("completed", run)
    (listed,) = client.get(f"/api/executions?source={run}").json["executions"]
    assert listed["execution_id"] == answer.json["execution_id"]


def test_a_fork_is_one_too(client: FlaskClient, sim: Simulation) -> None:
    run = _ended(sim)
    answer = client.post(f"/api/executions/{run}/fork", json={"at": 3})
    assert (answer.status_code, answer.json["descent"]) == (202, "fork")
    sim.settle()
    forked = client.get(f"/api/executions/{answer.json['execution_id']}").json
    assert forked["result"] == client.get(f"/api/executions/{run}").json["result"]


def test_what_cannot_be_is_answered(client: FlaskClient, sim: Simulation) -> None:
    run, running = _ended(sim), sim.start()
    control.pause(sim.rt, running)
    for path, body, status, told in (
        (f"{run}/retry", {"from": "strat"}, 400, "Did you mean 'start'?"),
        (f"{run}/retry", {"version": 9}, 404, "has no version 9"),
        (
            f"{run}/retry",
            {"version": "newest"},
            400,
            "version: it is a number from 1 to 2147483647, or 'latest'.",
        ),
        (f"{run}/retry", {"version": 0}, 400, "version: it is a number from 1 to"),
        (f"{run}/retry", {"iterations": "some"}, 400, "iterations"),
        (f"{run}/retry", {"form": "start"}, 400, "Did you mean 'from'?"),
        (f"{running}/retry", {}, 409, "a retry begins where it has ended"),
        ("42/retry", {}, 404, "There is no execution '42'."),
        (f"{run}/fork", {}, 400, "at a version, or before a step"),
        (f"{run}/fork", {"at": 999}, 400, "has versions 1 to"),
        (f"{run}/fork", {"at": -1}, 400, "at"),
        (f"{run}/fork", {"before": "x#0"}, 400, "did not run"),
        ("42/fork", {"at": 1}, 404, "There is no execution '42'."),
    ):
        answer = client.post(f"/api/executions/{path}", json=body)
        assert (answer.status_code, told in answer.text) == (status, True), (path, body, answer.text)


STUBBORN = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: stubborn, path: tests/stubborn}
executor: {spec: {policy: {retry: {attempts: 2, delay: 60}}}}
workflow:
  - step: start
    tool: {kind: python, code: "result = 1 / 0"}
"""


def test_a_report_names_the_attempt_that_follows(client: FlaskClient, sim: Simulation) -> None:
    assert client.get(f"/api/executions/{_ended(sim)}").json["retry"] is None
    sim.path = catalog.register(sim.rt, STUBBORN, "stubborn.yaml").path
    run = sim.start()
    sim.settle()
    following = client.get(f"/api/executions/{run}").json["retry"]
    assert following["standing"] == "scheduled"
    assert following["text"] == "It will be retried at 2026-01-01T00:01:00+00:00 as attempt 2 of 2."
    assert client.get(f"/api/executions/{run}/explain").json["retry"] == following["text"]
    # What is asked for is about this execution: nobody waits for the next one here.
    assert client.get(f"/api/executions/{run}/result?wait=10").json["status"] == "failed"
    sim.pass_time(60)
    sim.settle()
    following = client.get(f"/api/executions/{run}").json["retry"]
    (listed,) = client.get(f"/api/executions?source={run}").json["executions"]
    assert (following["standing"], following["execution_id"]) == ("started", listed["execution_id"])
    last = client.get(f"/api/executions/{listed['execution_id']}").json["retry"]
    assert (last["standing"], last["reason"]) == ("declined", "attempt 2 of 2 was the last")


def test_cancel_calls_off_the_attempt_that_follows(client: FlaskClient, sim: Simulation) -> None:
    sim.path = catalog.register(sim.rt, STUBBORN, "stubborn.yaml").path
    run = sim.start()
    sim.settle()
    assert client.post(f"/api/executions/{run}/pause").status_code == 409
    answer = client.post(f"/api/executions/{run}/cancel", json={"reason": "enough"})
    assert answer.status_code in (200, 202)
    assert client.get(f"/api/executions/{run}").json["retry"]["standing"] == "cancelled"
    sim.pass_time(3600)
    sim.settle()
    assert client.get(f"/api/executions?source={run}").json["executions"] == []
