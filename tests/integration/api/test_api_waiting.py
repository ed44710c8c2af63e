"""Waiting for the end of an execution is one request."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation

from .watched import Watching

Started = Callable[..., str]
BODY = {"path": "examples/doubling"}


@pytest.mark.parametrize("where", ["/api/executions/{}/result", "/api/workflows/result/{}"])
def test_a_result_that_is_waited_for_comes_with_the_end(
    client: FlaskClient, sim: Simulation, watching: Watching, started: Started, where: str
) -> None:
    execution_id = started()
    watching.meanwhile = sim.settle
    answer = client.get(f"{where.format(execution_id)}?wait=50").json
    assert (answer["status"], answer["result"]) == ("completed", {"total": 4})


def test_after_so_many_seconds_the_answer_tells_what_is_so_then(
    client: FlaskClient, sim: Simulation, watching: Watching, started: Started
) -> None:
    execution_id = started(wait_for_go=True)
    sim.settle()
    watching.lets_time_pass = True
    answer = client.get(f"/api/executions/{execution_id}/result?wait=0.3").json
    assert (answer["status"], answer["result"], answer["error"]) == ("waiting", None, None)
    assert watching.granted == [0.3]
    assert client.get(f"/api/executions/{execution_id}/result?wait=50&until=idle").json["status"] == "waiting"
    assert watching.granted == [0.3], "it is idle already"


CALLER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: calling, path: examples/calling}
workflow:
  - step: start
    tool: {kind: playbook, path: examples/doubling, input: {wait_for_go: true}}
"""


def test_a_caller_is_idle_as_soon_as_those_that_it_called_are(
    client: FlaskClient, sim: Simulation, watching: Watching
) -> None:
    """Whose turns are not commits of its own: the caller hears of none here."""
    links = client.post("/api/executions", json={"playbook": CALLER}).json["links"]
    sim.settle()
    (child,) = client.get(links["children"]).json["executions"]
    client.patch(f"/api/executions/{child['execution_id']}/ctx", json={"other": 1})
    assert client.get(links["events"]).json["idle"] is False
    watching.meanwhile = sim.settle
    assert client.get(f"{links['result']}?wait=50&until=idle").json["status"] == "waiting"


def test_who_is_over_is_not_waited_for(client: FlaskClient, sim: Simulation, started: Started) -> None:
    execution_id = started()
    sim.settle()
    assert client.get(f"/api/executions/{execution_id}/result?wait=60").json["status"] == "completed"


@pytest.mark.parametrize(
    "query", ["wait=-1", "wait=61", "wait=soon", "wait=nan", "wait=inf", "wait=", "wait=1&until=ever"]
)
def test_what_cannot_be_waited_for_is_refused(client: FlaskClient, started: Started, query: str) -> None:
    execution_id = started()
    for part in ("result", "events"):
        answer = client.get(f"/api/executions/{execution_id}/{part}?{query}")
        assert answer.status_code == 400, (part, answer.json)
        assert ("until" if "until" in query else "wait") in answer.json["detail"]


def test_waiting_for_nobody_is_a_404_at_once(client: FlaskClient) -> None:
    assert client.get("/api/executions/1/result?wait=60").status_code == 404


@pytest.mark.parametrize("where", ["/api/executions", "/api/workflows/run"])
@pytest.mark.parametrize(
    "prefer", ["wait=50", "respond-async, wait=50", 'Wait="50"; x=1', "wait=999999999999"]
)
def test_a_start_that_prefers_to_wait_is_answered_with_the_result(
    client: FlaskClient, sim: Simulation, watching: Watching, where: str, prefer: str
) -> None:
    watching.meanwhile = sim.settle
    answer = client.post(where, json=BODY, headers={"Prefer": prefer})
    assert (answer.status_code, answer.json["status"], answer.json["result"]) == (
        200,
        "completed",
        {"total": 4},
    )
    assert answer.headers["Preference-Applied"] == ("wait=60" if "999" in prefer else "wait=50")
    assert answer.headers["Location"] == answer.json["links"]["self"]


def test_a_start_that_does_not_end_in_time_is_accepted(client: FlaskClient, watching: Watching) -> None:
    watching.lets_time_pass = True
    answer = client.post("/api/executions", json=BODY, headers={"Prefer": "wait=1"})
    assert (answer.status_code, answer.json["status"], "result" in answer.json) == (202, "pending", False)
    assert answer.headers["Preference-Applied"] == "wait=1"
    assert watching.granted == [1.0]
    assert answer.headers["Location"] == answer.json["links"]["self"]


@pytest.mark.parametrize(
    "prefer", ["", "wait", "wait=0", "wait=-1", "wait=1.5", "wait=soon", "return=minimal", ",;="]
)
def test_preferences_that_are_not_understood_do_not_count(client: FlaskClient, prefer: str) -> None:
    answer = client.post("/api/executions", json=BODY, headers={"Prefer": prefer})
    assert (answer.status_code, "Preference-Applied" in answer.headers) == (202, False)
