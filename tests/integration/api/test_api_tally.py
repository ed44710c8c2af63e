"""Counts of executions over HTTP: answers are held against their model by the fixtures."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases import catalog
from noetl.usecases.start import StartRequest, start

from .conftest import PLAYBOOK, Asking

OTHER = "ops/halving"


@pytest.fixture
def ran(sim: Simulation) -> list[str]:
    """Three executions that failed, one that went well, and one of another playbook that waits."""
    ids = [sim.start({"n": {"no": number}}) for number in range(3)]
    ids.append(sim.start({"n": 2}))
    catalog.register(sim.rt, PLAYBOOK.replace("path: examples/doubling", f"path: {OTHER}"))
    ids.append(start(sim.rt, StartRequest(OTHER, payload={"wait_for_go": True})).execution_id)
    sim.settle()
    return ids


def tally(client: FlaskClient, **query: Any) -> Any:
    answer = client.get("/api/tally", query_string=query)
    assert answer.status_code == 200, answer.json
    return answer.json


def test_executions_are_counted_by_status_and_over_time(client: FlaskClient, ran: list[str]) -> None:
    found = tally(client, spans=5)
    assert (found["counts"], found["more"]) == ({"failed": 3, "completed": 1, "waiting": 1}, False)
    assert len(found["spans"]) == 5
    assert sum((Counter(one) for one in found["spans"]), Counter()) == found["counts"]
    assert found["since"] < found["until"]


def test_nothing_is_counted_where_there_is_nothing(client: FlaskClient) -> None:
    assert tally(client) == {"counts": {}, "since": None, "until": None, "spans": [], "more": False}


def test_a_filter_and_instants_narrow_what_is_counted(
    client: FlaskClient, sim: Simulation, ran: list[str]
) -> None:
    assert tally(client, where=f"path = '{OTHER}'")["counts"] == {"waiting": 1}
    assert tally(client, where="error ~ 'dict'")["counts"] == {"failed": 3}
    now = sim.rt.clock()
    began, ended = now - timedelta(days=1), now + timedelta(seconds=1)
    found = tally(client, since=began.isoformat(), until=ended.isoformat(), spans=1)
    assert found["spans"] == [{"failed": 3, "completed": 1, "waiting": 1}]
    assert tally(client, until="-1d")["counts"] == {}
    assert tally(client, since=ended.isoformat())["counts"] == {}


@pytest.mark.parametrize(
    ("query", "said"),
    [
        ({"where": "stats = 'failed'"}, "did you mean"),
        ({"spans": 0}, "spans"),
        ({"spans": 1001}, "spans"),
        ({"since": "yesterday"}, "it is an instant"),
        ({"since": "0001-01-01T00:00:00+05:00"}, "it is an instant"),
        ({"since": "2026-03-02", "until": "2026-03-01"}, "No time lies between"),
    ],
)
def test_what_cannot_be_counted_is_said(client: FlaskClient, query: dict[str, Any], said: str) -> None:
    answer = client.get("/api/tally", query_string=query)
    assert answer.status_code == 400
    assert said.lower() in answer.get_data(as_text=True).lower()


@pytest.mark.parametrize("scope", [f"read:{OTHER}", "read:ops/*"])
def test_a_token_counts_what_it_may_read(ask_as: Asking, ran: list[str], scope: str) -> None:
    assert tally(ask_as(scope))["counts"] == {"waiting": 1}
    assert tally(ask_as(scope), where="status = 'failed'")["counts"] == {}
