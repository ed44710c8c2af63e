"""`/api/cache` as callers see it."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation
from noetl.usecases import catalog

BOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: kept, path: tests/kept}
workflow: [{step: start, tool: {kind: noop, result: {n: 1}, cache: 1h}}]
"""


@pytest.fixture
def kept(sim: Simulation) -> str:
    """The id of the execution whose call is kept."""
    sim.path = catalog.register(sim.rt, BOOK, "kept.yaml").path
    return sim.run().row.execution_id


def listed(client: FlaskClient, query: str = "") -> list[dict[str, Any]]:
    answer = client.get(f"/api/cache{query}")
    assert answer.status_code == 200
    found: list[dict[str, Any]] = answer.get_json()["cached"]
    return found


def test_what_is_kept_is_listed_with_its_origin(client: FlaskClient, kept: str) -> None:
    (one,) = listed(client)
    assert (one["path"], one["execution_id"], one["run_id"]) == ("tests/kept", kept, "start#1")
    assert one["expires_at"] > one["created_at"]
    assert listed(client, "?path=tests/kept") == [one]
    assert listed(client, "?path=tests/other") == []


def test_what_is_cleared_is_said_and_has_to_be(client: FlaskClient, kept: str) -> None:
    assert client.delete("/api/cache").status_code == 400
    assert client.delete("/api/cache?path=tests/kept&all=true").status_code == 400
    assert client.delete("/api/cache?path=tests/other").get_json() == {"removed": 0}
    (one,) = listed(client)
    assert client.delete(f"/api/cache?key={one['key']}").get_json() == {"removed": 1}
    assert listed(client) == []


def test_the_report_of_who_took_it_counts_it(client: FlaskClient, sim: Simulation, kept: str) -> None:
    other = sim.run().row.execution_id
    assert client.get(f"/api/executions/{other}").get_json()["steps"]["start"]["reused"] == 1
    explained = client.get(f"/api/executions/{other}/explain?step=start").get_json()
    (task,) = explained["steps"][0]["runs"][0]["tasks"]
    assert task["reused"]["execution_id"] == kept
