"""Labels over HTTP: they come with a start, are shown, and asked for."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation

HERE = "/api/executions"
PATH = "examples/doubling"


def ids(client: FlaskClient, where: str) -> list[str]:
    answer = client.get(HERE, query_string={"where": where})
    assert answer.status_code == 200, answer.json
    return [one["execution_id"] for one in answer.json["executions"]]


@pytest.fixture
def labelled(client: FlaskClient, text: str) -> Callable[..., str]:
    """Starts an execution of the playbook, which has the label `team`, with others; returns its
    id."""
    more = text.replace("description:", "labels: {team: data}, description:")
    assert client.post("/api/catalog", json={"content": more}).status_code == 201

    def start(route: str = HERE, **body: object) -> str:
        answer = client.post(route, json={"path": PATH, **body})
        assert answer.status_code == 202, answer.json
        return str(answer.json["execution_id"])

    return start


@pytest.mark.parametrize("route", [HERE, "/api/workflows/run"])
def test_those_of_a_start_are_shown_with_those_of_the_playbook(
    client: FlaskClient, labelled: Callable[..., str], route: str
) -> None:
    run = labelled(route, labels={"env": "prod", "tier": 2})
    wanted = {"team": "data", "env": "prod", "tier": "2"}
    assert client.get(f"{HERE}/{run}").json["labels"] == wanted
    assert client.get(f"/api/workflows/status/{run}").json["labels"] == wanted
    (listed,) = client.get(HERE).json["executions"]
    assert listed["labels"] == wanted


def test_one_without_labels_has_an_empty_mapping(client: FlaskClient) -> None:
    run = client.post(HERE, json={"path": PATH}).json["execution_id"]
    assert client.get(f"{HERE}/{run}").json["labels"] == {}
    assert client.get(HERE).json["executions"][0]["labels"] == {}


def test_items_of_a_batch_have_labels_of_their_own(client: FlaskClient, labelled: Callable[..., str]) -> None:
    items = [{"path": PATH, "labels": {"team": "x"}}, {"path": PATH, "labels": {"a b": "x"}}, {"path": PATH}]
    first, second, third = client.post(f"{HERE}/batch", json={"executions": items}).json["executions"]
    assert second["problem"]["status"] == 400
    assert "names are made of letters" in second["problem"]["detail"]
    assert client.get(f"{HERE}/{first['execution_id']}").json["labels"] == {"team": "x"}
    assert client.get(f"{HERE}/{third['execution_id']}").json["labels"] == {"team": "data"}


@pytest.mark.parametrize(
    ("labels", "told"),
    [
        ({"team": None}, "The labels have no text as 'team', but null."),
        ({"team": "x" * 201}, "have 201 characters as 'team'"),
        ([], "labels: Input should be a valid dictionary"),
        ("team=x", "labels: Input should be a valid dictionary"),
    ],
)
def test_what_is_none_is_answered(client: FlaskClient, labels: object, told: str) -> None:
    answer = client.post(HERE, json={"path": PATH, "labels": labels})
    assert (answer.status_code, told in answer.json["detail"]) == (400, True), answer.json


def test_filters_ask_for_labels_and_inputs(
    client: FlaskClient, labelled: Callable[..., str], sim: Simulation
) -> None:
    first = labelled(labels={"env": "prod"}, payload={"n": 3})
    second = labelled(labels={"team": "other"}, overrides={"n": 4})
    sim.settle()
    assert ids(client, "label.team = 'data' and label.env ~ '^pr'") == [first]
    assert ids(client, "label.env is null and input.n = 4") == [second]
    assert ids(client, "input.n in (2, 3)") == [first]
    answer = client.get(HERE, query_string={"where": "input.n > 3"})
    assert answer.status_code == 400
    assert "input.n is text, and compared by" in answer.json["detail"]


def test_the_document_of_a_playbook_says_that_its_start_may_have_labels(client: FlaskClient) -> None:
    document = client.get(f"/api/catalog/{PATH}/openapi.json").json
    body = document["paths"][HERE]["post"]["requestBody"]["content"]["application/json"]["schema"]
    assert body["properties"]["labels"]["type"] == "object"
