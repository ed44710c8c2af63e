"""Ids of requests, and the line that the log has of each."""

from __future__ import annotations

import json
import logging

import pytest
from flask.testing import FlaskClient

from noetl.api.guards import id_of
from noetl.dispatch.json_lines import JsonLines
from noetl.dispatch.naming import format_arguments

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = f"00-{TRACE}-00f067aa0ba902b7-01"


def test_an_id_comes_from_the_request_where_it_is_one() -> None:
    assert id_of("a.b:1/2+3=@_-", PARENT) == "a.b:1/2+3=@_-"
    assert id_of(None, PARENT) == TRACE
    assert id_of(None, PARENT.replace("00-", "cc-", 1) + "-more") == TRACE
    refused = ["", " a", "a b", "a\n", "a" * 129, "ä", "{x}", "-a", '"']
    assert {id_of(one, PARENT) for one in refused} == {TRACE}
    traces = [PARENT[:-1], PARENT.upper(), "ff" + PARENT[2:], PARENT.replace(TRACE, "0" * 32), "x", ""]
    made = [id_of(None, one) for one in [*traces, None]]
    assert TRACE not in made
    assert len(set(made)) == len(made)
    assert {len(one) for one in made} == {32}


def test_answers_name_the_id_and_the_log_has_a_line_of_each(
    client: FlaskClient, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.INFO, "noetl.access"):
        misplaced = client.get("/api/health?token=secret", headers={"X-Request-ID": "mine-1"})
        refused = client.post(
            "/api/executions", data="{", content_type="text/plain", headers={"traceparent": PARENT}
        )
        missing = client.get("/api/no/such%0Aroute")
        lines = [
            json.loads(JsonLines().format(record))
            for record in caplog.records
            if record.name == "noetl.access"
        ]
    assert [answer.headers["X-Request-ID"] for answer in (misplaced, refused)] == ["mine-1", TRACE]
    assert len(missing.headers["X-Request-ID"]) == 32
    kept = ("method", "path", "status")
    assert [tuple(line[name] for name in kept) for line in lines] == [
        ("GET", "/api/health", 401),
        ("POST", "/api/executions", 415),
        ("GET", "/api/no/such%0Aroute", 404),
    ]
    assert "secret" not in json.dumps(lines)


def test_lines_of_celery_name_the_execution_that_a_message_is_about() -> None:
    record = logging.makeLogRecord({"name": "celery.app.trace", "msg": "Task x received"})
    record.data = {"args": format_arguments("12", "12/start#1/-/1")}
    told = json.loads(JsonLines().format(record))
    assert (told["execution"], told["command"]) == ("12", "12/start#1/-/1")
