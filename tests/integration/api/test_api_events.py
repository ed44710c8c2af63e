"""Events are read in pages, or as they come."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.api.answers import EventPage
from noetl.api.events import Pace, stream
from noetl.api.services import MAX_STREAMS
from noetl.store.envelope import from_json
from noetl.testing import Simulation

Started = Callable[..., str]
STREAM = {"Accept": "text/event-stream"}


def frames(text: str) -> list[dict[str, Any]]:
    """Server-sent events: {id?, event, data}; comments and `retry` left out."""
    found = []
    for block in text.split("\n\n"):
        fields = dict(line.split(": ", 1) for line in block.splitlines() if not line.startswith(":"))
        if "event" in fields:
            found.append({**fields, "data": json.loads(fields["data"])})
    return found


def test_pages_hold_every_event_once_and_in_order(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started()
    sim.settle()
    where, after, seen = f"/api/executions/{execution_id}/events", 0, []
    while after is not None:
        page = client.get(f"{where}?after={after}&limit=3").json
        EventPage.model_validate(page)
        seen += page["events"]
        after = page["next"]

    assert [one["version"] for one in seen] == list(range(1, len(sim.events(execution_id)) + 1))
    assert [one["type"] for one in seen] == sim.types(execution_id)


def test_an_event_carries_its_whole_envelope(client: FlaskClient, sim: Simulation, started: Started) -> None:
    execution_id = started()
    sim.settle()
    (event,) = client.get(f"/api/executions/{execution_id}/events?type=task.done&limit=1").json["events"]

    assert event["event_id"] == f"{execution_id}.{event['version']}"
    assert (event["step"], event["step_run_id"], event["source"]) == ("start", "start#1", "worker")
    assert (event["status"], event["schema"]) == ("completed", 1)
    assert event["payload"]["result"] == {"double": 4}
    assert event["recorded_at"] == "2026-01-01T00:00:00+00:00"


def test_what_a_page_shows_can_be_read_back(client: FlaskClient, sim: Simulation, started: Started) -> None:
    execution_id = started()
    sim.settle()
    page = client.get(f"/api/executions/{execution_id}/events").json
    assert [from_json(one) for one in page["events"]] == sim.events(execution_id)


def test_types_are_filtered_under_any_of_their_names(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started()
    sim.settle()

    def types(query: str) -> set[str]:
        page = client.get(f"/api/executions/{execution_id}/events?{query}").json
        return {one["type"] for one in page["events"]}

    assert types("type=step.done") == {"step.done"}
    assert types("type=step.exit,call.done") == {"step.done", "task.done"}
    assert types("type=step.done&type=workflow.started") == {"step.done", "workflow.started"}


def test_an_unknown_type_is_answered_with_the_nearest(client: FlaskClient, started: Started) -> None:
    answer = client.get(f"/api/executions/{started()}/events?type=step.don")
    assert answer.status_code == 400
    assert "Did you mean 'step.done'?" in answer.json["detail"]


def test_a_stream_tells_everything_and_ends_with_the_execution(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started()
    sim.settle()
    answer = client.get(f"/api/executions/{execution_id}/events", headers=STREAM)

    told = frames(answer.text)
    assert answer.mimetype == "text/event-stream"
    assert [one["event"] for one in told] == [*sim.types(execution_id), "end"]
    assert [one["id"] for one in told[:-1]] == [str(one["data"]["version"]) for one in told[:-1]]
    assert told[-1]["data"] == {"execution_id": execution_id, "status": "completed"}


def test_a_stream_goes_on_behind_the_last_event_that_was_seen(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started()
    sim.settle()
    headers = {**STREAM, "Last-Event-ID": "3"}
    told = frames(client.get(f"/api/executions/{execution_id}/events?after=1", headers=headers).text)
    assert told[0]["id"] == "4"


def test_a_stream_that_has_nothing_more_tells_the_browser_to_stay_away(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started()
    sim.settle()
    headers = {**STREAM, "Last-Event-ID": str(len(sim.events(execution_id)))}
    assert client.get(f"/api/executions/{execution_id}/events", headers=headers).status_code == 204


def test_a_stream_of_an_unknown_execution_is_a_plain_404(client: FlaskClient) -> None:
    answer = client.get("/api/executions/1/events", headers=STREAM)
    assert answer.status_code == 404
    assert answer.mimetype == "application/problem+json"


def test_a_stream_waits_ever_longer_and_tells_news_at_once(sim: Simulation) -> None:
    """Time belongs to the test: while the stream sleeps, the execution moves on."""
    execution_id = sim.start()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 6:
            sim.settle()

    told = frames("".join(stream(sim.rt, execution_id, 0, sleep=sleep)))

    assert [one["event"] for one in told] == [*sim.types(execution_id), "end"]
    assert slept == pytest.approx([0.2, 0.3, 0.45, 0.675, 1.0, 1.0])


def test_a_silent_stream_shows_that_it_lives(sim: Simulation) -> None:
    execution_id = sim.start()
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 5:
            sim.settle()

    text = "".join(stream(sim.rt, execution_id, 1, pace=Pace(1, 1, 1, heartbeat=2), sleep=sleep))
    assert text.startswith(": waiting\n\n: waiting\n\nid: 2\n")


def test_a_stream_breaks_off_politely_when_the_store_goes_away(sim: Simulation) -> None:
    execution_id = sim.start()
    told = stream(sim.rt, "9", 0)
    assert list(told) == [": the store does not answer; connect again\n\n"]
    assert next(stream(sim.rt, execution_id, 0)).startswith("id: 1\n")


def test_streams_leave_room_for_other_requests(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started()
    where = f"/api/executions/{execution_id}/events"
    opened = [client.get(where, headers=STREAM, buffered=False) for _ in range(MAX_STREAMS)]
    refused = client.get(where, headers=STREAM)
    assert (refused.status_code, client.get(where).status_code) == (503, 200)

    sim.settle()
    for answer in opened:
        answer.close()
    assert frames(client.get(where, headers=STREAM).text)[-1]["event"] == "end"


def test_a_page_says_whether_anything_happens_by_itself(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    """The status is that of the last turn: between a patch and the next turn it alone would mislead."""
    execution_id = started(wait_for_go=True)
    where = f"/api/executions/{execution_id}/events"

    def stands() -> tuple[str, bool]:
        page = client.get(where).json
        return page["status"], page["idle"]

    assert stands() == ("pending", False)
    sim.settle()
    assert stands() == ("waiting", True)
    client.patch(f"/api/executions/{execution_id}/ctx", json={"go": True})
    assert stands() == ("waiting", False)
    sim.settle()
    assert stands() == ("completed", True)


def test_an_execution_waits_at_no_version_in_the_middle_of_a_turn(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    execution_id = started(wait_for_go=True)
    sim.settle()
    asked = len(sim.events(execution_id))
    client.patch(f"/api/executions/{execution_id}/ctx", json={"go": True})
    sim.settle()
    said = {
        version: client.get(f"/api/executions/{execution_id}/state?version={version}").json["status"]
        for version in range(1, len(sim.events(execution_id)) + 1)
    }
    assert [version for version, status in said.items() if status == "waiting"] == [asked]
    assert said[asked + 1] == "running"
