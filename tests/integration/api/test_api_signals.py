"""Over HTTP: executions are told what they wait for, and steps of them are cancelled."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation

HERE = "/api/executions"
HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: waits, path: tests/waits}\n"
WAITS = (
    HEAD
    + """
workload: {order: 1}
key: "{{ workload.order }}"
workflow:
  - step: start
    tool: {kind: wait, signal: {name: paid, correlate: "{{ workload.order }}"}}
"""
)


@pytest.fixture
def sim() -> Simulation:
    return Simulation(WAITS)


def start(client: FlaskClient, sim: Simulation, order: int, **more: Any) -> Any:
    answer = client.post(HERE, json={"path": "tests/waits", "payload": {"order": order}, **more})
    assert answer.status_code == 202, answer.json
    sim.settle()
    return answer.json


def report(client: FlaskClient, run: str) -> Any:
    return client.get(f"{HERE}/{run}").json


def test_a_signal_is_taken_and_says_who_sent_it(client: FlaskClient, sim: Simulation) -> None:
    run = start(client, sim, 7)["execution_id"]
    found = report(client, run)
    assert found["status"] == "waiting"
    (wait,) = found["waits"]
    assert (wait["step"], [one["text"] for one in wait["for"]]) == ("start", ["signal 'paid'"])
    (listed,) = client.get(HERE, query_string={"where": "waiting ~ 'paid'"}).json["executions"]
    assert listed["waiting_for"] == "signal 'paid'"
    answer = client.post(f"{HERE}/{run}/signals/paid", json={"payload": {"n": 1}, "id": "x"})
    assert answer.status_code == 202
    again = client.post(f"{HERE}/{run}/signals/paid", json={"payload": {"n": 2}, "id": "x"})
    assert (answer.json["existing"], again.json["existing"]) == (False, True)
    assert again.json["version"] == answer.json["version"]
    sim.settle()
    result = report(client, run)["result"]
    assert (result["payload"], result["by"]) == ({"n": 1}, "anonymous")
    event = client.get(f"{HERE}/{run}/events?type=signal.received").json["events"][0]
    assert event["request_id"] == answer.headers["X-Request-ID"]


def test_a_body_may_be_left_out_and_an_execution_be_named_by_its_key(
    client: FlaskClient, sim: Simulation
) -> None:
    start(client, sim, 7)
    assert client.post(f"{HERE}/{quote('tests/waits:7', safe='')}/signals/paid").status_code == 202


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"payload": 1, "expires": "soon"}, 400, "is not a duration"),
        ({"expires": 0}, 400, "would never be heard"),
        ({"deliver": "some"}, 400, "deliver"),
        ({"payloda": 1}, 400, "Did you mean 'payload'?"),
    ],
)
def test_what_cannot_be_sent_is_answered(
    client: FlaskClient, sim: Simulation, body: Any, status: int, said: str
) -> None:
    run = start(client, sim, 7)["execution_id"]
    answer = client.post(f"{HERE}/{run}/signals/paid", json=body)
    assert (answer.status_code, said in answer.json["detail"]) == (status, True), answer.json


def test_unknown_names_and_executions_that_have_ended(client: FlaskClient, sim: Simulation) -> None:
    run = start(client, sim, 7)["execution_id"]
    answer = client.post(f"{HERE}/{run}/signals/payd")
    assert (answer.status_code, "Did you mean 'paid'" in answer.json["detail"]) == (404, True)
    assert client.post(f"{HERE}/99/signals/paid").status_code == 404
    client.post(f"{HERE}/{run}/signals/paid")
    sim.settle()
    assert client.post(f"{HERE}/{run}/signals/paid").status_code == 409


def test_a_signal_about_a_value_finds_its_execution_or_is_kept(client: FlaskClient, sim: Simulation) -> None:
    run = start(client, sim, 7)["execution_id"]
    kept = client.post("/api/signals/paid", json={"correlate": "8", "payload": "early"})
    assert (kept.status_code, kept.json["sent"]) == (202, [])
    sent = client.post("/api/signals/paid", json={"correlate": "7"}).json["sent"]
    assert [one["execution_id"] for one in sent] == [run]
    other = start(client, sim, 8)["execution_id"]
    sim.settle()
    assert report(client, other)["result"]["payload"] == "early"
    assert client.post("/api/signals/paid", json={}).status_code == 400


def test_a_start_with_a_signal_tells_the_open_one_or_starts_one(client: FlaskClient, sim: Simulation) -> None:
    signal = {"name": "paid", "payload": "first", "id": "a"}
    run = start(client, sim, 7)["execution_id"]
    told = start(client, sim, 7, signal=signal)
    assert (told["execution_id"], told["existing"]) == (run, True)
    assert report(client, run)["result"]["payload"] == "first"
    new = start(client, sim, 7, signal={**signal, "payload": "second"})
    assert new["existing"] is False
    assert report(client, new["execution_id"])["result"]["payload"] == "second"
    body = {"path": "tests/waits", "payload": {"order": 9}}
    unknown = client.post(HERE, json={**body, "signal": {"name": "payd"}})
    assert unknown.status_code == 404
    clash = client.post(HERE, json={**body, "signal": signal, "on_conflict": "reject"})
    assert clash.status_code == 400
    assert client.get(HERE).json["executions"][0]["execution_id"] == new["execution_id"]


def test_a_step_is_cancelled_by_itself(client: FlaskClient, sim: Simulation) -> None:
    run = start(client, sim, 7)["execution_id"]
    for body, status in (
        ({"step": "strat"}, 404),
        ({"iteration": 1}, 400),
        ({"step": "start", "iteration": 0}, 409),
        ({"step": "start", "reason": "not needed"}, 202),
    ):
        assert client.post(f"{HERE}/{run}/cancel", json=body).status_code == status
    sim.settle()
    assert report(client, run)["status"] == "completed"
    assert report(client, run)["steps"]["start"]["status"] == "cancelled"
