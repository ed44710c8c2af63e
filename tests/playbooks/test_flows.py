"""One flow, said in several dialects, is one net, and its executions have one history."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.dsl import compile_playbook
from noetl.net.codec import same_net
from noetl.net.model import Net
from noetl.tools.kit.registry import kinds
from noetl.usecases import inspect
from noetl.usecases.runtime import Runtime

from .corpus import DIALECTS, Case, flows
from .histories import history, in_any_order
from .running import head, ran

KINDS = kinds()
FLOWS = flows()
#: Flows in which work is done side by side, so that chance orders their events.
SIDE_BY_SIDE = {"branches_meet", "loop_and_report", "side_by_side"}
#: How many flows are said in every dialect, at the least.
THREEFOLD = 10


@pytest.mark.parametrize("flow", FLOWS)
def test_the_dialects_agree(flow: str) -> None:
    nets = {dialect: _net(case) for dialect, case in FLOWS[flow].items()}
    canonical = nets.pop("canonical")
    assert nets
    for dialect, net in nets.items():
        assert same_net(net, canonical), (dialect, _different(net, canonical))


# What is kept by reference is named by its digest, and http answers hold the time: these flows are
# run with all inline.
@pytest.mark.parametrize("flow", FLOWS)
def test_every_dialect_has_the_same_history(flow: str, rt: Runtime, web: str) -> None:
    told = {dialect: _history(rt, flow, case, web) for dialect, case in FLOWS[flow].items()}
    canonical = told.pop("canonical")
    for dialect, events in told.items():
        assert events == canonical, dialect


def test_ten_flows_are_said_in_every_dialect() -> None:
    threefold = [flow for flow, spelled in FLOWS.items() if spelled.keys() == set(DIALECTS)]
    assert len(threefold) >= THREEFOLD, threefold


def _history(rt: Runtime, flow: str, case: Case, web: str) -> list[Any]:
    payload = {**({"web": web} if "web" in _net(case).workload else {}), **case.payload}
    events = history(inspect.events(rt, ran(rt, head(f"flows/{flow}") + case.body, payload, case)))
    return in_any_order(events) if flow in SIDE_BY_SIDE else events


def _net(case: Case) -> Net:
    compiled = compile_playbook(head("flows/flow") + case.body, file="flow.yaml", kinds=KINDS)
    assert compiled.net is not None, compiled.problems
    return compiled.net


def _different(one: Net, other: Net) -> list[Any]:
    """The steps that differ."""
    return [pair for pair in zip(one.transitions, other.transitions, strict=False) if pair[0] != pair[1]]
