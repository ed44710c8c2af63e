"""Over HTTP: services call the addresses of tasks, with nothing but the address."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from flask import Flask
from flask.testing import FlaskClient

from noetl.api.called import hide_token
from noetl.facts.callbacks import TaskAddress, make_token
from noetl.testing import Simulation
from noetl.usecases import control

HERE = "/api/callbacks"
ASKS = """
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: asks, path: tests/asks}
workflow:
  - step: start
    tool:
      - post: {kind: http, url: "http://there", body: "{{ callback.answer.url }}"}
      - answer: {kind: wait, callback: {}}
"""


@pytest.fixture
def sim() -> Simulation:
    return Simulation(ASKS, {"http": lambda _: {"status_code": 202}})


@pytest.fixture
def run(sim: Simulation) -> str:
    """An execution that waits to be called."""
    run = sim.start()
    sim.settle()
    return run


@pytest.fixture
def token(run: str) -> str:
    """What its address ends with."""
    return make_token(TaskAddress(run, "start#1", None, "answer"), b"simulated")


def payload(sim: Simulation, run: str) -> Any:
    sim.settle()
    report = sim.report(run)
    assert report.row.status == "completed", report.row
    result: Any = report.result
    return result["payload"]


@pytest.mark.parametrize(
    ("content_type", "body", "expected"),
    [
        ("application/json", b'{"paid": [1, true, null]}', {"paid": [1, True, None]}),
        ("application/json", b" ", None),
        ("application/cloudevents+json", b"[1]", [1]),
        (
            "application/x-www-form-urlencoded",
            b"a=1&b=x+y%C3%A9&b=&c",
            {"a": "1", "b": ["x yé", ""], "c": ""},
        ),
        ("text/plain", "früh".encode(), "früh"),
        ("text/csv; charset=utf-8", b"a;b\n1;2\n", "a;b\n1;2\n"),
        (None, b"", None),
        (None, b"bare", "bare"),
    ],
)
def test_the_body_is_the_payload(
    client: FlaskClient,
    sim: Simulation,
    run: str,
    token: str,
    content_type: str | None,
    body: bytes,
    expected: Any,
) -> None:
    answer = client.post(f"{HERE}/{token}", data=body, content_type=content_type)
    assert (answer.status_code, answer.json) == (202, {"accepted": True, "at": sim.now.isoformat()})
    assert payload(sim, run) == expected
    event = next(one for one in sim.events(run) if one.fact.type == "callback.received")
    assert event.draft.caller is not None
    assert (event.draft.caller.principal, event.draft.caller.request_id) == (
        "callback",
        answer.headers["X-Request-ID"],
    )


def test_a_repeat_gets_the_same_answer_and_changes_nothing(
    client: FlaskClient, sim: Simulation, run: str, token: str
) -> None:
    first = client.post(f"{HERE}/{token}", json={"n": 1})
    sim.pass_time(5)
    assert client.post(f"{HERE}/{token}", json={"n": 2}).json == first.json
    assert payload(sim, run) == {"n": 1}
    assert client.post(f"{HERE}/{token}").json == first.json, "also after the end"
    assert sim.types(run).count("callback.received") == 1


@pytest.mark.parametrize(
    ("content_type", "body", "status", "said"),
    [
        ("application/json", b'{"a": NaN}', 400, "which is not JSON"),
        ("application/json", b'{"a": ', 400, "The body is not JSON"),
        ("text/plain", b"\xff", 400, "not UTF-8"),
        ("text/plain", b"a\0b", 400, "NUL"),
        ("application/x-www-form-urlencoded", b"a=%ff", 400, "not UTF-8"),
        ("application/x-www-form-urlencoded", b"a&" * 20_000, 400, "more than 10000 fields"),
        ("application/xml", b"<a/>", 415, "a form (application/x-www-form-urlencoded) or text/plain"),
        ("multipart/form-data; boundary=x", b"--x--", 415, "multipart"),
        ("text/plain; charset=latin-1", b"\xfc", 415, "UTF-8"),
        ("text/plain", b"x" * 1_100_000, 413, "larger than"),
    ],
)
def test_what_cannot_be_kept_is_answered_and_the_task_waits_on(
    client: FlaskClient,
    sim: Simulation,
    run: str,
    token: str,
    content_type: str,
    body: bytes,
    status: int,
    said: str,
) -> None:
    answer = client.post(f"{HERE}/{token}", data=body, content_type=content_type)
    assert answer.status_code == status
    assert said in answer.json["detail"]
    assert client.post(f"{HERE}/{token}", json=7).status_code == 202
    assert payload(sim, run) == 7


def test_only_post_is_possible(client: FlaskClient, closed: Flask, token: str) -> None:
    for asked in (client, closed.test_client()):
        for method in ("GET", "PUT", "DELETE", "PATCH", "HEAD"):
            answer = asked.open(f"{HERE}/{token}", method=method)
            assert answer.status_code == 405, method
            assert "POST" in answer.headers["Allow"]
            if method != "HEAD":
                assert answer.json["detail"].startswith(f"{method} is not possible at /api/callbacks/…; ")


def test_a_foreign_token_is_nothing_and_says_nothing(client: FlaskClient, run: str, token: str) -> None:
    address = TaskAddress(run, "start#1", None, "answer")
    text, _, signature = token.partition(".")
    other, _, own = make_token(TaskAddress("99", "start#1", None, "answer"), b"simulated").partition(".")
    tried = [
        make_token(address, b"of somebody else"),
        f"{text}.{own}",
        f"{other}.{signature}",
        f"{other}.{own}",
        text,
        f"{text}.",
        f"{token}x",
        "é.è",
        "x" * 3000,
    ]
    answers = [client.post(f"{HERE}/{one}", json={}) for one in tried]
    assert {answer.status_code for answer in answers} == {404}
    assert len({answer.json["detail"] for answer in answers}) == 1
    assert {answer.json["instance"] for answer in answers} == {"/api/callbacks/…"}


@pytest.mark.usefixtures("time_stands_still")
def test_guessing_is_slowed_down_and_those_who_know_are_not(
    client: FlaskClient, sim: Simulation, run: str, token: str
) -> None:
    codes = [client.post(f"{HERE}/guess-{n}.x").status_code for n in range(100)]
    assert codes.count(404) == 60
    refused = client.post(f"{HERE}/guess.x")
    assert (refused.status_code, int(refused.headers["Retry-After"]) > 0) == (429, True)
    assert client.post(f"{HERE}/{token}", json=1).status_code == 202
    assert payload(sim, run) == 1


def test_an_execution_that_has_ended_is_a_conflict(
    client: FlaskClient, sim: Simulation, run: str, token: str
) -> None:
    control.cancel(sim.rt, run)
    sim.settle()
    answer = client.post(f"{HERE}/{token}")
    assert (answer.status_code, answer.json["type"]) == (409, "urn:noetl:problem:conflict")


def test_a_service_needs_no_token_and_may_send_others_along(
    closed: Flask, sim: Simulation, run: str, token: str
) -> None:
    """From beyond loopback, by whatever name the server is known there, from a page as well."""
    answer = closed.test_client().post(
        f"{HERE}/{token}?token=theirs&access_token=noetl_x_y",
        json={"ok": True},
        headers={
            "Authorization": "Basic dGhlaXJzOm93bg==",
            "Host": "noetl.example.com",
            "Origin": "https://shop.example.com",
            "X-Forwarded-For": "203.0.113.9",
        },
        environ_base={"REMOTE_ADDR": "10.0.0.7"},
    )
    assert answer.status_code == 202, answer.text
    assert payload(sim, run) == {"ok": True}


def test_the_name_of_another_host_opens_nothing_else(client: FlaskClient) -> None:
    assert client.get("/api/executions", headers={"Host": "noetl.example.com"}).status_code == 403


def test_nothing_that_is_written_or_answered_has_the_token(
    make: Callable[..., Flask],
    client: FlaskClient,
    sim: Simulation,
    run: str,
    token: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG)
    # Its answer leads who asked to the address that was meant.
    assert client.post(f"/api//callbacks/{token}").status_code == 308
    answers = [
        client.post(f"{HERE}/{token}", data=b"{", content_type="application/json"),
        client.get(f"{HERE}/{token}"),
        client.post(f"{HERE}/{token}/more"),
        client.post(f"/API/Callbacks/{token}"),
        client.post(f"/api/callbacks%2F{token}"),
        client.post(f"{HERE}/{token}", data=b"<a/>", content_type="application/xml"),
        client.post(f"{HERE}/{token}x"),
        client.post(f"{HERE}/{token}", json=1),
        client.post(f"{HERE}/{token}", json=1),
    ]
    assert [one.status_code for one in answers[-2:]] == [202, 202]
    sim.rt = replace(sim.rt, read_token=lambda _: 1 // 0)  # type: ignore[arg-type, return-value]
    answers.append(make().test_client().post(f"{HERE}/{token}", json=1))
    assert answers[-1].status_code == 500
    sim.settle()
    said = [one.text + json.dumps(dict(one.headers)) for one in answers]
    said += [f"{record.getMessage()} {record.__dict__.get('fields')}" for record in caplog.records]
    said += [str(record.exc_text) for record in caplog.records]
    said += [str(event) for event in sim.events(run)]
    said.append(client.get(f"/api/executions/{run}").text)
    assert len(caplog.records) > 10
    signature = token.partition(".")[2]
    assert [one for one in said if token in one or signature in one] == []


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("POST /api/callbacks/abc.def HTTP/1.1", "POST /api/callbacks/… HTTP/1.1"),
        ("https://x/y/api/callbacks/abc.def?q=1", "https://x/y/api/callbacks/…?q=1"),
        ("'/api/callbacks%2Fabc'", "'/api/callbacks%2F…'"),
        ("/api/callbacks", "/api/callbacks"),
    ],
)
def test_what_hides_a_token_leaves_the_rest(text: str, shown: str) -> None:
    assert hide_token(text) == shown


def test_the_limit_of_calls_is_of_an_execution(make: Callable[..., Flask], run: str, token: str) -> None:
    client = make().test_client()
    codes = {client.post(f"{HERE}/{token}", json=n).status_code for n in range(200)}
    assert codes == {202}
