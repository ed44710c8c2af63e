"""Executions are started, seen and steered over REST."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from flask.testing import FlaskClient

from noetl.config import Settings
from noetl.testing import Simulation
from noetl.usecases import inspect

from .lending import Lend

Started = Callable[..., str]


def test_a_request_is_acknowledged_before_anything_runs(client: FlaskClient, sim: Simulation) -> None:
    answer = client.post("/api/executions", json={"path": "examples/doubling"})

    assert answer.status_code == 202
    assert answer.json["status"] == "pending"
    assert answer.headers["Location"] == answer.json["links"]["self"]
    assert client.get(answer.json["links"]["self"]).json["status"] == "pending"
    assert sim.tools.calls == []


def test_a_finished_execution_reports_result_ctx_and_steps(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started(n=21)
    sim.settle()

    report = client.get(f"/api/executions/{execution_id}").json

    assert report["status"] == "completed"
    assert report["result"] == {"total": 42}
    assert report["ctx"] == {"total": 42}
    assert report["steps"]["start"] == {"status": "done", "runs": 1, "result": {"double": 42}}
    assert report["events"] == len(sim.events(execution_id))
    assert report["ended_at"] is not None


CALLER = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: caller, path: examples/caller}
workflow:
  - step: start
    loop: {in: [1, 2], iterator: n}
    tool: {kind: playbook, path: examples/doubling, input: {n: "{{ iter.n }}"}}
"""


def test_callers_and_those_that_they_called_lead_to_one_another(client: FlaskClient, sim: Simulation) -> None:
    links = client.post("/api/executions", json={"playbook": CALLER}).json["links"]
    sim.settle()

    report = client.get(links["self"]).json
    called = client.get(links["children"]).json["executions"]

    assert report["parent_id"] is None
    assert [one["parent_id"] for one in called] == [report["execution_id"]] * 2
    assert [(one["iteration"], one["step"], one["path"], one["status"]) for one in report["children"]] == [
        (1, "start", "examples/doubling", "completed"),
        (0, "start", "examples/doubling", "completed"),
    ]
    assert [one["execution_id"] for one in report["children"]] == [one["execution_id"] for one in called]
    child = client.get(f"/api/executions/{called[0]['execution_id']}").json
    assert (child["parent_id"], child["children"]) == (report["execution_id"], [])
    status = client.get(f"/api/workflows/status/{called[0]['execution_id']}").json
    assert status["parent_id"] == report["execution_id"]


def test_those_that_an_execution_called_are_paged_and_filtered(client: FlaskClient, sim: Simulation) -> None:
    execution_id = client.post("/api/executions", json={"playbook": CALLER}).json["execution_id"]
    sim.settle()
    ids = [one["execution_id"] for one in client.get("/api/executions").json["executions"]]
    assert len(ids) == 3

    page = client.get(f"/api/executions?parent={execution_id}&limit=1").json
    rest = client.get(f"/api/executions?parent={execution_id}&before={page['next']}").json

    assert [one["execution_id"] for one in page["executions"] + rest["executions"]] == [
        one for one in ids if one != execution_id
    ]
    assert client.get(f"/api/executions?parent={execution_id}&status=failed").json["executions"] == []
    assert client.get("/api/executions?parent=x").status_code == 404
    assert client.get("/api/executions?parent=7").json["executions"] == []


