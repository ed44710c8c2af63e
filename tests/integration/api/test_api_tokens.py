"""`/api/tokens`, `/api/whoami` and `/api/audit`; and that the text of a token is told once."""

from __future__ import annotations

import json
from datetime import timedelta
from typing import Any

import pytest
from flask import Flask

from noetl.testing import Simulation
from noetl.usecases import tokens

from .conftest import Asking, with_token

HERE = "/api/executions"
START = {"path": "examples/doubling"}


def test_a_token_is_made_listed_and_revoked(closed: Flask, ask_as: Asking, sim: Simulation) -> None:
    admin = ask_as("admin", principal="root")
    body = {
        "principal": "ci",
        "scopes": ["run:examples/*", "read"],
        "groups": ["builders"],
        "expires_s": 60,
        "rate": "100/minute",
    }
    answer = admin.post("/api/tokens", json=body)
    assert answer.status_code == 201
    made = answer.json
    assert {name: made[name] for name in body if name != "expires_s"} == {
        name: value for name, value in body.items() if name != "expires_s"
    }
    assert made["created_by"] == "root"
    assert made["token"].startswith(f"noetl_{made['token_id']}_")
    somebody = with_token(closed.test_client(), made["token"])
    assert somebody.get("/api/whoami").json == {
        "principal": "ci",
        "groups": ["builders"],
        "scopes": ["run:examples/*", "read"],
        "token_id": made["token_id"],
        "open": False,
    }
    listed = admin.get("/api/tokens").json["tokens"]
    assert {one["principal"] for one in listed} == {"root", "ci"}
    assert all(one["used_at"] is not None for one in listed)
    assert "secret" not in json.dumps(listed)
    revoked = admin.delete(f"/api/tokens/{made['token_id']}")
    assert revoked.status_code == 200
    assert revoked.json["revoked_at"] is not None
    assert admin.delete(f"/api/tokens/{made['token_id']}").json == revoked.json
    assert somebody.get("/api/whoami").status_code == 401
    missing = admin.delete("/api/tokens/none")
    assert missing.status_code == 404


def test_a_token_ends_when_it_is_told_to(closed: Flask, ask_as: Asking, sim: Simulation) -> None:
    admin = ask_as("admin", lifetime=None)
    by_default = admin.post("/api/tokens", json={"principal": "a", "scopes": ["read"]}).json
    for_ever = admin.post("/api/tokens", json={"principal": "a", "scopes": ["read"], "expires_s": None}).json
    assert for_ever["expires_at"] is None
    clients = [with_token(closed.test_client(), made["token"]) for made in (by_default, for_ever)]
    sim.pass_time(timedelta(days=90).total_seconds() - 1)
    assert [client.get(HERE).status_code for client in clients] == [200, 200]
    sim.pass_time(2)
    assert [client.get(HERE).status_code for client in clients] == [401, 200]


@pytest.mark.parametrize(
    "change",
    [
        {"scopes": []},
        {"scopes": ["reed"]},
        {"scopes": ["run:"]},
        {"scopes": ["run:a?b"]},
        {"principal": ""},
        {"principal": "anonymous"},
        {"principal": "a b"},
        {"groups": [" "]},
        {"expires_s": 0},
        {"expires_s": 10**12},
        {"rate": "many"},
        {"scope": "read"},
    ],
)
def test_what_is_no_token_to_be_is_refused(ask_as: Asking, sim: Simulation, change: Any) -> None:
    answer = ask_as("admin").post("/api/tokens", json={"principal": "a", "scopes": ["read"], **change})
    assert answer.status_code == 400
    assert len(tokens.tokens(sim.rt)) == 1


