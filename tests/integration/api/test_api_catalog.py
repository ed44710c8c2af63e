"""Playbooks are registered, listed and shown over REST; credentials go in and stay in."""

from __future__ import annotations

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.tools.secrets.vault import Vault


def test_yaml_is_registered_as_json_content_or_as_itself(client: FlaskClient, text: str) -> None:
    other = text.replace("examples/doubling", "other/doubling")
    first = client.post("/api/catalog", json={"content": other})
    second = client.post("/api/catalog", data="\ufeff" + other, content_type="application/yaml")
    third = client.post("/api/catalog", data=other + "# changed\n", content_type="application/yaml")

    assert [one.status_code for one in (first, second, third)] == [201, 201, 201]
    assert [one.json["version"] for one in (first, second, third)] == [1, 1, 2]
    assert first.json["path"] == "other/doubling"
    assert first.headers["Location"] == "/api/catalog/other/doubling?version=1"


def test_the_same_text_is_the_same_version(client: FlaskClient, text: str) -> None:
    versions = {client.post("/api/catalog", json={"content": text}).json["version"] for _ in range(2)}
    assert versions == {1}


def test_playbooks_are_listed_and_shown_in_every_version(client: FlaskClient, text: str) -> None:
    client.post("/api/catalog", json={"content": text + "# changed\n"})

    (listed,) = client.get("/api/catalog").json["playbooks"]
    shown = client.get("/api/catalog/examples/doubling").json
    first = client.get("/api/catalog/examples/doubling?version=1").json

    assert (listed["path"], listed["version"]) == ("examples/doubling", 2)
    assert (listed["name"], listed["description"]) == ("doubling", "Doubles a number")
    assert (shown["version"], shown["versions"]) == (2, [1, 2])
    assert first["content"] == text


def test_all_problems_of_a_playbook_are_answered_together(client: FlaskClient, text: str) -> None:
    bad = text.replace("step: gate}", "step: gaet}").replace("kind: noop", "kind: noob")
    answer = client.post("/api/catalog", json={"content": bad})

    assert answer.status_code == 422
    assert answer.mimetype == "application/problem+json"
    errors = [one for one in answer.json["problems"] if one["severity"] == "error"]
    assert {one["line"] for one in errors} == {9, 17}
    assert all(one["message"] and one["column"] and one["path"] for one in errors)
    assert len(client.get("/api/catalog").json["playbooks"]) == 1


def test_warnings_of_a_playbook_are_answered_wherever_it_is_registered_or_started(
    client: FlaskClient, text: str
) -> None:
    odd = text + "x-free: 1\nremark: {a: 1}\n"
    warnings = client.post("/api/catalog", json={"content": odd}).json["warnings"]
    found = {(warning["source"], warning["code"], warning["path"]) for warning in warnings}
    assert ("playbook", "NOETL250", "remark") in found
    assert not any("x-free" in warning["path"] for warning in warnings)

    assert client.get("/api/catalog/examples/doubling").json["warnings"] == warnings
    for body in ({"playbook": odd}, {"path": "examples/doubling"}):
        answer = client.post("/api/executions", json=body)
        assert (answer.status_code, answer.json["warnings"]) == (202, warnings)
    assert client.post("/api/workflows/run", json={"path": "examples/doubling"}).json["warnings"] == warnings

    refused = client.post("/api/catalog", json={"content": odd, "strict": True})
    assert refused.status_code == 422
    assert "remark" in {problem["path"] for problem in refused.json["problems"]}


def test_an_invalid_playbook_is_not_started(client: FlaskClient) -> None:
    answer = client.post("/api/executions", json={"playbook": "workflow: 7"})
    assert answer.status_code == 422
    assert answer.json["problems"]


@pytest.mark.parametrize(
    "path", ["../../etc/passwd", "%2e%2e/%2e%2e/etc/passwd", "examples", "x" * 400, "examples/doublin%67s"]
)
def test_a_path_is_a_name_and_never_a_file(client: FlaskClient, path: str) -> None:
    answer = client.get(f"/api/catalog/{path}")
    assert answer.status_code == 404
    assert "root:" not in answer.text


def test_a_yaml_document_of_another_encoding_is_refused(client: FlaskClient, text: str) -> None:
    answer = client.post("/api/catalog", data=text.encode("utf-16"), content_type="application/yaml")
    assert answer.status_code == 400
    assert "not UTF-8" in answer.json["detail"]


def test_the_data_of_a_credential_is_sealed_and_never_shown(
    client: FlaskClient, sim: Simulation, vault: Vault
) -> None:
    body = {"name": "db/main", "type": "generic", "data": {"token": "s3cret-value"}}
    saved = client.post("/api/credentials", json=body)
    listed = client.get("/api/credentials")

    assert saved.status_code == 201
    assert (saved.json["name"], saved.json["type"]) == ("db/main", "generic")
    assert "s3cret" not in saved.text + listed.text
    assert listed.headers["Cache-Control"] == "no-store"
    with sim.rt.store.read() as tx:
        row = tx.credential("db/main")
    assert row is not None
    assert b"s3cret" not in row.data
    assert vault.decrypt(row.data) == {"token": "s3cret-value"}


def test_a_credential_is_deleted_once(client: FlaskClient) -> None:
    client.post("/api/credentials", json={"name": "db/main", "type": "generic", "data": {"a": 1}})
    assert client.delete("/api/credentials/db/main").status_code == 204
    assert client.delete("/api/credentials/db/main").status_code == 404


def test_credentials_of_a_path_and_for_all_are_kept_listed_and_deleted_by_themselves(
    client: FlaskClient,
) -> None:
    body = {"name": "db", "type": "generic", "data": {"a": 1}}
    assert client.post("/api/credentials", json=body).json["scope"] == "global"
    saved = client.post("/api/credentials", json={**body, "path": "/team/a"})
    assert (saved.status_code, saved.json["scope"], saved.json["place"]) == (201, "path", "team/a")
    assert len(client.get("/api/credentials").json["credentials"]) == 2

    assert client.delete("/api/credentials/db?path=team").status_code == 404
    assert client.delete("/api/credentials/db?path=team/a").status_code == 204
    assert [one["scope"] for one in client.get("/api/credentials").json["credentials"]] == ["global"]
    assert client.post("/api/credentials", json={**body, "execution": "12"}).status_code == 404
    assert client.post("/api/credentials", json={**body, "execution": "12", "path": "a"}).status_code == 400


@pytest.mark.parametrize(
    "change", [{"name": "a b"}, {"type": "postgress"}, {"data": {}}, {"data": "x"}, {"nam": "x"}, {"name": 7}]
)
def test_a_credential_that_cannot_be_kept_is_refused_without_its_data(
    client: FlaskClient, change: dict[str, object]
) -> None:
    body = {"name": "a", "type": "generic", "data": {"token": "s3cret-value"}, **change}
    answer = client.post("/api/credentials", json=body)
    assert answer.status_code == 400
    assert "s3cret" not in answer.text


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"content": 3}, "content: Input should be a valid string."),
        ({"content": ""}, "content: "),
        ({}, "content: Field required."),
        ({"contents": "x"}, "body: 'contents' is not known here. Did you mean 'content'?"),
    ],
)
def test_a_body_that_holds_no_text_is_refused_with_its_reason(
    client: FlaskClient, body: dict[str, object], said: str
) -> None:
    answer = client.post("/api/catalog", json=body)
    assert (answer.status_code, answer.mimetype) == (400, "application/problem+json")
    assert answer.json["detail"].startswith(said)
    assert not answer.json["detail"].endswith("?.")
