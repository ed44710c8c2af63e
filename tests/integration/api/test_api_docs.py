"""`/api/docs` shows the OpenAPI document without anything from elsewhere."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient
from jsonschema import Draft202012Validator
from referencing import Registry
from referencing.jsonschema import DRAFT202012

from noetl.facts.callbacks import TaskAddress, make_token
from noetl.testing import Simulation


def test_the_page_loads_only_files_of_this_server_and_runs_no_inline_script(client: FlaskClient) -> None:
    page = client.get("/api/docs")

    assert page.status_code == 200
    policy = page.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    files = re.findall(r'(?:src|href)="([^"]+)"', page.text)
    files.remove("/")
    assert len(files) == 5
    for file in files:
        assert file.startswith("/api/")
        assert client.get(file).status_code == 200, file
    assert re.findall(r"<script(?! src=)|<style| style=| on\w+=", page.text) == []


def test_the_script_of_the_page_names_the_document(client: FlaskClient) -> None:
    script = client.get("/api/docs/docs.js")

    assert script.mimetype == "text/javascript"
    assert '"/api/openapi.json"' in script.text


@pytest.fixture
def document(client: FlaskClient) -> dict[str, Any]:
    found: dict[str, Any] = client.get("/api/openapi.json").json
    return found


def test_the_page_leads_back_and_is_dark_where_others_are(client: FlaskClient) -> None:
    assert '<a href="/">' in client.get("/api/docs").text
    style = client.get("/api/docs/docs.css")
    assert (style.status_code, style.mimetype) == (200, "text/css")
    assert "prefers-color-scheme: dark" in style.text


def bodies(document: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Where a body of a request or of a good answer is described, and its description with a schema
    and an example."""
    for path, operations in document["paths"].items():
        for method, operation in operations.items():
            described = [("sent", operation.get("requestBody", {}))]
            good = max(status for status in operation["responses"] if status.startswith("2"))
            described.append((good, operation["responses"][good]))
            for part, body in described:
                for media_type, content in body.get("content", {}).items():
                    yield f"{method} {path} {part} {media_type}", content


def test_every_body_of_the_document_has_an_example_that_its_schema_admits(
    document: dict[str, Any], subtests: pytest.Subtests
) -> None:
    where = "http://document"
    registry = Registry().with_resource(where, DRAFT202012.create_resource(document))
    seen = 0
    for name, content in bodies(document):
        # Graphs and files have one form that is shown, and others.
        if "example" not in content and not name.endswith("application/json"):
            continue
        if name == "get /api/executions/{execution_id}/graph 200 application/json":
            continue
        with subtests.test(name):
            schema = json.loads(json.dumps(content["schema"]).replace('"#/', f'"{where}#/'))
            Draft202012Validator(schema, registry=registry).validate(content["example"])
            seen += 1
    assert seen > 35


def ended(client: FlaskClient, sim: Simulation) -> str:
    """An execution of the example that has ended: only such a one is retried."""
    started = client.post("/api/executions", json={"path": "examples/double"})
    sim.settle()
    return str(started.get_json()["execution_id"])


#: What waits for the signal that examples send.
WAITING = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: waiting, path: examples/waiting}
workflow:
  - step: start
    tool: {kind: wait, signal: approved}
"""


#: What asks for the approval that examples give.
APPROVING = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: approving, path: examples/approving}
workflow:
  - step: sign
    tool: {kind: wait, approval: {form: {amount: number}}}
"""


def begun(client: FlaskClient, sim: Simulation) -> str:
    """An operation that has not ended: only such a one is cancelled."""
    ended(client, sim)
    asked = client.post("/api/operations", json={"where": "status = 'completed'"})
    return str(asked.get_json()["operation_id"])


def choose(client: FlaskClient, sim: Simulation, path: str, execution_id: str) -> str:
    """The execution that a request is sent to: one that waits, if it may go on doing so."""
    if path.endswith("/retry"):
        return ended(client, sim)
    if path.endswith(("/signals/{name}", "/callbacks/{token}")):
        waiting = client.post("/api/executions", json={"playbook": WAITING})
        sim.settle()
        return str(waiting.get_json()["execution_id"])
    if path.endswith("/approvals"):
        asked = client.post("/api/executions", json={"playbook": APPROVING})
        sim.settle()
        return str(asked.get_json()["execution_id"])
    if not path.endswith("/migrate"):
        return execution_id
    other = sim.start({"wait_for_go": True})
    sim.settle()
    return other


def test_what_the_document_says_may_be_sent_is_accepted(
    document: dict[str, Any], make: Callable[..., Flask], sim: Simulation, subtests: pytest.Subtests
) -> None:
    client = make().test_client()
    execution_id = sim.start({"wait_for_go": True})
    sim.settle()
    todo = [(path, method, op) for path, ops in document["paths"].items() for method, op in ops.items()]
    for path, method, operation in sorted(
        todo, key=lambda one: (one[0] != "/api/catalog", "cancel" in one[0])
    ):
        for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
            with subtests.test(f"{method} {path} {media_type}"):
                chosen = choose(client, sim, path, execution_id)
                operation_id = begun(client, sim) if "{operation_id}" in path else ""
                token = make_token(TaskAddress(chosen, "start#1", None, "answer"), b"simulated")
                url = path.format(
                    execution_id=chosen,
                    operation_id=operation_id,
                    name="approved",
                    path="examples/double",
                    token=token,
                    key="reports",
                    queue="http",
                )
                example = content["example"]
                if path == "/api/operations":
                    # None has failed here, and an operation on nothing is refused.
                    ended(client, sim)
                    example = {**example, "where": "status = 'completed'"}
                data = example if isinstance(example, str) else json.dumps(example)
                answer = client.open(url, method=method.upper(), data=data, content_type=media_type)
                assert answer.status_code < 300, answer.text
                sim.settle()
