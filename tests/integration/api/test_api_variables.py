"""A variable says over REST of what type it is, and when and by what it was assigned."""

from __future__ import annotations

from typing import Any

import pytest
from flask.testing import FlaskClient

from noetl.testing import Simulation

from .conftest import Asking

PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: vars, path: tests/vars}
environment: {n: 2}
variables: {region: north}
workflow:
  - step: each
    loop: {in: [1, 2], iterator: i, spec: {mode: parallel, reduce: {ctx.sum: sum}}}
    tool: {kind: noop, input: {i: "{{ i }}"}, set: {ctx.sum: "{{ result.i }}"}}
    next: {arcs: [{step: count, set: {ctx.seen: "{{ [1, 2] }}"}}]}
  - step: count
    tool:
      - {name: first, kind: noop, input: {n: 2}}
      - {name: second, kind: noop, input: {n: 0.5}, set: {ctx.order.half: "{{ result.n }}"}}
    set: {ctx.done: "{{ true }}"}
    next: {arcs: [{step: hold}]}
  - step: hold
    tool: {kind: wait, signal: go}
"""


@pytest.fixture
def where(client: FlaskClient, sim: Simulation) -> str:
    started = client.post("/api/executions", json={"playbook": PLAYBOOK})
    assert started.status_code == 202, started.text
    sim.settle()
    return f"/api/vars/{started.json['execution_id']}"


@pytest.mark.parametrize(
    ("name", "type", "source"),
    [
        ("sum", "integer", {"cause": "loop", "step": "each", "run_id": "each#1", "task": None}),
        ("seen", "array", {"cause": "arc", "step": "each", "task": None}),
        ("order", "object", {"cause": "task", "step": "count", "run_id": "count#1", "task": "second"}),
        ("order.half", "number", {"cause": "task", "step": "count", "task": "second"}),
        ("done", "boolean", {"cause": "step", "step": "count", "task": None}),
        ("region", "string", {"cause": "start", "step": None}),
    ],
)
def test_a_variable_names_the_event_that_assigned_it(
    client: FlaskClient, where: str, name: str, type: str, source: dict[str, Any]
) -> None:
    shown = client.get(f"{where}/{name}").json

    assert (shown["type"], {key: shown["source"][key] for key in source}) == (type, source)
    execution = where.replace("/vars/", "/executions/")
    version = shown["source"]["version"]
    (event,) = client.get(f"{execution}/events?after={version - 1}&limit=1").json["events"]
    assert (event["version"], event["recorded_at"]) == (version, shown["recorded_at"])
    assert event["type"] == ("playbook.request.evaluated" if name == "region" else "ctx.patched")


def test_all_variables_are_told_at_once_and_the_newest_assignment_counts(
    client: FlaskClient, where: str
) -> None:
    before = client.get(where).json
    assert set(before["about"]) == set(before["vars"]) == {"region", "sum", "seen", "order", "done"}

    client.put(f"{where}/order.more", json={"value": None})

    after = client.get(where).json
    assert after["about"]["order"]["source"]["cause"] == "client"
    assert after["about"]["sum"] == before["about"]["sum"]
    assert client.get(f"{where}/order.more").json["type"] == "null"
    assert client.get(f"{where}/order.half").json["source"]["task"] == "second"


def test_what_somebody_assigned_names_who_asked(ask_as: Asking, where: str) -> None:
    operator = ask_as("operate", principal="ada")
    operator.put(f"{where}/note", json={"value": "mine"})

    shown = operator.get(f"{where}/note").json
    assert (shown["source"]["cause"], shown["source"]["principal"]) == ("client", "ada")


def test_a_large_value_is_a_reference_until_it_is_asked_for(client: FlaskClient, where: str) -> None:
    client.put(f"{where}/big", json={"value": ["x" * 100] * 1000})

    assert client.get(where).json["about"]["big"]["type"] == "reference"
    assert client.get(f"{where}/big").json["type"] == "array"
