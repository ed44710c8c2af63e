"""Failures, filters and operations over HTTP: answers are held against their models by the
fixtures."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases.sweep import sweep

#: It fails for what cannot be doubled.
FAILED = "status = 'failed'"


@pytest.fixture
def failed(sim: Simulation) -> list[str]:
    """Executions that failed, and one that did not."""
    ids = [sim.start({"n": {"order": number}}) for number in range(3)]
    sim.start({"n": 2})
    sim.settle()
    return ids


def _finish(client: FlaskClient, sim: Simulation, operation_id: str) -> Any:
    for _ in range(10):
        sweep(sim.rt)
        sim.settle()
    return client.get(f"/api/operations/{operation_id}").json


def test_executions_are_listed_by_a_filter(client: FlaskClient, failed: list[str]) -> None:
    found = client.get("/api/executions", query_string={"where": "type = 'TypeError' and error ~ 'dict'"})
    assert [one["execution_id"] for one in found.json["executions"]] == list(reversed(failed))
    page = client.get("/api/executions", query_string={"where": FAILED, "limit": 2}).json
    assert page["next"] == failed[1]
    rest = client.get("/api/executions", query_string={"where": FAILED, "before": page["next"]}).json
    assert ([one["execution_id"] for one in rest["executions"]], rest["next"]) == ([failed[0]], None)


def test_failures_are_grouped(client: FlaskClient, failed: list[str]) -> None:
    found = client.get("/api/executions/failures").json
    (group,) = found["groups"]
    assert (found["count"], group["count"], group["step"], group["type"]) == (3, 3, "start", "TypeError")
    assert group["newest"] == list(reversed(failed))
    where = f"fingerprint = '{group['fingerprint']}'"
    assert client.get("/api/executions/failures", query_string={"where": where}).json == found


def test_a_plan_of_many_is_answered_and_nothing_is_begun(
    client: FlaskClient, sim: Simulation, failed: list[str]
) -> None:
    answer = client.post("/api/operations?dry_run=true", json={"where": FAILED})
    assert answer.status_code == 200
    assert (answer.json["executions"], answer.json["retries"], answer.json["confirm"]) == (3, 3, 0)
    assert answer.json["groups"][0]["runs"] == {"rerun": 3, "new": 3}
    assert client.get("/api/operations").json == {"operations": [], "next": None}


def test_many_are_run_again_as_one_operation(client: FlaskClient, sim: Simulation, failed: list[str]) -> None:
    body = {"where": FAILED, "overrides": {"n": 4}, "concurrency": 2}
    answer = client.post("/api/operations", json=body)
    assert answer.status_code == 202
    name = answer.json["operation_id"]
    assert (answer.json["status"], answer.json["items"]["pending"]) == ("running", 3)
    found = _finish(client, sim, name)
    assert (found["status"], found["items"]["completed"], found["items"]["total"]) == ("completed", 3, 3)
    items = client.get(f"/api/operations/{name}/items?limit=2").json
    assert [one["execution_id"] for one in items["items"]] == failed[:2]
    rest = client.get(f"/api/operations/{name}/items?after={items['next']}").json
    assert ([one["execution_id"] for one in rest["items"]], rest["next"]) == (failed[2:], None)
    assert client.get(f"/api/operations/{name}/items?state=failed").json["items"] == []
    retries = client.get("/api/executions", query_string={"where": f"operation = {name}"}).json["executions"]
    assert {one["operation_id"] for one in retries} == {name}
    assert client.get(f"/api/executions/{items['items'][0]['begun_id']}").json["operation_id"] == name
    assert [one["operation_id"] for one in client.get("/api/operations").json["operations"]] == [name]


def test_an_operation_is_paused_and_resumed(client: FlaskClient, sim: Simulation, failed: list[str]) -> None:
    name = client.post("/api/operations", json={"where": FAILED}).json["operation_id"]
    paused = client.post(f"/api/operations/{name}/pause", json={"reason": "lunch"})
    assert (paused.status_code, paused.json["status"], paused.json["reason"]) == (202, "paused", "lunch")
    assert _finish(client, sim, name)["items"]["pending"] == 3
    assert client.post(f"/api/operations/{name}/resume").json["status"] == "running"
    assert _finish(client, sim, name)["items"]["failed"] == 3
    assert client.post(f"/api/operations/{name}/resume").status_code == 409


def test_an_operation_is_cancelled_once(client: FlaskClient, sim: Simulation, failed: list[str]) -> None:
    name = client.post("/api/operations", json={"where": FAILED}).json["operation_id"]
    answer = client.post(f"/api/operations/{name}/cancel", json={"reason": "enough"})
    assert (answer.status_code, answer.json["status"], answer.json["reason"]) == (202, "cancelled", "enough")
    assert answer.json["items"]["dropped"] == 3
    assert client.post(f"/api/operations/{name}/cancel").status_code == 409


def test_what_cannot_be_is_answered(client: FlaskClient, failed: list[str]) -> None:
    for method, path, body, status, told in (
        ("GET", "/api/executions?where=statsu%3D1", None, 400, "Did you mean 'status'?"),
        ("GET", "/api/executions?where=", None, 400, "The filter is empty"),
        ("GET", "/api/executions/failures?where=(", None, 400, "at its end"),
        ("POST", "/api/operations", {"where": "status = 'faild'"}, 400, "Did you mean 'failed'?"),
        ("POST", "/api/operations", {"where": "status = 'paused'"}, 400, "No execution is to be retried"),
        ("POST", "/api/operations", {"wher": FAILED}, 400, "Did you mean 'where'?"),
        ("POST", "/api/operations", {}, 400, "where"),
        ("POST", "/api/operations", {"where": FAILED, "kind": "delete"}, 400, "kind"),
        ("POST", "/api/operations", {"where": FAILED, "concurrency": 0}, 400, "concurrency"),
        ("POST", "/api/operations", {"where": FAILED, "playbook": "a: ["}, 422, "cannot be run"),
        ("GET", "/api/operations/12", None, 404, "There is no operation '12'"),
        ("GET", "/api/operations/x", None, 404, "There is no operation 'x'"),
        ("GET", "/api/operations/12/items", None, 404, "There is no operation '12'"),
        ("GET", "/api/operations/12/items?state=done", None, 400, "state"),
        ("POST", "/api/operations/12/cancel", None, 404, "There is no operation '12'"),
        ("GET", "/api/operations?before=x", None, 400, "no operation id"),
    ):
        answer = client.open(path, method=method, json=body)
        assert (answer.status_code, told in answer.text) == (status, True), (path, body, answer.text)
