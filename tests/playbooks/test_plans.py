"""A plan of every playbook of the corpus, and of every example."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.forecast.foresee import PlanInput, foresee
from noetl.forecast.shape import as_json
from noetl.forecast.tasks import Kinds
from noetl.tools.code.quoting import CommandLine
from noetl.tools.kit.registry import kinds, touches

from .corpus import cases

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: corpus/plan}\n"
EXAMPLES = sorted(
    file
    for file in (Path(__file__).parents[2] / "examples").glob("*.yaml")
    if not file.name.endswith(".test.yaml")
)
RUNS = [case for case in cases() if case.expected["status"] is not None]


def test_no_step_runs_that_the_plan_does_not_reach(subtests: pytest.Subtests) -> None:
    for case in RUNS:
        with subtests.test(case.name):
            net = compile_playbook(HEAD + case.body, file="test.yaml", kinds=kinds()).net
            assert net is not None
            found = foresee(
                net, PlanInput(Kinds(kinds(), touches, CommandLine), case.payload, case.overrides)
            )
            reached = [step.name for step in found.steps]
            assert sorted([*reached, *found.unreached]) == sorted(net.steps)
            assert set(case.expected.get("path") or ()) <= set(reached)
            json.dumps(as_json(found), allow_nan=False)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_every_example_has_a_plan_in_which_nothing_fails(file: Path) -> None:
    net = compile_playbook(file.read_text(), file=str(file), kinds=kinds()).net
    assert net is not None
    found = as_json(foresee(net, PlanInput(Kinds(kinds(), touches, CommandLine))))
    assert found["errors"] == found["warnings"] == found["unreached"] == []
    assert found["steps"]
