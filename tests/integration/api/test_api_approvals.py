"""Over HTTP: open approvals are listed, and answered by who is asked."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation

from .conftest import Asking

HERE = "/api/executions"
SIGNS = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: signs, path: tests/signs}
workload: {amount: 120}
workflow:
  - step: start
    tool:
      kind: wait
      approval:
        by: [alice, "group:ops"]
        message: "Pay {{ workload.amount }}?"
        show: {order: 7}
        four_eyes: true
        form: {amount: {type: number, max: 500, default: "{{ workload.amount }}"}, note: {type: string, required: true}}
"""


@pytest.fixture
def sim() -> Simulation:
    return Simulation(SIGNS)


def start(client: FlaskClient, sim: Simulation) -> str:
    answer = client.post(HERE, json={"path": "tests/signs"})
    assert answer.status_code == 202, answer.json
    sim.settle()
    return str(answer.json["execution_id"])


def say(client: FlaskClient, run: str, verdict: str = "approve", **more: Any) -> Any:
    return client.post(f"{HERE}/{run}/approvals", json={"answer": verdict, **more})


def test_what_is_asked_is_listed_with_who_may_answer(ask_as: Asking, sim: Simulation) -> None:
    carol = ask_as("approve", "run", principal="carol", groups=["ops"])
    run = start(ask_as("run", principal="bob"), sim)
    (one,) = carol.get(f"{HERE}/{run}/approvals").json["approvals"]
    assert (one["message"], one["show"], one["by"]) == ("Pay 120?", {"order": 7}, ["alice", "group:ops"])
    assert one["form"]["properties"]["amount"] == {"type": "number", "maximum": 500, "default": 120}
    assert one["form"]["required"] == ["note"]
    assert (one["may_answer"], one["why_not"]) == (True, None)
    other = ask_as("read", principal="dave").get("/api/approvals").json["approvals"]
    assert [(one["may_answer"], one["why_not"]) for one in other] == [
        (False, "dave has no scope `approve` for playbook 'tests/signs'.")
    ]
    assert ask_as("read", principal="dave").get("/api/approvals?mine=true").json["approvals"] == []
    assert len(carol.get("/api/approvals?mine=true").json["approvals"]) == 1
    assert ask_as("read:other/*", principal="eve").get("/api/approvals").json["approvals"] == []
    report = carol.get(f"{HERE}/{run}").json
    assert report["waits"][0]["for"][0]["approval"]["message"] == "Pay 120?"
    (listed,) = carol.get(HERE, query_string={"where": "approvals > 0"}).json["executions"]
    assert listed["execution_id"] == run


def test_who_is_asked_answers_and_nobody_else(ask_as: Asking, sim: Simulation) -> None:
    alice = ask_as("approve", "run", principal="alice")
    run = start(alice, sim)
    starter = say(alice, run, values={"note": "x"})
    assert (starter.status_code, starter.json["detail"]) == (
        403,
        "Step 'start' asks others than who started it, and that was alice.",
    )
    stranger = say(ask_as("approve", principal="dave"), run, values={"note": "x"})
    assert stranger.status_code == 403
    assert stranger.json["detail"] == "Step 'start' asks alice or group:ops, and dave is not among them."
    assert say(ask_as("operate", principal="carol", groups=["ops"]), run).status_code == 403
    carol = ask_as("approve", principal="carol", groups=["ops"])
    faulty = say(carol, run, values={"amount": 1000})
    assert faulty.status_code == 422
    assert [one["path"] for one in faulty.json["errors"]] == ["amount", "note"]
    given = say(carol, run, values={"note": "fine"}, reason="as agreed")
    assert (given.status_code, given.json["existing"]) == (202, False)
    sim.settle()
    found = carol.get(f"{HERE}/{run}/result").json
    assert found["result"]["values"] == {"amount": 120, "note": "fine"}
    assert found["result"]["answers"][0]["reason"] == "as agreed"
    event = carol.get(f"{HERE}/{run}/events?type=approval.answered").json["events"][0]
    assert (event["principal"], event["request_id"]) == ("carol", given.headers["X-Request-ID"])
    again = say(carol, run, values={"note": "fine", "amount": 120}, reason="as agreed")
    assert (again.status_code, again.json["existing"]) == (202, True)
    assert say(carol, run, "reject").status_code == 409


def test_a_token_that_is_no_longer_good_answers_nothing(ask_as: Asking, sim: Simulation) -> None:
    run = start(ask_as("run", principal="bob"), sim)
    carol = ask_as("approve", principal="carol", groups=["ops"], lifetime=timedelta(hours=1))
    sim.pass_time(3600)
    late = say(carol, run, values={"note": "x"})
    assert (late.status_code, "expired" in late.json["detail"]) == (401, True)
    assert say(ask_as("approve", principal="alice"), run, values={"note": "x"}).status_code == 202


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({}, 400, "answer"),
        ({"answer": "maybe"}, 400, "'approve' or 'reject'"),
        ({"answer": "approve", "step": "stat"}, 404, "Did you mean 'start'?"),
        ({"answer": "approve", "name": "approvel"}, 404, "Did you mean 'approval'?"),
        ({"answer": "approve", "iteration": 3}, 409, "open are step 'start'"),
        ({"answer": "approve", "id": "start#9/-/1/approval"}, 409, "open are step 'start'"),
        ({"answer": "reject", "values": {"note": "x"}}, 400, "A rejection has no values"),
        ({"answer": "approve", "valeus": {}}, 400, "Did you mean 'values'?"),
        ({"answer": "approve", "values": [1]}, 400, "values"),
        ({"answer": "approve", "values": {"note": 7}}, 422, "note: must be text, and is 7"),
    ],
)
def test_what_cannot_be_an_answer_is_refused_in_one_sentence(
    ask_as: Asking, sim: Simulation, body: Any, status: int, said: str
) -> None:
    run = start(ask_as("run", principal="bob"), sim)
    carol = ask_as("approve", principal="carol", groups=["ops"])
    answer = carol.post(f"{HERE}/{run}/approvals", json=body)
    assert answer.status_code == status, answer.json
    assert said in answer.json["detail"]
    assert "\n" not in answer.json["detail"]
    assert len(carol.get("/api/approvals?mine=true").json["approvals"]) == 1


def test_pages_follow_one_another(ask_as: Asking, sim: Simulation) -> None:
    bob = ask_as("run", principal="bob")
    runs = [start(bob, sim) for _ in range(3)]
    first = bob.get("/api/approvals?limit=2").json
    second = bob.get("/api/approvals", query_string={"limit": 2, "after": first["next"]}).json
    assert [one["execution_id"] for one in first["approvals"] + second["approvals"]] == runs
    assert second["next"] is None
    assert bob.get("/api/approvals?after=x").status_code == 400