def test_the_audit_tells_who_asked_for_what(ask_as: Asking, sim: Simulation) -> None:
    ada, admin = ask_as("operate", principal="ada"), ask_as("admin", principal="root")
    started = ada.post(HERE, json=START, headers={"X-Request-ID": "r-1"}).json["execution_id"]
    ada.post(f"{HERE}/{started}/cancel", json={"reason": "no"}, headers={"X-Request-ID": "r-2"})
    admin.post("/api/credentials", json={"name": "db", "type": "generic", "data": {"a": "b"}})
    sim.settle()

    def audit(**query: Any) -> Any:
        return admin.get("/api/audit", query_string=query).json["entries"]

    assert [(one["principal"], one["action"], one["subject"]) for one in audit()] == [
        ("root", "credential.saved", "db"),
        ("ada", "playbook.cancel.requested", started),
        ("ada", "playbook.execution.requested", started),
    ]
    assert [one["request_id"] for one in audit(principal="ada")] == ["r-2", "r-1"]
    assert audit(request_id="r-1") == audit(action="playbook.execution")
    assert len(audit(execution=started)) == 2
    assert audit(execution=started) == audit(subject=started)
    assert audit(since="-1h") == audit()
    assert audit(until="-1h") == []
    page = admin.get("/api/audit?limit=2").json
    assert page["next"] == page["entries"][-1]["number"]
    rest = admin.get(f"/api/audit?before={page['next']}").json
    assert (len(rest["entries"]), rest["next"]) == (1, None)
    for bad in ({"since": "soon"}, {"execution": started, "subject": "x"}, {"limit": 0}, {"before": "x"}):
        assert admin.get("/api/audit", query_string=bad).status_code == 400, bad


def test_the_audit_is_exported_as_lines(ask_as: Asking) -> None:
    admin = ask_as("admin")
    for number in range(3):
        admin.post("/api/credentials", json={"name": f"c{number}", "type": "generic", "data": {"a": "b"}})
    answer = admin.get("/api/audit?limit=1", headers={"Accept": "application/x-ndjson"})
    assert answer.mimetype == "application/x-ndjson"
    lines = [json.loads(line) for line in answer.text.splitlines()]
    assert [one["subject"] for one in lines] == ["c2", "c1", "c0"]
    assert lines == admin.get("/api/audit").json["entries"]


def test_executions_and_events_name_who_asked(ask_as: Asking, sim: Simulation) -> None:
    ada, bob = ask_as("operate", principal="ada"), ask_as("operate", principal="bob")
    first = ada.post(HERE, json=START, headers={"X-Request-ID": "r-1"}).json["execution_id"]
    bob.post(HERE, json=START)
    (listed,) = bob.get(HERE, query_string={"principal": "ada"}).json["executions"]
    assert (listed["execution_id"], listed["principal"]) == (first, "ada")
    assert bob.get(HERE, query_string={"where": "principal = 'ada'"}).json["executions"] == [listed]
    assert bob.get(f"{HERE}/{first}").json["principal"] == "ada"
    sim.settle()
    events = bob.get(f"{HERE}/{first}/events").json["events"]
    assert (events[0]["principal"], events[0]["request_id"]) == ("ada", "r-1")
    assert {one["principal"] for one in events[1:]} == {None}


def test_no_answer_log_or_row_has_the_text_of_a_token(
    closed: Flask, sim: Simulation, caplog: pytest.LogCaptureFixture, subtests: pytest.Subtests
) -> None:
    """A canary: one token asks for everything, in every way, and is found nowhere."""
    text = tokens.create(sim.rt, "root", ["admin"]).text
    secret = text.split("_", 2)[2]
    admin = with_token(closed.test_client(), text)
    with caplog.at_level("DEBUG"):
        told = admin.post("/api/tokens", json={"principal": "ci", "scopes": ["read"]}).json
        other = told["token"].split("_", 2)[2]
        answers = [
            admin.post(HERE, json=START),
            admin.post("/api/catalog", json={"content": "["}),
            admin.get("/api/whoami"),
            admin.get("/api/tokens"),
            admin.get(f"/api/{text}"),
            admin.get(f"/{text}"),
            admin.get(HERE, query_string={"where": text}),
            admin.get(HERE, query_string={"x": text}),
            admin.get(HERE, headers={"Host": text}),
            admin.post(HERE, json=START, headers={"Origin": f"https://{text}"}),
            admin.get(HERE, headers={"Authorization": f"Bearer  {text}x"}),
            admin.get(HERE, headers={"Authorization": f"{text} x"}),
            admin.get(HERE, headers={"X-Request-ID": text}),
            admin.delete(f"/api/tokens/{told['token']}"),
        ]
        sim.settle()
        answers += [
            admin.get("/api/audit"),
            admin.get(f"{HERE}/{answers[0].json['execution_id']}/events"),
            admin.get("/api/openapi.json"),
        ]
    for number, answer in enumerate(answers):
        with subtests.test(str(number)):
            said = answer.text + str(answer.headers)
            assert secret not in said
            assert other not in said
    assert secret not in caplog.text
    assert other not in caplog.text
