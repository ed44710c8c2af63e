"""Events are read in pages, or as they come."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.api.answers import EventPage
from noetl.api.streams import serve_frames, stream
from noetl.store.envelope import from_json
from noetl.testing import Simulation

from .watched import Watching

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
    assert types("type=step.finished&type=action_completed") == {"step.done", "task.done"}
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


def test_a_stream_tells_news_as_they_are_committed(sim: Simulation, watching: Watching) -> None:
    """Nobody looks at intervals here: without the commit the stream would wait for its
    heartbeat."""
    execution_id = sim.start()
    watching.meanwhile = sim.settle
    told = frames("".join(stream(sim.rt, execution_id, 0, heartbeat_s=3600)))
    assert [one["event"] for one in told] == [*sim.types(execution_id), "end"]


def test_a_stream_of_some_types_does_not_read_the_others_again(sim: Simulation) -> None:
    execution_id = sim.start()
    sim.settle()
    told = frames("".join(stream(sim.rt, execution_id, 0, ("step.done",))))
    assert [one["event"] for one in told] == ["step.done", "step.done", "end"]


def test_a_silent_stream_shows_that_it_lives(sim: Simulation) -> None:
    execution_id = sim.start()
    text = stream(sim.rt, execution_id, 1, heartbeat_s=0.01)
    assert [next(text), next(text)] == [": waiting\n\n"] * 2
    sim.settle()
    assert next(text).startswith("id: 2\n")
    text.close()


def test_a_stream_breaks_off_politely_when_the_store_goes_away(sim: Simulation) -> None:
    execution_id = sim.start()
    frames = serve_frames(stream(sim.rt, "9", 0), "9")
    assert list(frames) == [": connected\n\n", ": the store does not answer; connect again\n\n"]
    assert next(stream(sim.rt, execution_id, 0)).startswith("id: 1\n")


def test_streams_and_long_polls_have_places_of_their_own(
    make: Callable[..., Flask], sim: Simulation, started: Started
) -> None:
    execution_id = started()
    where = f"/api/executions/{execution_id}"
    client = make(server_streams=2).test_client()
    opened = [client.get(f"{where}/events", headers=STREAM, buffered=False) for _ in range(2)]
    for refused in (
        client.get(f"{where}/events", headers=STREAM),
        client.get(f"{where}/events?after=1&wait=9"),
        client.get(f"{where}/result?wait=9"),
    ):
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert "All 2 places" in refused.json["detail"]
    assert client.get(f"{where}/events").status_code == 200
    begun = client.post("/api/executions", json={"path": "examples/doubling"}, headers={"Prefer": "wait=9"})
    assert (begun.status_code, "Preference-Applied" in begun.headers) == (202, False)

    sim.settle()
    for answer in opened:
        answer.close()
    assert frames(client.get(f"{where}/events", headers=STREAM).text)[-1]["event"] == "end"


# --- pages that wait -----------------------------------------------------------------------------


def test_a_page_that_waits_comes_with_the_next_event(
    client: FlaskClient, sim: Simulation, watching: Watching, started: Started
) -> None:
    execution_id = started()
    watching.meanwhile = sim.settle
    page = client.get(f"/api/executions/{execution_id}/events?after=1&wait=50").json
    assert page["events"][0]["version"] == 2


@pytest.mark.parametrize("until", ["end", "idle"])
def test_a_page_waits_for_an_idle_execution_unless_it_is_asked_about_that(
    client: FlaskClient, sim: Simulation, watching: Watching, started: Started, until: str
) -> None:
    execution_id = started(wait_for_go=True)
    sim.settle()
    watching.lets_time_pass = True
    head = len(sim.events(execution_id))
    page = client.get(f"/api/executions/{execution_id}/events?after={head}&wait=0.3&until={until}").json
    assert (page["events"], page["status"], page["idle"]) == ([], "waiting", True)
    assert watching.granted == ([0.3] if until == "end" else [])


def test_a_page_says_whether_anything_happens_by_itself(
    client: FlaskClient, sim: Simulation, started: Started
) -> None:
    """The status is that of the last turn: between a patch and the next turn it alone would
    mislead."""
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