def test_a_report_shows_the_newest_children_only(
    client: FlaskClient, sim: Simulation, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("noetl.usecases.inspect.SHOWN_CHILDREN", 1)
    links = client.post("/api/executions", json={"playbook": CALLER}).json["links"]
    sim.settle()
    assert [one["iteration"] for one in client.get(links["self"]).json["children"]] == [1]


def test_cancelling_a_caller_cancels_those_that_it_waits_for(client: FlaskClient, sim: Simulation) -> None:
    text = CALLER.replace('n: "{{ iter.n }}"', 'n: "{{ iter.n }}", wait_for_go: true')
    links = client.post("/api/executions", json={"playbook": text}).json["links"]
    sim.settle()
    (child,) = client.get(links["children"]).json["executions"]
    assert child["status"] == "waiting"

    assert client.post(links["self"] + "/cancel", json={"reason": "wrong day"}).status_code == 202
    sim.settle()

    (child,) = client.get(links["children"]).json["executions"]
    assert (client.get(links["self"]).json["status"], child["status"]) == ("cancelled", "cancelled")


def test_a_caller_is_idle_while_its_child_is_and_not_before_it_has_heard_of_its_end(
    client: FlaskClient, sim: Simulation
) -> None:
    text = (
        CALLER.replace("in: [1, 2]", "in: [1]")
        .replace("{{ iter.n }}", "1")
        .replace('"1"}', "1, wait_for_go: true}")
    )
    links = client.post("/api/executions", json={"playbook": text}).json["links"]
    idle = []
    while sim.mailbox.messages:
        sim.deliver()
        idle.append(client.get(links["events"]).json["idle"])
    assert idle == [False] * (len(idle) - 1) + [True]

    (child,) = client.get(links["children"]).json["executions"]
    client.patch(f"/api/executions/{child['execution_id']}/ctx", json={"go": True})
    while client.get(f"/api/executions/{child['execution_id']}").json["status"] != "completed":
        sim.deliver()
    assert client.get(links["self"]).json["status"] == "running"
    assert client.get(links["events"]).json["idle"] is False
    assert inspect.has_to_notify(sim.rt, child["execution_id"])
    sim.settle()
    assert client.get(links["events"]).json["idle"] is True
    assert not inspect.has_to_notify(sim.rt, child["execution_id"])


def test_overrides_win_over_the_payload(client: FlaskClient, sim: Simulation) -> None:
    body = {"path": "examples/doubling", "payload": {"n": 3}, "overrides": {"n": 5}}
    execution_id = client.post("/api/executions", json=body).json["execution_id"]
    sim.settle()
    assert client.get(f"/api/executions/{execution_id}/result").json["result"] == {"total": 10}


def test_the_text_of_a_playbook_is_registered_and_started(
    client: FlaskClient, sim: Simulation, text: str
) -> None:
    inline = text.replace("examples/doubling", "inline/doubling")
    answer = client.post("/api/executions", json={"playbook": inline, "payload": {"n": 4}})
    sim.settle()

    assert answer.status_code == 202
    report = client.get(answer.json["links"]["self"]).json
    assert (report["path"], report["version"], report["result"]) == ("inline/doubling", 1, {"total": 8})


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({}, "give either `path` or `playbook`"),
        ({"path": "a", "playbook": "b"}, "give either `path` or `playbook`"),
        ({"playbook": "kind: Playbook", "version": 1}, "`version` belongs to `path`"),
        (
            {"path": "examples/doubling", "payloads": {}},
            "'payloads' is not known here. Did you mean 'payload'?",
        ),
        ({"path": "examples/doubling", "approved": True}, "'approved' is not known here. Known are "),
        ({"path": "examples/doubling", "payload": [1]}, "payload: "),
        ({"path": "examples/doubling", "version": "1"}, "version: "),
        ({"path": "examples/doubling", "version": 0}, "version: "),
        ({"path": "examples/doubling", "version": 2**31}, "version: "),
        ({"path": ""}, "path: "),
    ],
)
def test_a_request_that_cannot_be_meant_is_refused_with_its_reason(
    client: FlaskClient, sim: Simulation, body: dict[str, object], said: str
) -> None:
    answer = client.post("/api/executions", json=body)
    assert answer.status_code == 400
    assert said in answer.json["detail"]
    assert client.get("/api/executions").json["executions"] == []


def test_an_unknown_playbook_is_answered_with_the_nearest_one(client: FlaskClient) -> None:
    answer = client.post("/api/executions", json={"path": "examples/dubling"})
    assert answer.status_code == 404
    assert "Did you mean 'examples/doubling'?" in answer.json["detail"]


def test_an_unknown_version_is_answered_with_those_there_are(client: FlaskClient) -> None:
    answer = client.post("/api/executions", json={"path": "examples/doubling", "version": 7})
    assert answer.status_code == 404
    assert "no version 7" in answer.json["detail"]


# --- idempotency ---------------------------------------------------------------------------------


def test_the_same_key_and_body_is_the_same_execution(client: FlaskClient) -> None:
    send = {"json": {"path": "examples/doubling"}, "headers": {"Idempotency-Key": "order-7"}}
    first, second = (client.post("/api/executions", **send) for _ in range(2))
    assert first.status_code == second.status_code == 202
    assert first.json["execution_id"] == second.json["execution_id"]
    assert len(client.get("/api/executions").json["executions"]) == 1


