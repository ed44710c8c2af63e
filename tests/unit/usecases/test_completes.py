"""A step that ends runs of other steps as done."""

from __future__ import annotations

import random

import pytest
from playbooks import playbook

from noetl.facts import events as e
from noetl.testing import Simulation
from noetl.usecases import catalog
from noetl.usecases.retry import RetryRequest, retry

FORCED = playbook("""
    - {step: start, next: [stop, wait, work, each]}
    - {step: stop, tool: {kind: noop}, spec: {completes: [wait, work, each]}}
    - {step: wait, tool: {kind: wait, timer: 1d}, next: after}
    - {step: work, tool: {kind: noop, result: 7}, next: after}
    - step: each
      loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: 1, reduce: {ctx.seen: append}}}
      tool: {kind: noop, result: "{{ n }}", set: {ctx.seen: "{{ n }}"}}
      next: after
    - step: after
      tool: {kind: noop, result: {wait: "{{ wait }}", work: "{{ work }}", each: "{{ each }}"}}
""")


def _ends(sim: Simulation, execution_id: str) -> dict[str, str | None]:
    return {
        str(event.draft.step): event.fact.forced_by
        for event in sim.events(execution_id)
        if isinstance(event.fact, e.StepDone)
    }


@pytest.mark.parametrize("order", range(60))
def test_what_runs_or_waits_is_done_at_once_and_what_comes_behind_it_begins(order: int) -> None:
    sim, chance = Simulation(FORCED), random.Random(order)
    execution_id = sim.start()
    while sim.mailbox.messages:
        sim.deliver(chance.randrange(len(sim.mailbox.messages)))
    report = sim.report(execution_id)
    assert report.row.status == "completed"
    assert sim.next_due() is None
    forced = _ends(sim, execution_id)
    assert forced["wait"] == "stop#1"
    assert report.result["wait"] is None
    assert report.result["work"] == (None if forced["work"] else 7)
    stats = report.result["each"]["stats"]
    ended = [one for one in report.result["each"]["results"] if one is not None]
    assert stats.get("cancelled", 0) == 3 - len(ended)
    assert stats["completed"] == len(ended)
    assert report.ctx.get("seen", []) == ended
    assert report.steps["after"]["runs"] == 1


def test_a_command_that_was_out_is_closed_and_its_report_counts_for_nothing() -> None:
    sim = Simulation(FORCED)
    execution_id = sim.start()
    sim.deliver()
    messages = sim.mailbox.messages
    work = messages.pop(
        next(at for at, one in enumerate(messages) if one.command and one.command.step == "work")
    )
    sim.settle()
    assert _ends(sim, execution_id)["work"] == "stop#1"
    sim.mailbox.messages.append(work)
    sim.settle()
    assert len(sim.tools.calls) == len([one for one in sim.tools.calls if one.task != "work"])
    assert sim.report(execution_id).result["work"] is None


def test_children_of_what_is_completed_are_told() -> None:
    child = playbook("- {step: start, tool: {kind: wait, signal: never}}")
    sim = Simulation(child.replace("path: tests/test", "path: tests/child"))
    caller = playbook("""
        - {step: start, next: [call, stop]}
        - {step: call, tool: {kind: playbook, path: tests/child}, next: after}
        - {step: stop, tool: {kind: wait, timer: 1h}, spec: {completes: [call]}}
        - {step: after, tool: {kind: noop}}
    """)
    sim.path = catalog.register(sim.rt, caller, "caller.yaml").path
    report = sim.run()
    assert report.row.status == "completed"
    assert [child["status"] for child in report.children] == ["cancelled"]
    assert report.steps["after"]["status"] == "done"


def test_a_run_that_failed_completes_nothing() -> None:
    sim = Simulation(
        FORCED.replace("step: stop, tool: {kind: noop}", "step: stop, tool: {kind: python, code: 1/0}")
    )
    report = sim.run()
    assert report.row.status == "failed"
    assert set(_ends(sim, report.row.execution_id).values()) == {None}


def test_a_token_that_comes_later_runs_as_any_other() -> None:
    sim = Simulation(
        playbook("""
        - {step: start, next: [stop, slow]}
        - {step: stop, tool: {kind: noop}, spec: {completes: [work]}}
        - {step: slow, tool: {kind: wait, timer: 1h}, next: work}
        - {step: work, tool: {kind: noop, result: 7}}
    """)
    )
    report = sim.run()
    assert report.result == 7


def test_what_was_completed_by_force_is_no_result_that_a_retry_takes_over() -> None:
    sim = Simulation(
        playbook("""
        - {step: start, next: [stop, work]}
        - {step: stop, tool: {kind: noop}, spec: {completes: [work]}}
        - {step: work, tool: {kind: wait, timer: 1d}, next: bad}
        - {step: bad, tool: {kind: python, code: 1/0}}
    """)
    )
    first = sim.run()
    again = retry(sim.rt, RetryRequest(first.row.execution_id)).execution_id
    sim.rest()
    scheduled = {
        event.draft.step: event.fact.reuse
        for event in sim.events(again)
        if isinstance(event.fact, e.StepScheduled) and event.fact.reuse
    }
    assert scheduled["stop"].how == "whole"
    assert scheduled["work"].how != "whole"
    assert _ends(sim, again)["work"] == "stop#1"
    (forced,) = [
        event
        for event in sim.events(again)
        if isinstance(event.fact, e.StepDone) and event.fact.forced_by is not None
    ]
    assert forced.draft.origin is None
