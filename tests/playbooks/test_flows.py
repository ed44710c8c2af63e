"""One flow, said in several dialects, is one net."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.dsl import compile_playbook
from noetl.net.model import Net
from noetl.net.same import same_net
from noetl.tools.registry import kinds

from .corpus import Case, flows
from .running import head

KINDS = kinds()
FLOWS = flows()


@pytest.mark.parametrize("flow", FLOWS)
def test_the_dialects_agree(flow: str) -> None:
    nets = {dialect: _net(case) for dialect, case in FLOWS[flow].items()}
    canonical = nets.pop("canonical")
    assert nets
    for dialect, net in nets.items():
        assert same_net(net, canonical), (dialect, _different(net, canonical))


def _net(case: Case) -> Net:
    compiled = compile_playbook(head("flows/flow") + case.body, file="flow.yaml", kinds=KINDS)
    assert compiled.net is not None, compiled.problems
    return compiled.net


def _different(one: Net, other: Net) -> list[Any]:
    """The steps that differ."""
    return [pair for pair in zip(one.transitions, other.transitions, strict=False) if pair[0] != pair[1]]