def test_the_same_key_with_another_body_is_a_conflict(client: FlaskClient) -> None:
    headers = {"Idempotency-Key": "order-7"}
    client.post("/api/executions", json={"path": "examples/doubling"}, headers=headers)
    answer = client.post(
        "/api/executions", json={"path": "examples/doubling", "payload": {"n": 1}}, headers=headers
    )
    assert answer.status_code == 409
    assert "order-7" in answer.json["detail"]


def test_a_playbook_that_comes_along_counts_by_its_text(client: FlaskClient) -> None:
    text = "metadata: {name: a, path: t/a}\nworkflow: [{step: start}]\n"
    other = text.replace("start", "end")
    headers = {"Idempotency-Key": "order-8"}
    first = client.post("/api/executions", json={"playbook": text}, headers=headers)
    client.post("/api/executions", json={"playbook": other})
    again = client.post("/api/executions", json={"playbook": text}, headers=headers)
    assert first.json["execution_id"] == again.json["execution_id"]
    assert client.post("/api/executions", json={"playbook": other}, headers=headers).status_code == 409


@pytest.mark.parametrize("key", ["", "x" * 256, "caf\xe9"])
def test_a_key_that_cannot_be_kept_is_refused(client: FlaskClient, key: str) -> None:
    answer = client.post(
        "/api/executions", json={"path": "examples/doubling"}, headers={"Idempotency-Key": key}
    )
    assert answer.status_code == 400
    assert "Idempotency-Key" in answer.json["detail"]


# --- lists ---------------------------------------------------------------------------------------


def test_executions_are_listed_newest_first_in_pages(client: FlaskClient, started: Started) -> None:
    ids = [started(n=number) for number in range(5)]

    first = client.get("/api/executions?limit=3").json
    rest = client.get(f"/api/executions?limit=3&before={first['next']}").json

    assert [one["execution_id"] for one in first["executions"] + rest["executions"]] == ids[::-1]
    assert rest["next"] is None


