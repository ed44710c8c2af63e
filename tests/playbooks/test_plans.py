"""A plan of every example. Those of the corpus are held against what its playbooks do
(`foreseen`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.dsl.compiler import compile_playbook
from noetl.forecast.foresee import PlanInput, foresee
from noetl.forecast.shape import as_json
from noetl.forecast.tasks import Kinds
from noetl.tools.code.quoting import CommandLine
from noetl.tools.kit.registry import kinds, touches

EXAMPLES = sorted(
    file
    for file in (Path(__file__).parents[2] / "examples").glob("*.yaml")
    if not file.name.endswith(".test.yaml")
)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.name)
def test_every_example_has_a_plan_in_which_nothing_fails(file: Path) -> None:
    net = compile_playbook(file.read_text(), file=str(file), kinds=kinds()).net
    assert net is not None
    found = as_json(foresee(net, PlanInput(Kinds(kinds(), touches, CommandLine))))
    assert found["errors"] == found["warnings"] == found["unreached"] == []
    assert found["steps"]
