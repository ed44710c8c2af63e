"""Many executions are started by one request, and each item is answered by itself."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from flask.testing import FlaskClient

from noetl.errors import Unavailable
from noetl.testing import Simulation
from noetl.usecases.start import CHUNK, StartedExecution, StartRequest, start_all

BATCH = "/api/executions/batch"
PATH = "examples/doubling"


def send(client: FlaskClient, *items: dict[str, Any]) -> Any:
    answer = client.post(BATCH, json={"executions": list(items)})
    assert answer.status_code == 200, answer.json
    return answer.json


def test_each_item_of_a_batch_becomes_an_execution_in_its_place(client: FlaskClient, sim: Simulation) -> None:
    count = CHUNK + 1

    answer = send(client, *({"path": PATH, "payload": {"n": n}} for n in range(count)))
    sim.settle()

    assert (answer["accepted"], answer["refused"]) == (count, 0)
    ids = [item["execution_id"] for item in answer["executions"]]
    assert len(set(ids)) == count
    results = [client.get(item["links"]["result"]).json["result"] for item in answer["executions"]]
    assert results == [{"total": 2 * n} for n in range(count)]


def test_an_item_that_cannot_be_started_spoils_no_neighbour(client: FlaskClient) -> None:
    client.post("/api/executions", json={"path": PATH}, headers={"Idempotency-Key": "taken"})

    answer = send(
        client,
        {"path": PATH, "idempotency_key": "a"},
        {"path": PATH, "idempotency_key": "taken", "payload": {"n": 3}},
        {"path": "examples/doublin"},
        {"path": PATH, "version": 7},
        {"path": PATH, "payload": {"text": "x" * 1_100_000}},
        {"path": PATH, "idempotency_key": "b"},
    )

    assert [item["status"] for item in answer["executions"]] == [202, 409, 404, 404, 413, 202]
    assert (answer["accepted"], answer["refused"]) == (2, 4)
    problems = [item["problem"]["detail"] for item in answer["executions"][1:5]]
    assert "'taken' belongs to another request" in problems[0]
    assert "Did you mean 'examples/doubling'?" in problems[1]
    assert "has no version 7" in problems[2]
    assert "at most 1048576" in problems[3]
    assert len(client.get("/api/executions").json["executions"]) == 3


def test_a_batch_that_is_sent_again_is_the_same_executions(client: FlaskClient) -> None:
    items = [{"path": PATH, "idempotency_key": f"k{n}", "payload": {"n": n}} for n in range(5)]

    first, again = send(client, *items), send(client, *reversed(items))

    assert [one["execution_id"] for one in again["executions"]] == [
        one["execution_id"] for one in reversed(first["executions"])
    ]
    assert len(client.get("/api/executions").json["executions"]) == 5


def test_of_two_items_with_one_key_the_first_is_started_and_the_other_is_it_or_a_conflict(
    client: FlaskClient,
) -> None:
    answer = send(
        client,
        {"path": PATH, "idempotency_key": "k"},
        {"path": PATH, "idempotency_key": "k"},
        {"path": PATH, "idempotency_key": "k", "payload": {"n": 1}},
    )

    first, same, other = answer["executions"]
    assert first["execution_id"] == same["execution_id"]
    assert other["status"] == 409


def test_a_key_of_an_item_that_was_refused_stays_free(client: FlaskClient) -> None:
    send(client, {"path": "no/where", "idempotency_key": "k"})

    assert send(client, {"path": PATH, "idempotency_key": "k"})["accepted"] == 1


def test_a_batch_may_have_1000_items_and_16_mib(client: FlaskClient) -> None:
    half = {"path": PATH, "payload": {"text": "x" * 500_000}}

    assert client.post(BATCH, json={"executions": [half] * 30}).json["accepted"] == 30
    assert client.post(BATCH, json={"executions": [half] * 40}).status_code == 413
    too_many = client.post(BATCH, json={"executions": [{"path": PATH}] * 1001})
    assert too_many.status_code == 400
    assert "1000" in too_many.json["detail"]
    one_mib = json.dumps({"content": "x" * 1_100_000})
    assert client.post("/api/catalog", data=one_mib, content_type="application/json").status_code == 413


def test_anything_but_a_batch_is_refused_as_a_whole_and_names_the_item(client: FlaskClient) -> None:
    answer = client.post(BATCH, json={"executions": [{"path": PATH}, {"paht": PATH}]})

    assert answer.status_code == 400
    assert "executions.1" in answer.json["detail"]
    assert "Did you mean 'path'?" in answer.json["detail"]
    assert client.post(BATCH, json={"executions": []}).status_code == 400
    assert client.get("/api/executions").json["executions"] == []


def test_where_the_store_fails_on_the_way_what_was_committed_stays_acknowledged(
    client: FlaskClient, sim: Simulation, monkeypatch: Any
) -> None:
    begin, begun = sim.rt.store.begin, []

    def failing() -> Any:
        begun.append(1)
        if len(begun) > 1:
            raise Unavailable("The database does not answer.")
        return begin()

    monkeypatch.setattr(sim.rt.store, "begin", failing)

    answers = start_all(sim.rt, [StartRequest(PATH) for _ in range(3 * CHUNK)])

    assert [isinstance(answer, Unavailable) for answer in answers] == [False] * CHUNK + [True] * 2 * CHUNK
    assert client.post(BATCH, json={"executions": [{"path": PATH}]}).status_code == 503


def test_an_id_that_somebody_else_drew_in_the_same_millisecond_is_drawn_again(
    sim: Simulation, monkeypatch: Any
) -> None:
    drawn = iter([7, 8, 7, 9, 10])
    monkeypatch.setattr(sim, "rt", replace(sim.rt, entropy=lambda: next(drawn)))

    answers = start_all(sim.rt, [StartRequest(PATH)]) + start_all(sim.rt, [StartRequest(PATH)] * 2)

    assert len({one.execution_id for one in answers if isinstance(one, StartedExecution)}) == 3
