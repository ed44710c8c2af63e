"""What a token may: each route has a rule, lists show what may be read, and what may not be read is
as if it were not there."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.api.permissions import RULES, Rule
from noetl.config import Settings
from noetl.facts.reference import Retention
from noetl.testing import Simulation
from noetl.usecases import catalog, tokens
from noetl.usecases.start import StartRequest, start
from noetl.usecases.sweep import sweep

from .conftest import PLAYBOOK, Asking, with_token
from .lending import new_app

HERE = "/api/executions"
MINE = "examples/doubling"
OTHER = "ops/halving"


def text_of(path: str, more: str = "") -> str:
    return PLAYBOOK.replace("path: examples/doubling", f"path: {path}{more}")


@pytest.fixture
def other(sim: Simulation) -> str:
    """An execution of a playbook elsewhere, that failed."""
    catalog.register(sim.rt, text_of(OTHER))
    started = start(sim.rt, StartRequest(OTHER, payload={"n": {"no": "number"}}, key="theirs"))
    sim.settle()
    return started.execution_id


@pytest.fixture
def mine(sim: Simulation) -> str:
    """An execution that waits for somebody."""
    started = start(sim.rt, StartRequest(MINE, payload={"wait_for_go": True}, key="mine"))
    sim.settle()
    return started.execution_id


# --- the table ------------------------------------------------------------------------------------


def test_every_route_has_a_rule_and_every_rule_a_route(closed: Flask) -> None:
    assert {rule.endpoint for rule in closed.url_map.iter_rules()} == set(RULES)


def test_a_route_without_a_rule_is_refused_whoever_asks(sim: Simulation) -> None:
    app = new_app(sim.rt, Settings(open=False))
    app.add_url_rule("/api/new", "new", lambda: "")
    made = tokens.create(sim.rt, "root", ["admin"])
    answer = with_token(app.test_client(), made.text).get("/api/new")
    assert answer.status_code == 403


NAMES = {
    "execution_id": "1",
    "other": "2",
    "name": "executions/1/" + "0" * 64 + ".json",
    "path": OTHER,
    "operation_id": "1",
    "key": "reports",
    "queue": "http",
    "token_id": "x",
    "address": "1",
    "token": "x",
    "digest": "x",
    "place": "x",
}


def routes(app: Flask) -> list[tuple[str, str, Rule]]:
    found = []
    for one in app.url_map.iter_rules():
        url = re.sub(r"<(?:\w+:)?(\w+)>", lambda name: NAMES[name[1]], one.rule)
        found += [(method, url, RULES[one.endpoint]) for method in (one.methods or set()) - {"OPTIONS"}]
    return sorted(found, key=lambda one: one[:2])


def test_without_a_token_no_route_says_anything_but_health_and_addresses_of_tasks(
    closed: Flask, subtests: pytest.Subtests
) -> None:
    client = closed.test_client()
    known = {"/api/health": 200, "/api/callbacks/x": 404}
    # Pages lead to the form of who signs in; a form that no page has shown is none.
    known |= {"GET /login": 200, "HEAD /login": 200, "POST /login": 400, "POST /logout": 400}
    known |= {"GET /": 303, "HEAD /": 401, "GET /news": 303, "GET /executions/1": 303}
    known |= {"GET /artifacts/1/reports": 303, f"GET /pictures/{NAMES['name']}": 303}
    known |= {"GET /queues": 303, "GET /access": 303}
    known |= {"GET /failures": 303, "GET /operations": 303, "GET /operations/1": 303}
    known |= {"GET /flower/": 303, "GET /flower/x": 303}
    known |= {"GET /edit": 303, "GET /fixture": 303, "GET /playbooks": 303}
    known |= {f"GET /playbooks/{NAMES['path']}": 303}
    for method, url, _ in routes(closed):
        route = f"{method} {url}"
        with subtests.test(route):
            # A form is not even looked at that no page of this server sends.
            answer = client.open(url, method=method, headers={"Origin": "http://localhost"})
            if url.startswith("/static/"):
                assert answer.status_code == 404, "there is no such file"
            else:
                assert answer.status_code == known.get(route, known.get(url, 401))


def test_who_may_only_read_elsewhere_gets_nothing_from_any_route(
    closed: Flask, ask_as: Asking, other: str, mine: str, subtests: pytest.Subtests
) -> None:
    """Not found or forbidden, or a list without anything in it."""
    somebody = ask_as("read:elsewhere/*")
    urls = {"1": other, "2": mine}
    for method, url, rule in routes(closed):
        if rule.decider in ("nobody", "anybody"):
            continue
        with subtests.test(f"{method} {url}"):
            real = re.sub(r"(?<=/)[12](?=/|$)", lambda one: urls[one[0]], url)
            body: dict[str, Any] = {} if method in ("GET", "HEAD") else {"json": {}}
            if url in ("/act", "/executions/1") and body:
                body = {"data": {}, "headers": {"Origin": "http://localhost"}}
            answer = somebody.open(real, method=method, **body)
            if rule.decider == "given" and rule.scope == "read":
                assert answer.status_code in (200, 400)
                assert OTHER not in answer.text
                assert MINE not in answer.text
            elif url in ("/act", "/executions/1") and method == "POST":
                assert answer.status_code == 401, "forms are sent by who has signed in"
            else:
                assert answer.status_code in (403, 404)


# --- executions -----------------------------------------------------------------------------------


def test_what_may_not_be_read_is_answered_as_what_there_is_not(ask_as: Asking, other: str, mine: str) -> None:
    somebody = ask_as("operate:examples/*")
    missing = "999"
    for part in ("", "/events", "/logs", "/state", "/result", "/graph", "/explain", "/export"):
        hidden = somebody.get(f"{HERE}/{other}{part}")
        assert hidden.status_code == 404, part
        unknown = somebody.get(f"{HERE}/{missing}{part}")
        assert hidden.json["detail"].replace(repr(other), repr(missing)) == unknown.json["detail"]
        assert hidden.json.keys() == unknown.json.keys()
    for action in ("cancel", "pause", "retry", "fork", "migrate"):
        assert somebody.post(f"{HERE}/{other}/{action}", json={}).status_code == 404, action
    assert somebody.get(f"{HERE}/{mine}/diff/{other}").status_code == 404
    assert somebody.get(f"/executions/{other}").status_code == 404
    assert somebody.get(f"/executions/{mine}").status_code == 200


def test_a_key_means_only_what_may_be_read(ask_as: Asking, sim: Simulation, other: str) -> None:
    start(sim.rt, StartRequest(MINE, payload={"wait_for_go": True}, key="theirs"))
    sim.settle()
    everybody, somebody = ask_as("read"), ask_as("read:examples/*")
    assert everybody.get(f"{HERE}/theirs").status_code == 409
    assert somebody.get(f"{HERE}/theirs").json["path"] == MINE
    assert somebody.get(f"{HERE}/ops%2Fhalving:theirs").status_code == 404
    assert ask_as("read:ops/*").get(f"{HERE}/theirs").json["execution_id"] == other
    by_its_caller = {"parent": "ops/halving:theirs"}
    assert everybody.get(HERE, query_string=by_its_caller).status_code == 200
    assert somebody.get(HERE, query_string=by_its_caller).status_code == 404


def test_what_may_be_read_and_not_steered_is_said(ask_as: Asking, mine: str) -> None:
    reader = ask_as("read:examples/*", "run:examples/*", principal="ada")
    assert reader.get(f"{HERE}/{mine}").status_code == 200
    for method, path in (
        ("POST", f"{HERE}/{mine}/cancel"),
        ("POST", f"{HERE}/mine/cancel"),
        ("PATCH", f"{HERE}/{mine}/ctx"),
        ("PUT", f"/api/vars/{mine}/go"),
        ("POST", f"{HERE}/{mine}/migrate"),
    ):
        answer = reader.open(path, method=method, json={})
        assert answer.status_code == 403, path
        assert "ada" in answer.json["detail"]
        assert "`operate`" in answer.json["detail"]
        assert MINE in answer.json["detail"]
    assert reader.get(f"{HERE}/{mine}").json["status"] == "waiting"
    assert ask_as("operate:examples/*").post(f"{HERE}/{mine}/cancel").status_code == 202


def test_lists_show_what_may_be_read(ask_as: Asking, other: str, mine: str) -> None:
    def listed(client: FlaskClient) -> tuple[Any, ...]:
        executions = client.get(HERE).json["executions"]
        playbooks = client.get("/api/catalog").json["playbooks"]
        failures = client.get(f"{HERE}/failures").json["count"]
        return [one["execution_id"] for one in executions], [one["path"] for one in playbooks], failures

    assert listed(ask_as("read:examples/*")) == ([mine], [MINE], 0)
    assert listed(ask_as("read:ops/halving")) == ([other], [OTHER], 1)
    assert listed(ask_as("read:ops/*", "run:examples/*")) == ([mine, other], [MINE, OTHER], 1)
    assert listed(ask_as("read")) == ([mine, other], [MINE, OTHER], 1)
    assert listed(ask_as("approve:none/*")) == ([], [], 0)


def test_a_playbook_that_may_not_be_read_is_not_there(ask_as: Asking, other: str) -> None:
    somebody = ask_as("run:examples/*", "run:ops/halv*")
    assert somebody.get(f"/api/catalog/{OTHER}").status_code == 200
    blind = ask_as("run:examples/*")
    hidden = blind.get(f"/api/catalog/{OTHER}")
    missing = blind.get("/api/catalog/ops/halvinx")
    assert (hidden.status_code, missing.status_code) == (404, 404)
    assert hidden.json["detail"].replace(OTHER, "ops/halvinx") == missing.json["detail"]
    # What is near to a name that it may use may be somebody else's.
    near = ask_as("run:ops/halvin").post(HERE, json={"path": "ops/halvin"})
    assert near.status_code == 404
    assert OTHER not in near.text


def test_results_are_those_of_executions_that_may_be_read(
    ask_as: Asking, sim: Simulation, other: str, mine: str
) -> None:
    def address(keep: Retention) -> str:
        reference = sim.rt.results.put({"a": 1}, keep)["ref"]
        return f"/api/results/{reference.removeprefix('noetl://results/')}"

    somebody, everybody = ask_as("read:examples/*"), ask_as("read")
    assert somebody.get(address(Retention(mine))).json == {"a": 1}
    assert somebody.get(address(Retention(mine, "step"))).json == {"a": 1}
    assert somebody.get(address(Retention(other))).status_code == 404
    for keep in (Retention("", "permanent"), Retention("", until=sim.rt.clock())):
        assert somebody.get(address(keep)).status_code == 403
        assert everybody.get(address(keep)).json == {"a": 1}
    hidden = address(Retention(other)).removeprefix("/api/results/")
    for trick in (f"executions/{mine}/../../{hidden}", f"./{hidden}", hidden.removeprefix("executions/")):
        assert somebody.get(f"/api/results/{trick}").status_code in (400, 403, 404), trick


# --- starts ---------------------------------------------------------------------------------------


def test_starts_need_run_for_the_path(ask_as: Asking, other: str) -> None:
    runner = ask_as("run:examples/*", "read:ops/*", principal="ada")
    accepted = runner.post(HERE, json={"path": MINE})
    assert accepted.status_code == 202
    assert runner.get(accepted.json["links"]["self"]).json["principal"] == "ada"
    assert runner.post("/api/workflows/run", json={"workflow": MINE}).status_code == 202
    for path, body in ((HERE, {"path": OTHER}), ("/api/workflows/run", {"workflow": OTHER})):
        refused = runner.post(path, json=body)
        assert refused.status_code == 403
        assert "`run`" in refused.json["detail"]
    assert ask_as("read").post(HERE, json={"path": MINE}).status_code == 403
    assert ask_as("run:examples/*").post(HERE, json={"path": OTHER}).status_code == 404


def test_who_cancels_another_execution_by_a_start_has_to_be_allowed_to(ask_as: Asking, mine: str) -> None:
    body = {"path": MINE, "key": "mine", "on_conflict": "cancel_other"}
    refused = ask_as("run:examples/*").post(HERE, json=body)
    assert refused.status_code == 403
    assert ask_as("operate:examples/*").post(HERE, json=body).status_code == 202


def test_in_a_batch_what_is_forbidden_is_the_answer_of_that_item(
    ask_as: Asking, sim: Simulation, other: str
) -> None:
    runner = ask_as("run:examples/*", "read:ops/*")
    paths = [OTHER, MINE, "none/such", MINE]
    answer = runner.post(f"{HERE}/batch", json={"executions": [{"path": path} for path in paths]})
    assert answer.status_code == 200
    assert [one["status"] for one in answer.json["executions"]] == [403, 202, 404, 202]
    assert (answer.json["accepted"], answer.json["refused"]) == (2, 2)
    nothing = runner.post(f"{HERE}/batch", json={"executions": [{"path": OTHER}]})
    assert (nothing.status_code, nothing.json["refused"]) == (200, 1)


@pytest.mark.parametrize("path", ["catalog", "executions"])
def test_text_of_a_playbook_needs_operate_before_anything_is_kept(
    ask_as: Asking, sim: Simulation, path: str
) -> None:
    body = {"content" if path == "catalog" else "playbook": text_of("examples/new")}
    for somebody in (ask_as("run:examples/*", "operate:ops/*"), ask_as("run", "operate:ops/*")):
        refused = somebody.post(f"/api/{path}", json=body)
        assert refused.status_code == 403
        assert "examples/new" in refused.json["detail"]
        assert not catalog.is_known(sim.rt, "examples/new")
    assert ask_as("operate:examples/*").post(f"/api/{path}", json=body).status_code in (201, 202)
    assert catalog.is_known(sim.rt, "examples/new")


def test_text_of_a_playbook_as_yaml_needs_operate_too(ask_as: Asking, sim: Simulation) -> None:
    sent = {"data": text_of("examples/new"), "content_type": "application/yaml"}
    assert ask_as("operate:ops/*").post("/api/catalog", **sent).status_code == 403
    assert not catalog.is_known(sim.rt, "examples/new")


def test_a_retry_with_text_registers_nothing_elsewhere(
    ask_as: Asking, sim: Simulation, other: str, mine: str
) -> None:
    somebody = ask_as("operate:ops/*")
    for action, execution_id in (("retry", other), ("migrate", other)):
        body = {"playbook": text_of(MINE, ", x: 1").replace(", x: 1", "")}
        assert somebody.post(f"{HERE}/{execution_id}/{action}", json=body).status_code == 403
    assert somebody.post("/api/operations", json={"where": "id > 0", "playbook": PLAYBOOK}).status_code == 403
    assert len(catalog.versions(sim.rt, MINE)) == 1


# --- many at once ---------------------------------------------------------------------------------


@pytest.fixture
def failed(sim: Simulation, other: str) -> str:
    """Another one that failed, of the other playbook."""
    execution_id = sim.start({"n": {"no": "number"}})
    sim.settle()
    return execution_id


def test_an_operation_takes_only_what_may_be_steered(
    ask_as: Asking, sim: Simulation, other: str, failed: str
) -> None:
    somebody = ask_as("read", "operate:examples/*", principal="ada")
    where = {"where": "status = 'failed'"}
    assert somebody.post("/api/operations?dry_run=true", json=where).json["executions"] == 1
    begun = somebody.post("/api/operations", json=where)
    assert begun.status_code == 202
    assert begun.json["principal"] == "ada"
    here = f"/api/operations/{begun.json['operation_id']}"
    assert [one["execution_id"] for one in somebody.get(f"{here}/items").json["items"]] == [failed]
    sweep(sim.rt)
    sim.settle()
    (retried,) = somebody.get(HERE, query_string={"source": failed}).json["executions"]
    assert retried["principal"] == "ada"


def test_an_operation_of_others_is_not_there_for_who_may_read_some(
    ask_as: Asking, other: str, failed: str
) -> None:
    where = {"where": "status = 'failed'"}
    theirs = ask_as("operate", principal="root").post("/api/operations", json=where).json["operation_id"]
    ada = ask_as("operate:examples/*", principal="ada")
    own = ada.post("/api/operations", json={"where": "status = 'failed'"}).json["operation_id"]
    assert [one["operation_id"] for one in ada.get("/api/operations").json["operations"]] == [own]
    for part in ("", "/items"):
        assert ada.get(f"/api/operations/{theirs}{part}").status_code == 404
        assert ada.get(f"/api/operations/{own}{part}").status_code == 200
    assert ada.post(f"/api/operations/{theirs}/pause").status_code == 404
    assert ada.post(f"/api/operations/{own}/pause").status_code == 202
    reader = ask_as("read", "operate:examples/*", principal="eve")
    assert reader.get(f"/api/operations/{theirs}").status_code == 200
    assert reader.post(f"/api/operations/{theirs}/pause").status_code == 403


# --- what is for administrators -------------------------------------------------------------------


def test_credentials_are_for_who_administers_where_they_are_kept(ask_as: Asking, mine: str) -> None:
    body = {"name": "db", "type": "generic", "data": {"a": "b"}}
    whole, some = ask_as("admin"), ask_as("admin:etl/*", "admin:*/nightly")
    for place in ({}, {"execution": mine}, {"path": "ops"}, {"path": "etl"}, {"path": "a/nightly"}):
        refused = some.post("/api/credentials", json={**body, **place})
        assert refused.status_code == 403, place
        assert whole.post("/api/credentials", json={**body, **place}).status_code == 201, place
    assert some.post("/api/credentials", json={**body, "path": "etl/load"}).status_code == 201
    assert [one["place"] for one in some.get("/api/credentials").json["credentials"]] == ["etl/load"]
    assert len(whole.get("/api/credentials").json["credentials"]) == 6
    assert some.delete("/api/credentials/db").status_code == 403
    assert some.delete("/api/credentials/db?path=ops").status_code == 403
    assert some.delete("/api/credentials/db?path=etl/load").status_code == 204
    assert ask_as("operate").get("/api/credentials").status_code == 403


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/api/tokens"),
        ("POST", "/api/tokens"),
        ("DELETE", "/api/tokens/admin"),
        ("GET", "/api/audit"),
        ("DELETE", "/api/cache?all=true"),
    ],
)
def test_what_is_for_administrators_of_everything(ask_as: Asking, method: str, path: str) -> None:
    for somebody in (ask_as("operate"), ask_as("admin:examples/*")):
        refused = somebody.open(path, method=method, json={} if method == "POST" else None)
        assert refused.status_code == 403
        assert "`admin`" in refused.json["detail"]


def test_the_document_says_what_each_route_needs(client: FlaskClient) -> None:
    document = client.get("/api/openapi.json").json
    cancel = document["paths"]["/api/executions/{execution_id}/cancel"]["post"]
    assert cancel["x-noetl-scope"] == "operate for the playbook of the execution"
    assert cancel["security"] == [{"token": []}]
    assert {"401", "403", "429"} <= set(cancel["responses"])
    assert document["paths"]["/api/health"]["get"]["security"] == []
    assert document["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    said = [one["x-noetl-scope"] for path in document["paths"].values() for one in path.values()]
    assert all(said)


def test_messages_nobody_could_read_are_for_who_may_read_everything(
    make: Callable[..., Flask], ask_as: Asking, sim: Simulation
) -> None:
    with sim.rt.store.begin() as tx:
        tx.dead_letters.add("noetl.step", "garbage", "a body", sim.rt.clock())
    assert ask_as("read:examples/*").get("/api/runtime").json["dead_letters"] == []
    assert len(ask_as("read").get("/api/runtime").json["dead_letters"]) == 1
