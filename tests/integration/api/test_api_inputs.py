"""Declared inputs over REST: the document of a playbook, and what does not fit it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import jsonschema
import pytest
from flask.testing import FlaskClient

from noetl.config import Settings
from noetl.testing import Simulation
from noetl.tools.secrets.vault import FernetVault

from .lending import Lend

PARCEL = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: parcel, path: shop/parcel, description: Sends a parcel}
inputs:
  - {name: zip, type: string, pattern: "^[0-9]{5}$", required: true, description: postal code, order: 1}
  - {name: count, type: integer, min: 1, max: 10, default: 1}
  - {name: day, type: date, default: "{{ now() | strftime('%F') }}"}
  - {name: token, type: string, secret: true}
workload: {carrier: post}
workflow:
  - {step: start, tool: {kind: noop, input: {zip: "{{ zip }}", count: "{{ count }}", token: "{{ token }}"}}}
"""
CANARY = "Kanari-over-rest"


@pytest.fixture
def sim(vault: FernetVault) -> Simulation:
    made = Simulation(PARCEL)
    made.rt = replace(made.rt, seal=vault.seal, encrypt=vault.encrypt)
    return made


@pytest.fixture
def client(sim: Simulation, lend: Lend) -> Iterator[FlaskClient]:
    with lend(sim.rt, Settings()).test_client() as opened:
        yield opened


def post(client: FlaskClient, **body: Any) -> Any:
    return client.post("/api/executions", json={"path": "shop/parcel", **body})


def test_everything_that_does_not_fit_is_one_problem(client: FlaskClient) -> None:
    answer = post(client, payload={"count": "20", "tokn": CANARY}, overrides={"carrier": {"x": 1}})
    assert answer.status_code == 422
    assert answer.mimetype == "application/problem+json"
    assert answer.json["type"] == "urn:noetl:problem:inputs-invalid"
    assert answer.json["errors"] == [
        {"path": "count", "message": "must be at most 10, and is 20"},
        {"path": "zip", "message": "is required, and was not given"},
        {"path": "tokn", "message": "is not declared. Did you mean 'token'?"},
    ]
    assert client.get("/api/executions").json["executions"] == []


def test_texts_of_forms_and_queries_are_read(client: FlaskClient, sim: Simulation) -> None:
    answer = post(client, payload={"zip": "01234", "count": "3"})
    assert answer.status_code == 202
    sim.settle()
    result = client.get(answer.json["links"]["result"]).json["result"]
    assert (result["zip"], result["count"]) == ("01234", 3)


def test_items_of_a_batch_and_the_other_names_are_held_to_the_same(client: FlaskClient) -> None:
    items = [{"path": "shop/parcel", "payload": {"zip": zip}} for zip in ("01234", "x")]
    answers = client.post("/api/executions/batch", json={"executions": items}).json["executions"]
    assert [one["status"] for one in answers] == [202, 422]
    assert [one["path"] for one in answers[1]["problem"]["errors"]] == ["zip"]
    assert client.post("/api/workflows/run", json={"path": "shop/parcel", "input": {}}).status_code == 422


def test_no_answer_tells_a_secret(client: FlaskClient, sim: Simulation) -> None:
    started = post(client, payload={"zip": "01234", "token": CANARY})
    sim.settle()
    here = f"/api/executions/{started.json['execution_id']}"
    told = [started.text, client.get("/api/credentials").text, client.get("/api/executions").text]
    told += [client.get(here + part).text for part in ("", "/events", "/state", "/result")]
    assert all("Kanari" not in text for text in told)
    assert "secret_ref" in told[-1]
    assert client.get("/api/credentials").json["credentials"] == []


def test_the_document_of_a_playbook_has_its_inputs(client: FlaskClient) -> None:
    document = client.get("/api/catalog/shop/parcel/openapi.json").json
    assert document["openapi"] == "3.1.0"
    assert document["info"] == {"title": "parcel", "version": "1", "description": "Sends a parcel"}
    payload = document["components"]["schemas"]["Payload"]
    jsonschema.Draft202012Validator.check_schema(payload)
    assert payload == {
        "type": "object",
        "properties": {
            "count": {"type": "integer", "minimum": 1, "maximum": 10, "default": 1},
            "day": {"type": "string", "format": "date"},
            "token": {"type": "string", "format": "password", "writeOnly": True},
            "zip": {"type": "string", "pattern": "^[0-9]{5}$", "description": "postal code"},
            "carrier": {},
        },
        "required": ["zip"],
        "additionalProperties": False,
    }
    (operation,) = document["paths"]["/api/executions"].values()
    body = operation["requestBody"]["content"]["application/json"]["schema"]
    assert body["required"] == ["path", "payload"]
    assert body["properties"]["path"] == {"const": "shop/parcel"}


def test_what_fits_the_document_is_started_and_nothing_else(client: FlaskClient) -> None:
    schema = client.get("/api/catalog/shop/parcel/openapi.json").json["components"]["schemas"]["Payload"]
    for payload in (
        {"zip": "01234"},
        {"zip": "0123"},
        {},
        {"zip": "01234", "count": 0},
        {"zip": "01234", "x": 1},
    ):
        fits = jsonschema.Draft202012Validator(schema).is_valid(payload)
        assert (post(client, payload=payload).status_code == 202) == fits


def test_a_playbook_without_inputs_takes_any_object(client: FlaskClient) -> None:
    plain = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: a, path: shop/a}\nworkflow: [{step: start}]\n"
    client.post("/api/catalog", json={"content": plain})
    document = client.get("/api/catalog/shop/a/openapi.json").json
    assert document["components"]["schemas"]["Payload"] == {"type": "object"}
    assert client.get("/api/catalog/shop/b/openapi.json").status_code == 404
    assert client.get("/api/catalog/shop/a/openapi.json?version=7").status_code == 404
