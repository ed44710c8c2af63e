"""Executions leave as files and enter elsewhere, over REST."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
import yaml
from flask.testing import FlaskClient

from noetl.api import specimens as routes
from noetl.config import Settings
from noetl.testing import Simulation

from .lending import Lend

Started = Callable[..., str]
LINES = "application/x-ndjson"

OTHER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: other, path: examples/doubling}
workflow: [{step: start, tool: {kind: noop}}]
"""


@pytest.fixture
def there() -> Simulation:
    """Another server, with another playbook under the same path."""
    return Simulation(OTHER)


@pytest.fixture
def other(there: Simulation, lend: Lend) -> FlaskClient:
    return lend(there.rt, Settings()).test_client()


@pytest.fixture
def exported(client: FlaskClient, sim: Simulation, started: Started) -> tuple[str, str]:
    """The id of an execution that waits, and its file."""
    run = started(n=21, wait_for_go=True)
    sim.settle()
    answer = client.get(f"/api/executions/{run}/export")
    assert (answer.status_code, answer.mimetype) == (200, LINES)
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{run}.noetl.jsonl"'
    return run, answer.text


def test_an_execution_is_looked_at_on_another_server(
    client: FlaskClient, other: FlaskClient, exported: tuple[str, str]
) -> None:
    run, file = exported
    first = other.post("/api/executions/import", data=file, content_type=LINES)
    assert first.status_code == 201, first.text
    assert first.headers["Location"] == first.json["links"]["self"] == f"/api/executions/{run}"
    assert {name: first.json[name] for name in ("status", "results", "left_out", "is_new")} == {
        "status": "waiting",
        "results": 0,
        "left_out": 0,
        "is_new": True,
    }
    for part in ("events", "state", "graph?format=json", "result"):
        assert (
            other.get(f"/api/executions/{run}/{part}").data
            == client.get(f"/api/executions/{run}/{part}").data
        )
    here, original = (one.get(f"/api/executions/{run}").json for one in (other, client))
    assert here.pop("imported_at") is not None
    assert original.pop("imported_at") is None
    # What the compiler warned of stands in the catalog, into which its playbook does not come.
    assert here | {"warnings": original["warnings"]} == original
    again = other.post("/api/executions/import", data=file, content_type=LINES)
    assert (again.status_code, again.json["is_new"]) == (201, False)
    assert len(other.get("/api/executions").json["executions"]) == 1


@pytest.mark.parametrize(
    ("method", "part", "body"),
    [
        ("POST", "/cancel", {}),
        ("POST", "/pause", {}),
        ("POST", "/resume", {}),
        ("PATCH", "/ctx", {"go": True}),
    ],
)
def test_nothing_changes_it(
    other: FlaskClient, there: Simulation, exported: tuple[str, str], method: str, part: str, body: object
) -> None:
    run, file = exported
    events = other.post("/api/executions/import", data=file, content_type=LINES).json["events"]
    refused = other.open(f"/api/executions/{run}{part}", method=method, json=body)
    assert refused.status_code == 409
    assert "it can be looked at, and not be changed" in refused.json["detail"]
    there.settle()
    assert other.get(f"/api/executions/{run}").json["events"] == events


def test_who_waits_for_it_is_answered_at_once(other: FlaskClient, exported: tuple[str, str]) -> None:
    run, file = exported
    other.post("/api/executions/import", data=file, content_type=LINES)
    assert other.get(f"/api/executions/{run}/result?wait=60").json["status"] == "waiting"
    assert other.get(f"/api/executions/{run}/events?after=1000&wait=60").json["idle"] is True
    stream = other.get(f"/api/executions/{run}/events", headers={"Accept": "text/event-stream"}).text
    assert stream.rstrip().endswith(f'event: end\ndata: {{"execution_id": "{run}", "status": "waiting"}}')


def test_files_that_are_none_are_answered(
    other: FlaskClient, exported: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, file = exported
    lines = file.splitlines(keepends=True)

    def post(data: str | bytes, content_type: str = LINES) -> tuple[int, str]:
        answer = other.post("/api/executions/import", data=data, content_type=content_type)
        return answer.status_code, answer.json["detail"]

    event = json.loads(lines[6])
    event["event"]["payload"]["x"] = 1
    tampered = [*lines[:6], json.dumps(event) + "\n", *lines[7:]]
    status, detail = post("".join(tampered))
    assert (status, detail.partition(" is not")[0]) == (400, f"Line 7 (event 4, {event['event']['type']})")
    assert post("".join(lines[:-1]))[0] == 400
    assert post(b"\xff\xfe")[0] == 400
    assert post("")[0] == 400
    assert post(file, "application/yaml") == (
        415,
        "The body must be application/x-ndjson in UTF-8, not 'application/yaml'.",
    )
    monkeypatch.setattr(routes, "MAX_FILE", 1000)
    assert post(file)[0] == 413
    assert other.get("/api/executions/42/export").status_code == 404
    assert other.get("/api/executions").json["executions"] == []


def test_a_file_may_be_larger_than_other_bodies(
    client: FlaskClient, other: FlaskClient, sim: Simulation, started: Started
) -> None:
    run = started(text=["é" * 100] * 1000, n=1, wait_for_go=True)
    for number in range(8):
        client.patch(f"/api/executions/{run}/ctx", json={f"x{number}": "y" * 200_000})
    sim.settle()
    file = client.get(f"/api/executions/{run}/export").data
    assert len(file) > 1024 * 1024
    answer = other.post("/api/executions/import", data=file, content_type=LINES)
    assert answer.status_code == 201, answer.text
    assert answer.json["results"] > 0
    shown = [one.get(f"/api/vars/{run}/x3").json for one in (client, other)]
    assert shown[0] == shown[1]


def test_its_page_says_what_it_is(there: Simulation, other: FlaskClient, exported: tuple[str, str]) -> None:
    run, file = exported
    other.post("/api/executions/import", data=file, content_type=LINES)
    page = other.get(f"/executions/{run}")
    assert page.status_code == 200
    assert "imported on 2026-" in page.text
    own = there.start()
    assert "imported on" not in other.get(f"/executions/{own}").text


def test_a_test_is_made_of_an_execution(client: FlaskClient, sim: Simulation, started: Started) -> None:
    run = started(n=21)
    refused = client.get(f"/api/executions/{run}/fixture")
    assert (refused.status_code, refused.json["detail"]) == (
        400,
        f"Execution {run} is pending: a test is made of one that ended or waits, by itself.",
    )
    sim.settle()
    answer = client.get(f"/api/executions/{run}/fixture")
    assert (answer.status_code, answer.mimetype) == (200, "application/yaml")
    assert answer.headers["Content-Disposition"] == f'attachment; filename="{run}.test.yaml"'
    (test,) = yaml.safe_load(answer.text)["tests"]
    assert test["stand_ins"] == {"start": {"recorded": {"double": 42}}}
    assert test["expect"] == {
        "status": "completed",
        "path": ["start", "gate"],
        "result": {"total": 42},
        "ctx": {"total": 42},
    }
    assert client.get("/api/executions/42/fixture").status_code == 404