def test_executions_are_filtered_by_status_and_path(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    done = started()
    sim.settle()
    pending = started()

    def listed(query: str) -> list[str]:
        return [one["execution_id"] for one in client.get(f"/api/executions?{query}").json["executions"]]

    assert listed("status=completed") == [done]
    assert listed("status=pending") == [pending]
    assert listed("path=examples/doubling") == [pending, done]
    assert listed("path=examples/other") == []


# --- control -------------------------------------------------------------------------------------


def test_cancelling_ends_an_execution_and_twice_is_fine(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started(wait_for_go=True)
    sim.settle()
    for _ in range(2):
        answer = client.post(f"/api/executions/{execution_id}/cancel", json={"reason": "no longer wanted"})
        assert answer.status_code == 202
    sim.settle()

    assert client.get(f"/api/executions/{execution_id}").json["status"] == "cancelled"
    again = client.post(f"/api/executions/{execution_id}/cancel")
    assert again.status_code == 409
    assert "has ended (cancelled)" in again.json["detail"]


def test_a_paused_execution_goes_on_when_it_is_resumed(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started()
    assert client.post(f"/api/executions/{execution_id}/pause").status_code == 202
    sim.settle()
    assert client.get(f"/api/executions/{execution_id}").json["status"] == "paused"

    assert client.post(f"/api/executions/{execution_id}/resume").status_code == 202
    sim.settle()
    assert client.get(f"/api/executions/{execution_id}").json["status"] == "completed"


def test_what_is_not_paused_cannot_be_resumed(client: FlaskClient, started: Started) -> None:
    assert client.post(f"/api/executions/{started()}/resume").status_code == 409


def test_a_patch_of_ctx_lets_a_denied_step_run(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started(wait_for_go=True)
    sim.settle()
    assert client.get(f"/api/executions/{execution_id}").json["status"] == "waiting"

    answer = client.patch(f"/api/executions/{execution_id}/ctx", json={"go": True, "by.whom": "me"})
    sim.settle()

    assert answer.status_code == 200
    report = client.get(f"/api/executions/{execution_id}").json
    assert report["status"] == "completed"
    assert report["ctx"] == {"total": 4, "go": True, "by": {"whom": "me"}}


def test_a_patch_for_another_version_is_refused(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started(wait_for_go=True)
    sim.settle()
    etag = client.get(f"/api/executions/{execution_id}/state").headers["ETag"]
    where = f"/api/executions/{execution_id}/ctx"

    assert client.patch(where, json={"x": 1}, headers={"If-Match": etag}).status_code == 200
    late = client.patch(where, json={"x": 2}, headers={"If-Match": etag})

    assert late.status_code == 409
    assert late.json["expected"] == int(etag.strip('"'))
    assert late.json["actual"] == late.json["expected"] + 1


@pytest.mark.parametrize("body", [{}, {"": 1}, {"a..b": 1}])
def test_a_patch_that_assigns_no_name_is_refused(
    client: FlaskClient, started: Started, body: dict[str, object]
) -> None:
    assert client.patch(f"/api/executions/{started()}/ctx", json=body).status_code == 400


@pytest.mark.parametrize("version", ["abc", '"-1"', "1.5", "9" * 30])
def test_if_match_must_be_a_version(client: FlaskClient, started: Started, version: str) -> None:
    answer = client.patch(f"/api/executions/{started()}/ctx", json={"x": 1}, headers={"If-Match": version})
    assert answer.status_code == 400
    assert "If-Match" in answer.json["detail"]


# --- looking -------------------------------------------------------------------------------------


def test_the_state_of_any_version_can_be_seen(client: FlaskClient, sim: Simulation, started: Started) -> None:
    execution_id = started(wait_for_go=True)
    sim.settle()
    where = f"/api/executions/{execution_id}/state"

    now, before = client.get(where).json, client.get(f"{where}?version=1").json

    assert (now["status"], before["status"]) == ("waiting", "pending")
    assert (now["ctx"], before["ctx"]) == ({"total": 4}, {})
    assert now["inputs"]["wait_for_go"] is True, "what it was started with stands beside what came of it"
    assert [token["step"] for token in now["marking"]["tokens"]] == ["gate"]
    assert before["version"] == 1


def test_a_version_beyond_the_head_is_refused_with_the_bounds(client: FlaskClient, started: Started) -> None:
    answer = client.get(f"/api/executions/{started()}/state?version=99")
    assert answer.status_code == 400
    assert "versions 0 to 1" in answer.json["detail"]


@pytest.mark.parametrize(
    ("format", "media", "holds"),
    [
        ("mermaid", "text/vnd.mermaid", "flowchart"),
        ("dot", "text/vnd.graphviz", "digraph"),
        ("json", "application/json", '"gate"'),
    ],
)
def test_the_net_is_drawn(client: FlaskClient, started: Started, format: str, media: str, holds: str) -> None:
    answer = client.get(f"/api/executions/{started()}/graph?format={format}")
    assert answer.mimetype == media
    assert holds in answer.text


def test_variables_are_read_and_written_by_name(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started(wait_for_go=True)
    sim.settle()
    where = f"/api/vars/{execution_id}"

    assert client.put(f"{where}/a.b", json={"value": [1, None]}).status_code == 200
    assert client.get(where).json["vars"] == {"total": 4, "a": {"b": [1, None]}}
    assert client.get(f"{where}/a.b").json["value"] == [1, None]
    missing = client.get(f"{where}/totl")
    assert missing.status_code == 404
    assert "Did you mean 'total'?" in missing.json["detail"]
    assert client.put(f"{where}/a", json={}).status_code == 400


def test_large_results_are_references_until_they_are_asked_for(client: FlaskClient, sim: Simulation) -> None:
    text = "kind: Playbook\napiVersion: noetl.io/v2\nmetadata: {name: big, path: big}\nworkflow:\n"
    text += "  - step: start\n    tool: {kind: python, code: \"result = 'x' * 100000\"}\n"
    execution_id = client.post("/api/executions", json={"playbook": text}).json["execution_id"]
    sim.settle()
    where = f"/api/executions/{execution_id}"

    assert client.get(where).json["result"]["kind"] == "result_ref"
    assert client.get(f"{where}?resolve=true").json["result"] == "x" * 100_000
    assert client.get(f"{where}/result").json["result"] == "x" * 100_000


def test_the_result_of_a_running_execution_is_null(client: FlaskClient, started: Started) -> None:
    answer = client.get(f"/api/executions/{started()}/result")
    assert (answer.json["status"], answer.json["result"]) == ("pending", None)


def test_workflows_are_other_names_for_the_same(client: FlaskClient, sim: Simulation) -> None:
    answer = client.post("/api/workflows/run", json={"workflow": "examples/doubling", "input": {"n": 8}})
    sim.settle()

    execution_id = answer.json["execution_id"]
    assert answer.status_code == 202
    assert client.get(f"/api/workflows/status/{execution_id}").json["status"] == "completed"
    assert client.get(f"/api/workflows/result/{execution_id}").json["result"] == {"total": 16}
    assert client.post("/api/workflows/run", json={"path": "a", "workflow": "b"}).status_code == 400


def test_a_broker_that_is_away_does_not_lose_a_request(client: FlaskClient, sim: Simulation) -> None:
    sim.mailbox.away = True
    answer = client.post("/api/executions", json={"path": "examples/doubling"})
    assert answer.status_code == 202

    sim.mailbox.away = False
    sim.pass_time(60)
    sim.settle()
    assert client.get(answer.json["links"]["self"]).json["status"] == "completed"


def test_a_payload_key_that_nothing_reads_is_in_the_202_and_in_the_report(
    client: FlaskClient, sim: Simulation
) -> None:
    body = {"path": "examples/doubling", "payload": {"n": 3, "nn": 1}}
    for route in ("/api/executions", "/api/workflows/run"):
        answer = client.post(route, json=body)
        assert answer.status_code == 202
        (warning,) = [one for one in answer.json["warnings"] if one["source"] == "run"]
        assert (warning["source"], warning["place"]) == ("run", "payload.nn")
        sim.settle()
        report = client.get(answer.json["links"]["self"]).json
        assert report["warnings"] == answer.json["warnings"]
    assert [one["warnings_count"] for one in client.get("/api/executions").json["executions"]] == [1, 1]
    read = client.post("/api/executions", json={**body, "payload": {"wait_for_go": 1}}).json["warnings"]
    assert [one for one in read if one["source"] == "run"] == []


def test_overrides_of_what_the_playbook_does_not_know_are_refused_unless_they_are_added(
    client: FlaskClient, sim: Simulation
) -> None:
    body = {"path": "examples/doubling", "overrides": {"m": 3}}
    refused = client.post("/api/executions", json=body)
    assert refused.status_code == 400
    assert "has no 'm' to set" in refused.json["detail"]
    assert client.get("/api/executions").json["executions"] == []
    added = client.post("/api/executions", json={**body, "overrides": {"+m": 3, "n": 4}})
    sim.settle()
    assert client.get(added.json["links"]["self"]).json["result"] == {"total": 8}


def test_directories_are_taken_where_the_server_runs_for_this_machines_user_alone(
    sim: Simulation, lend: Lend
) -> None:
    body = {"path": "examples/doubling", "directories": ["/books"]}
    refused = lend(sim.rt, Settings()).test_client().post("/api/executions", json=body)
    own = lend(sim.rt, Settings(files="user")).test_client()
    taken = own.post("/api/executions", json=body)
    relative = own.post("/api/executions", json={**body, "directories": ["books"]})

    assert refused.status_code == 400
    assert "NOETL_FILE_ROOTS" in refused.json["detail"]
    assert relative.status_code == 400
    first = own.get(f"/api/executions/{taken.json['execution_id']}/events").json["events"][0]
    assert first["payload"]["directories"] == ["/books"]


IN_A_REGION = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: region, path: examples/region}
regions: {both: {steps: [start, then], on_cancel: other}}
workflow:
  - {step: start, tool: {kind: wait, signal: go}, next: then}
  - {step: then, tool: {kind: noop}}
  - {step: other, tool: {kind: noop, input: {why: "{{ args.reason }}"}}}
"""


def test_a_region_is_cancelled_over_rest(client: FlaskClient, sim: Simulation) -> None:
    client.post("/api/catalog", json={"content": IN_A_REGION})
    execution_id = client.post("/api/executions", json={"path": "examples/region"}).json["execution_id"]
    sim.settle()
    url = f"/api/executions/{execution_id}/cancel"

    assert client.post(url, json={"region": "bth"}).status_code == 404
    assert client.post(url, json={"region": "both", "step": "start"}).status_code == 400
    assert client.post(url, json={"region": "both", "reason": "no need"}).status_code == 202
    sim.settle()

    report = client.get(f"/api/executions/{execution_id}").json
    assert (report["status"], report["result"]["why"]) == ("completed", "no need")
    assert client.post(url, json={"region": "both"}).status_code == 409
