"""`/api/limits` and `/api/queues` as callers see them."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from html import unescape
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases import catalog
from noetl.usecases.ports import WorkerRow

BOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: bounded, path: tests/bounded}
workflow:
  - step: start
    spec: {concurrency: {limit: 1, key: a/b 100%}}
    tool: {kind: wait, signal: go}
"""
KEY = "a%2Fb%20100%25"


@pytest.fixture
def two(sim: Simulation) -> tuple[str, str]:
    """Who has the slot, and who waits for it."""
    sim.path = catalog.register(sim.rt, BOOK, "bounded.yaml").path
    first = sim.start()
    sim.settle()
    second = sim.start()
    sim.settle()
    return first, second


@pytest.fixture
def pages(make: Callable[..., Flask]) -> FlaskClient:
    return make().test_client()


def listed(client: FlaskClient, query: str = "") -> dict[str, Any]:
    answer = client.get(f"/api/limits{query}")
    assert answer.status_code == 200
    found: dict[str, Any] = answer.get_json()
    return found


def test_holders_and_waiters_are_shown_with_since_when(client: FlaskClient, two: tuple[str, str]) -> None:
    (one,) = listed(client)["limits"]
    assert (one["key"], one["limit"], one["held"], one["waiting"]) == ("a/b 100%", 1, 1, 1)
    (holder,), (waiter,) = one["holders"], one["waiters"]
    assert (holder["execution_id"], waiter["execution_id"]) == two
    assert (holder["path"], holder["run_id"], holder["part"]) == ("tests/bounded", "start#1", "-")
    assert holder["since"] <= waiter["since"]
    assert listed(client, f"?key={KEY}")["limits"] == [one]
    assert listed(client, "?key=other")["limits"] == []
    assert client.get("/api/limits?limit=0").status_code == 400


def test_a_key_with_a_slash_is_paused_and_resumed(
    client: FlaskClient, sim: Simulation, two: tuple[str, str]
) -> None:
    first, second = two
    answer = client.post(f"/api/limits/{KEY}/pause", json={"reason": "too slow"})
    assert (answer.status_code, answer.get_json()) == (200, {"name": "a/b 100%", "paused": True})
    assert listed(client)["limits"][0]["paused"]["reason"] == "too slow"
    client.post(f"/api/executions/{first}/cancel")
    sim.settle()
    assert sim.types(second)[-1] == "slot.requested"
    assert client.post(f"/api/limits/{KEY}/resume").get_json() == {"name": "a/b 100%", "paused": False}
    sim.settle()
    assert "slot.granted" in sim.types(second)
    assert client.post(f"/api/limits/{KEY}/resume").status_code == 409


def test_a_queue_is_paused_and_resumed(client: FlaskClient) -> None:
    assert client.post("/api/queues/http/pause").get_json() == {"name": "http", "paused": True}
    (paused,) = listed(client)["paused"]
    assert (paused["kind"], paused["name"]) == ("queue", "http")
    assert client.post("/api/queues/http/resume").status_code == 200
    assert client.post("/api/queues/http/resume").status_code == 409
    assert client.post("/api/queues/scheduler/pause").status_code == 400


def test_a_step_is_paused_and_resumed(client: FlaskClient, sim: Simulation, two: tuple[str, str]) -> None:
    here = f"/api/executions/{two[1]}"
    assert client.post(f"{here}/pause", json={"step": "start"}).status_code == 202
    assert client.post(f"{here}/pause", json={"step": "strat"}).status_code == 404
    sim.settle()
    assert listed(client)["limits"][0]["waiting"] == 0
    shown = client.get("/api/executions?path=tests/bounded").get_json()["executions"]
    assert shown[0]["waiting_for"] == "a slot of 'a/b 100%' (limit 1); step 'start' to be resumed"
    assert client.post(f"{here}/resume", json={"step": "start"}).status_code == 202
    sim.settle()
    assert listed(client)["limits"][0]["waiting"] == 1
    assert client.post(f"{here}/resume", json={"step": "start"}).status_code == 409


def test_who_waits_says_so_in_its_report_its_explanation_and_on_its_page(
    client: FlaskClient, pages: FlaskClient, two: tuple[str, str]
) -> None:
    client.post(f"/api/limits/{KEY}/pause", json={"reason": "too <slow>"})
    (wait,) = client.get(f"/api/executions/{two[1]}").get_json()["waits"]
    assert (wait["kind"], wait["step"], wait["for"][0]["slot"]["taken"]) == ("slot", "start", 1)
    step = client.get(f"/api/executions/{two[1]}/explain").get_json()["steps"][0]
    text = "a slot of 'a/b 100%' (1 of 1 taken; paused by anonymous: too <slow>)"
    assert step["why"].startswith(f"It waits: {text}, since ")
    page = unescape(pages.get(f"/executions/{two[1]}").text)
    assert f'<td class="waiting">{text}</td>' in page
    assert wait["since"] in page
    assert "<slow>" not in pages.get(f"/executions/{two[1]}").text


def test_the_page_of_what_waits_for_nothing_has_no_such_table(
    client: FlaskClient, pages: FlaskClient, sim: Simulation, two: tuple[str, str]
) -> None:
    client.post(f"/api/executions/{two[1]}/cancel")
    sim.settle()
    assert "Waits for" not in pages.get(f"/executions/{two[1]}").text


def test_a_list_names_the_key_that_is_paused(client: FlaskClient, two: tuple[str, str]) -> None:
    client.post(f"/api/limits/{KEY}/pause")
    shown = client.get("/api/executions?path=tests/bounded").get_json()["executions"]
    assert shown[0]["waiting_for"] == "a slot of 'a/b 100%' (limit 1); key 'a/b 100%' to be resumed"
    assert shown[1]["waiting_for"] == "signal 'go'"


def test_queues_say_what_waits_and_who_serves_them(client: FlaskClient, sim: Simulation) -> None:
    sim.start()
    while any(one.command is None for one in sim.mailbox.messages):
        sim.deliver()
    (mine,) = (one.command for one in sim.mailbox.messages if one.command is not None)
    sim.now += timedelta(seconds=5)
    with sim.rt.store.begin() as tx:
        tx.workers.see(WorkerRow("w1", "worker", ("python",), sim.now, sim.now))
    found = client.get("/api/queues").get_json()
    python = next(one for one in found["queues"] if one["name"] == "python")
    asked = (sim.now - timedelta(seconds=5)).isoformat()
    assert python == {
        "name": "python",
        "waiting": 1,
        "ready": 1,
        "held": 0,
        "oldest": asked,
        "limit": None,
        "paused": None,
        "workers": 1,
    }
    with sim.rt.store.begin() as tx:
        assert tx.commands.claim(mine.command_id, "w1", sim.now, sim.now + timedelta(seconds=30), 5)
    (worker,) = client.get("/api/queues").get_json()["workers"]
    assert (worker["name"], worker["presence"]) == ("w1", "alive")
    (work,) = worker["held"]
    assert (work["step"], work["path"], work["since"]) == ("start", "examples/doubling", asked)


def test_queues_count_what_one_may_see(ask_as: Callable[..., FlaskClient], sim: Simulation) -> None:
    sim.start()
    while any(one.command is None for one in sim.mailbox.messages):
        sim.deliver()

    def waiting(scope: str) -> int:
        return sum(one["waiting"] for one in ask_as(scope).get("/api/queues").get_json()["queues"])

    assert (waiting("read"), waiting("read:examples/*"), waiting("read:etl/*")) == (1, 1, 0)
