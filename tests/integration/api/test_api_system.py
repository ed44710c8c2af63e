"""Health, the runtime, the OpenAPI document, the page, and the server process."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl import __version__
from noetl.config import Settings
from noetl.errors import Unavailable
from noetl.testing import Mailbox, Simulation
from noetl.usecases.ports import WorkerRow

from .lending import Lend


class Broker(Mailbox):
    """A mailbox that says whether it is there."""

    def ping(self) -> None:
        self._here()


@pytest.fixture
def broker() -> Broker:
    return Broker()


@pytest.fixture
def with_broker(sim: Simulation, broker: Broker, lend: Lend) -> FlaskClient:
    rt = replace(sim.rt, dispatcher=broker)
    return lend(rt, Settings()).test_client()


def test_health_says_what_answers(with_broker: FlaskClient, broker: Broker) -> None:
    assert with_broker.get("/api/health").json == {
        "status": "ok",
        "database": {"status": "ok"},
        "broker": {"status": "ok"},
    }
    broker.away = True
    degraded = with_broker.get("/api/health")
    assert (degraded.status_code, degraded.json["status"]) == (200, "degraded")
    assert degraded.json["broker"]["status"] == "down"


def test_without_a_broker_there_is_none(client: FlaskClient) -> None:
    assert client.get("/api/health").json["broker"] == {"status": "none"}


class Gone:
    """A store whose database is away."""

    @contextmanager
    def read(self) -> Iterator[Any]:
        raise Unavailable("The database does not answer.")
        yield

    begin = begin_async_commit = read

    def close(self) -> None: ...


def test_a_database_that_is_away_is_a_503_with_advice_to_come_back(sim: Simulation, lend: Lend) -> None:
    client = lend(replace(sim.rt, store=Gone()), Settings()).test_client()

    assert client.get("/api/health").status_code == 503
    assert client.get("/api/health").json["status"] == "down"
    answer = client.get("/api/executions")
    assert (answer.status_code, answer.headers["Retry-After"]) == (503, "1")
    assert client.post("/api/executions", json={"path": "x"}).status_code == 503


def test_the_runtime_shows_kinds_queues_and_living_workers(client: FlaskClient, sim: Simulation) -> None:
    with sim.rt.store.begin() as tx:
        for name, age in (("alive", 5), ("gone", 600)):
            seen = sim.now - timedelta(seconds=age)
            tx.workers.see(WorkerRow(name, "worker", ("http", "python"), seen, seen))

    found = client.get("/api/runtime").json

    assert found["version"] == __version__
    assert "python" in found["queues"]
    assert {one["kind"] for one in found["kinds"]} == set(sim.rt.kinds)
    assert [one["name"] for one in found["workers"]] == ["alive"]


# --- the document --------------------------------------------------------------------------------


@pytest.fixture
def document(client: FlaskClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/openapi.json").json
    return found


def test_the_document_is_openapi_3_1(document: dict[str, Any]) -> None:
    assert re.fullmatch(r"3\.1\.\d+", document["openapi"])
    assert document["info"] == {
        "title": "NoETL",
        "version": __version__,
        "description": "Run playbooks, durably.",
    }


def test_every_route_is_in_the_document_and_says_what_it_does(
    document: dict[str, Any], make: Callable[..., Flask]
) -> None:
    rules = {
        re.sub(r"<(?:\w+:)?(\w+)>", r"{\1}", str(rule))
        for rule in make().url_map.iter_rules()
        if rule.endpoint != "document" and not rule.endpoint.startswith(("docs.", "pages."))
    }
    assert set(document["paths"]) == rules
    for operations in document["paths"].values():
        for operation in operations.values():
            assert operation["summary"]
            assert {"400", "4XX", "503"} <= set(operation["responses"])


def test_the_page_of_the_manual_lists_every_route(document: dict[str, Any]) -> None:
    manual = (Path(__file__).parents[3] / "docs" / "api.md").read_text(encoding="utf-8")
    missing = [
        f"{method.upper()} {path}"
        for path, operations in document["paths"].items()
        for method in operations
        if f"`{method.upper()} {path}`" not in manual
    ]
    assert missing == []


def test_bodies_that_may_be_left_out_are_not_required(document: dict[str, Any]) -> None:
    cancel = document["paths"]["/api/executions/{execution_id}/cancel"]["post"]
    start = document["paths"]["/api/executions"]["post"]
    assert cancel["requestBody"]["required"] is False
    assert start["requestBody"]["required"] is True


def test_every_operation_has_a_name_of_its_own(document: dict[str, Any]) -> None:
    ids = [one["operationId"] for path in document["paths"].values() for one in path.values()]
    assert len(ids) == len(set(ids))


def test_every_reference_in_the_document_leads_somewhere(document: dict[str, Any]) -> None:
    def references(value: Any) -> Iterator[str]:
        if isinstance(value, dict):
            if isinstance(value.get("$ref"), str):
                yield value["$ref"]
            for item in value.values():
                yield from references(item)
        if isinstance(value, list):
            for item in value:
                yield from references(item)

    known = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    found = set(references(document))
    assert found
    assert found <= known
