"""A start takes the playbook itself: as YAML, or as a text in JSON."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation

from .conftest import Asking

PATH = "texts/sent"
TEXT = f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: sent, path: {PATH}}}
workload: {{n: 2}}
workflow:
  - {{step: start, tool: {{kind: noop, input: {{n: "{{{{ n }}}}"}}}}}}
"""
STARTS = ("/api/executions", "/api/workflows/run", "/workflows/run")
RUNS = STARTS[1:]


def path_of(client: FlaskClient, answer: Any) -> tuple[str, int]:
    """What an accepted start runs."""
    assert answer.status_code == 202, answer.text
    shown = client.get(answer.json["links"]["self"]).json
    return shown["path"], shown["version"]


@pytest.mark.parametrize("url", STARTS)
@pytest.mark.parametrize("sent_as", ["application/yaml", "application/x-yaml", "text/yaml; charset=utf-8"])
def test_yaml_is_registered_and_started(client: FlaskClient, sim: Simulation, url: str, sent_as: str) -> None:
    answer = client.post(url, data="\ufeff" + TEXT, content_type=sent_as)

    assert path_of(client, answer) == (PATH, 1)
    assert client.get(f"/api/catalog/{PATH}").json["content"] == TEXT
    sim.settle()
    assert client.get(answer.json["links"]["result"]).json["result"] == {"n": 2}


@pytest.mark.parametrize("url", RUNS)
@pytest.mark.parametrize("word", ["workflow", "playbook", "content"])
def test_a_workflow_is_a_text_or_the_path_of_one(client: FlaskClient, url: str, word: str) -> None:
    as_text = client.post(url, json={word: TEXT, "input": {"n": 3}})
    as_path = client.post(url, json={word: PATH, "payload": {"n": 3}})

    assert path_of(client, as_text) == path_of(client, as_path) == (PATH, 1)


def test_json_is_yaml_in_one_line(client: FlaskClient) -> None:
    text = (
        '{"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"path": "texts/line"}, '
        '"workflow": [{"step": "start"}]}'
    )
    assert path_of(client, client.post("/workflows/run", json={"workflow": text})) == ("texts/line", 1)


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"workflow": "kind: Playbook\nworkflow: 7"}, 422, "workflow"),
        ({"workflow": "texts/none"}, 404, "no playbook 'texts/none'"),
        ({"workflow": TEXT, "playbook": TEXT}, 400, "one of `path`, `workflow`, `playbook` and `content`"),
        ({}, 400, "one of `path`, `workflow`, `playbook` and `content`"),
        ({"workflow": TEXT, "version": 1}, 400, "`version` belongs to `path`"),
        ({"workflo": TEXT}, 400, "'workflo' is not known here. Did you mean 'workflow'?"),
    ],
)
def test_what_names_no_one_playbook_is_refused(
    client: FlaskClient, body: dict[str, Any], status: int, said: str
) -> None:
    answer = client.post("/api/workflows/run", json=body)
    assert answer.status_code == status
    assert said in answer.text
    assert client.get("/api/executions").json["executions"] == []


@pytest.mark.parametrize("url", STARTS)
def test_an_empty_body_of_yaml_is_refused_with_its_reason(client: FlaskClient, url: str) -> None:
    answer = client.post(url, data="", content_type="application/yaml")
    assert (answer.status_code, answer.mimetype) == (400, "application/problem+json")


@pytest.mark.parametrize("url", STARTS)
def test_yaml_that_is_sent_again_under_its_key_is_the_same_execution(client: FlaskClient, url: str) -> None:
    def send(text: str) -> Any:
        key = {"Idempotency-Key": "order-7"}
        return client.post(url, data=text, content_type="application/yaml", headers=key)

    first, second = send(TEXT), send(TEXT)
    assert first.json["execution_id"] == second.json["execution_id"]
    assert (first.json["existing"], second.json["existing"]) == (False, True)
    assert send(TEXT.replace("n: 2", "n: 3")).status_code == 409


@pytest.mark.parametrize("url", STARTS)
def test_who_may_only_run_what_is_registered_sends_no_playbook(ask_as: Asking, url: str) -> None:
    runner, operator = ask_as("run"), ask_as("operate:texts/*", "read")
    assert runner.post(url, data=TEXT, content_type="application/yaml").status_code == 403
    assert runner.get(f"/api/catalog/{PATH}").status_code == 404
    assert operator.post(url, data=TEXT, content_type="application/yaml").status_code == 202


def test_the_other_names_are_there_without_api_too(client: FlaskClient, sim: Simulation) -> None:
    started = client.post("/workflows/run", json={"workflow": TEXT, "key": "a/b"}).json
    sim.settle()

    assert client.get(f"/workflows/status/{started['execution_id']}").json["status"] == "completed"
    assert client.get("/workflows/result/a%2Fb").json["result"] == {"n": 2}
    assert client.get("/workflows/rum").json["nearest"] == "/api/workflows/run"
