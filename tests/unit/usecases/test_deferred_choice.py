"""Arcs that wait: the first of what they wait for chooses, and nothing else can any more."""

from __future__ import annotations

from datetime import timedelta

import pytest
from playbooks import playbook

from noetl.facts import events as e
from noetl.testing import Simulation
from noetl.usecases.signals import SignalRequest, send_signal

ORDER = playbook(
    """
    - step: start
      tool: {kind: noop, result: {order: 7}}
      next:
        arcs:
          - step: ship
            wait: {signal: {name: payment, match: {order: "{{ start.order }}"}}}
            args: {by: "{{ result.payload.by }}", order: "{{ start.order }}"}
            set: {ctx.signal: "{{ result.signal }}"}
          - {step: drop, wait: {condition: "{{ ctx.dropped }}"}}
          - {step: remind, wait: {timer: 1h}, times: 2}
          - {step: drop, wait: {signal: refusal}}
    - {step: ship, tool: {kind: noop}}
    - {step: drop, tool: {kind: noop, result: dropped}}
    - {step: remind, tool: {kind: noop, result: reminded}}
""",
    "ctx: {dropped: false}",
)


def _begun() -> tuple[Simulation, str]:
    sim = Simulation(ORDER)
    execution_id = sim.start()
    sim.settle()
    return sim, execution_id


def _ran(sim: Simulation, execution_id: str) -> dict[str, int]:
    report = sim.report(execution_id)
    assert report.row.status == "completed"
    return {
        name: said["runs"] for name, said in report.steps.items() if name not in ("start", "start.choice")
    }


def test_a_signal_chooses_its_arc_whose_args_and_set_see_it() -> None:
    sim, execution_id = _begun()
    send_signal(sim.rt, execution_id, SignalRequest("payment", {"order": 8, "by": "ann"}))
    sim.settle()
    assert sim.report(execution_id).row.status == "waiting"
    send_signal(sim.rt, execution_id, SignalRequest("payment", {"order": 7, "by": "bob"}))
    sim.settle()
    assert _ran(sim, execution_id) == {"ship": 1}
    report = sim.report(execution_id)
    assert (report.result, report.ctx["signal"]) == ({"by": "bob", "order": 7}, "payment")


def test_time_chooses_where_nothing_else_came() -> None:
    sim, execution_id = _begun()
    sim.rest()
    assert _ran(sim, execution_id) == {"remind": 2}


def test_of_two_arcs_to_one_step_either_may_come() -> None:
    sim, execution_id = _begun()
    send_signal(sim.rt, execution_id, SignalRequest("refusal"))
    sim.settle()
    assert _ran(sim, execution_id) == {"drop": 1}


@pytest.mark.parametrize("first", ["payment", "refusal"])
def test_what_comes_first_takes_the_choice_from_all_others(first: str) -> None:
    sim, execution_id = _begun()
    names = [first, *({"payment", "refusal"} - {first})]
    for name in names:
        send_signal(sim.rt, execution_id, SignalRequest(name, {"order": 7, "by": "ann"}))
        # Of two at one instant the first in the document would count.
        sim.now += timedelta(seconds=1)
    sim.rest()
    assert _ran(sim, execution_id) == ({"ship": 1} if first == "payment" else {"drop": 1})
    matched = [event for event in sim.events(execution_id) if isinstance(event.fact, e.WaitMatched)]
    assert [event.draft.step for event in matched] == ["start.choice"]


def test_nothing_is_waited_for_behind_a_failure() -> None:
    sim = Simulation(ORDER.replace("kind: noop, result: {order: 7}", "kind: python, code: 1/0"))
    report = sim.run()
    assert report.row.status == "failed"
    assert "start.choice" not in report.steps
