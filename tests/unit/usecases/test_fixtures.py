"""Fixtures hold what an execution recorded, and nothing that a file is not to hold."""

from __future__ import annotations

import json
from datetime import timedelta

import pytest
import yaml
from playbooks import playbook

from noetl.dsl.read.source import read
from noetl.errors import BadRequest
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control
from noetl.usecases.catalog import UNNAMED
from noetl.usecases.fixtures import MOST_BYTES, make_fixture

BOOK = playbook(
    """
    - step: start
      tool: {kind: http, url: "https://x/{{ workload.token }}"}
      next: gate
    - step: gate
      spec: {policy: {admit: {rules: [{when: "{{ ctx.go }}", then: {allow: true}}, {else: {then: {allow: false}}}]}}}
      tool: {kind: noop, input: {at: 1}}
    """,
    "inputs: {token: {type: string, secret: true}, day: string}",
)


def test_secrets_stay_where_they_are_and_what_is_too_large_is_said() -> None:
    sim = Simulation(BOOK, {"http": lambda _: {"rows": "x" * (MOST_BYTES + 1), "no": "no"}})
    run = sim.start({"token": "s3cret", "day": "010"})
    sim.settle()
    control.patch_ctx(sim.rt, run, {"go": True})
    sim.settle()
    fixture = make_fixture(sim.rt, run)
    text = fixture.as_yaml()
    assert "s3cret" not in text
    assert fixture.notes == (
        "inputs.token was a secret: <secret> stands in its place.",
        "A result of start is left out: it is too large for a test, or gone.",
    )
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        f"# Made of execution {run} of {sim.path}@1.",
        *(f"# {note}" for note in fixture.notes),
    ]
    (test,) = yaml.safe_load(text)["tests"]
    assert test["inputs"] == {"token": "<secret>", "day": "010"}
    assert test["patches"] == [{"go": True}]
    assert test["stand_ins"] == {"start": {"recorded": None}}
    assert test["expect"]["path"] == ["start", "gate"]


@pytest.mark.parametrize(("file", "named"), [("flows/pay.yml", "pay.yml"), (UNNAMED, "orders.yaml")])
def test_it_names_the_file_of_its_playbook_or_what_that_would_be_called(file: str, named: str) -> None:
    text = BOOK.replace("path: tests/test", "path: shop/orders")
    sim = Simulation(text, {"http": lambda _: 1}, file=file)
    run = sim.start()
    sim.settle()
    control.patch_ctx(sim.rt, run, {"go": True})
    sim.settle()
    assert yaml.safe_load(make_fixture(sim.rt, run).as_yaml())["playbook"] == named


@pytest.mark.parametrize(
    "text", ["no", "0o14", "1e3", "~", "2026-01-01", "{{ x }}", "a\nb", ": #", "null", "\t", "é"]
)
def test_texts_are_read_as_they_were(text: str) -> None:
    sim = Simulation(BOOK, {"http": lambda _: {text: [text]}})
    run = sim.start({"day": text})
    sim.settle()
    fixture = make_fixture(sim.rt, run)
    data = read(fixture.as_yaml(), "fixture").data
    assert data is not None
    assert data["tests"][0]["stand_ins"]["start"]["recorded"] == {text: [text]}
    assert data["tests"][0]["inputs"] == {"day": text}
    assert data["tests"][0]["expect"]["status"] == "waiting"


def test_one_that_still_runs_or_was_cancelled_makes_none() -> None:
    sim = Simulation(BOOK, {"http": lambda _: 1})
    run = sim.start()
    with pytest.raises(BadRequest, match="is pending: a test is made of one that ended or waits"):
        make_fixture(sim.rt, run)
    control.cancel(sim.rt, run, "enough")
    sim.settle()
    with pytest.raises(BadRequest, match="is cancelled"):
        make_fixture(sim.rt, run)


@pytest.mark.parametrize(
    ("tool", "stand_ins", "notes"),
    [
        # The call was never made, and will not be: nothing stands in for it.
        ('{kind: http, url: "{{ 1 + workload }}"}', None, 0),
        ('{kind: http, url: "https://x", spec: {policy: {rules: [{else: {do: fail}}]}}}', "PolicyFailed", 1),
    ],
)
def test_what_the_log_does_not_have_is_left_out_or_said(tool: str, stand_ins: str | None, notes: int) -> None:
    sim = Simulation(playbook(f"- step: start\n  tool: {tool}\n"), {"http": lambda _: 1})
    # So that no number in a message is its id.
    sim.now += timedelta(days=1)
    run = sim.start()
    sim.settle()
    fixture = make_fixture(sim.rt, run)
    given = fixture.test.get("stand_ins")
    assert (given if given is None else given["start"]["error"]["type"]) == stand_ins
    assert len(fixture.notes) == notes
    assert fixture.test["expect"]["status"] == "failed"


@pytest.mark.parametrize("process", ["row", "frame"])
def test_rows_of_a_claim_stand_in_for_it_whatever_an_iteration_is(process: str) -> None:
    claim = "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs LIMIT :max_rows) RETURNING id"
    cursor = {"kind": "postgres", "claim": claim}
    loop = {"cursor": cursor, "iterator": "jobs", "spec": {"frame": {"max_rows": 2, "process": process}}}
    frames = [[{"id": 1}, {"id": 2}], [{"id": 3}]]
    left = iter(frames)

    def take(_: Call) -> Json:
        rows = next(left, [])
        return {"rows": rows, "row_count": len(rows), "columns": ["id"]}

    text = json.dumps([{"step": "start", "loop": loop, "tool": {"kind": "noop"}}])
    sim = Simulation(playbook(text), {"postgres": take})
    run = sim.start()
    sim.rest()
    stand_ins = make_fixture(sim.rt, run).test["stand_ins"]
    assert stand_ins == {"start.claim": [{"recorded": {"rows": rows}} for rows in frames]}
