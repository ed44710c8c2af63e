"""A step that ends the whole execution: all else is withdrawn, and the final step still runs."""

from __future__ import annotations

import itertools

import pytest
from playbooks import playbook

from noetl.facts import events as e
from noetl.testing import Simulation
from noetl.usecases import catalog

ENDS = """
    - {step: start, next: [quick, slow, held]}
    - {step: quick, tool: {kind: noop, input: {n: 1}}, set: {ctx.seen: true}, terminate: STATUS, next: after}
    - {step: slow, tool: {kind: wait, timer: 1d}, next: after}
    - {step: held, tool: {kind: noop}, next: after}
    - {step: after, tool: {kind: noop}}
"""
FINAL = "executor: {spec: {final_step: last}}"
LAST = (
    '    - {step: last, tool: {kind: noop, input: {is: "{{ status }}", errors: "{{ errors | length }}"}}}\n'
)


def _playbook(status: str, *, final: bool = False) -> str:
    steps = ENDS.replace("STATUS", status) + (LAST if final else "")
    return playbook(steps, FINAL if final else "")


@pytest.mark.parametrize("status", ["completed", "failed", "cancelled"])
def test_the_execution_ends_so_as_soon_as_the_step_has_ended_well_in_whatever_order_messages_come(
    status: str,
) -> None:
    for order in itertools.permutations(range(3)):
        sim = Simulation(_playbook(status))
        execution_id = sim.start()
        sim.deliver()
        for index in order:
            sim.deliver(min(index, len(sim.mailbox.messages) - 1))
        sim.settle()
        report = sim.report(execution_id)
        assert report.row.status == status
        assert report.ctx["seen"] is True
        assert report.steps["slow"]["status"] == "cancelled"
        assert sim.next_due() is None


def test_the_result_is_that_of_the_step() -> None:
    report = Simulation(_playbook("completed")).run()
    assert report.result == {"n": 1}


def test_an_end_as_failed_has_an_error_that_names_the_step() -> None:
    report = Simulation(_playbook("failed")).run()
    assert report.error is not None
    assert (report.error["kind"], report.error["type"], report.error["step"]) == (
        "client_error",
        "Terminated",
        "quick",
    )
    assert report.steps["quick"]["status"] == "done"


@pytest.mark.parametrize(("status", "errors"), [("completed", 0), ("failed", 1), ("cancelled", 0)])
def test_the_final_step_runs_and_knows_how_it_ended(status: str, errors: int) -> None:
    report = Simulation(_playbook(status, final=True)).run()
    assert report.row.status == status
    assert report.steps["last"]["result"]["is"] == status
    assert report.steps["last"]["result"]["errors"] == errors


def test_a_final_step_that_fails_makes_a_failure_of_what_was_completed() -> None:
    fails = "kind: python, code: 1/0, input: {is"
    text = _playbook("completed", final=True).replace("kind: noop, input: {is", fails)
    report = Simulation(text).run()
    assert (report.row.status, report.error and report.error["step"]) == ("failed", "last")


def test_a_worker_that_is_at_work_is_not_waited_for_and_what_it_reports_is_discarded() -> None:
    sim = Simulation(_playbook("completed"))
    execution_id = sim.start()
    sim.deliver()
    # The command of `slow` is held while `quick` ends.
    messages = sim.mailbox.messages
    held = next(at for at, one in enumerate(messages) if one.command and one.command.step == "held")
    message = sim.mailbox.messages.pop(held)
    sim.settle()
    assert sim.report(execution_id).row.status == "completed"
    sim.mailbox.messages.append(message)
    sim.settle()
    assert sim.report(execution_id).steps["held"]["status"] == "cancelled"


def _child(workflow: str) -> str:
    return playbook(workflow).replace("path: tests/test", "path: tests/child")


def test_a_child_that_nobody_waits_for_any_more_is_told() -> None:
    sim = Simulation(_child("- {step: start, tool: {kind: wait, signal: never}}"))
    caller = playbook("""
        - {step: start, next: [call, quick]}
        - {step: call, tool: {kind: playbook, path: tests/child}}
        - {step: quick, tool: {kind: wait, timer: 1h}, terminate: completed}
    """)
    sim.path = catalog.register(sim.rt, caller, "caller.yaml").path
    execution_id = sim.start()
    sim.rest()
    assert sim.report(execution_id).row.status == "completed"
    (found,) = sim.report(execution_id).children
    assert found["status"] == "cancelled"


def test_what_waits_before_joins_begins_nothing_any_more() -> None:
    text = playbook("""
        - {step: start, next: [one, two, stop]}
        - {step: one, tool: {kind: noop}, next: [meet, every]}
        - {step: two, tool: {kind: wait, timer: 1d}, next: [meet, every]}
        - {step: meet, spec: {join: auto}, tool: {kind: noop}}
        - {step: every, spec: {join: all}, tool: {kind: noop}}
        - {step: stop, tool: {kind: wait, timer: 1h}, terminate: completed}
    """)
    report = Simulation(text).run()
    assert report.row.status == "completed"
    assert not {"meet", "every"} & report.steps.keys()


def test_a_run_that_failed_ends_nothing() -> None:
    text = playbook("""
        - {step: start, next: work}
        - {step: work, tool: {kind: python, code: 1/0}, terminate: completed,
           next: [{step: mend, when: "{{ error is defined }}"}]}
        - {step: mend, tool: {kind: noop, result: 7}}
    """)
    report = Simulation(text).run()
    assert (report.row.status, report.result) == ("completed", 7)


def test_what_has_failed_for_all_stays_failed() -> None:
    sim = Simulation(
        playbook("""
        - {step: start, next: [bad, good]}
        - {step: bad, tool: {kind: python, code: 1/0}}
        - {step: good, tool: {kind: noop}, terminate: completed}
    """)
    )
    report = sim.run()
    assert report.row.status == "failed"
    assert [one.terminates for one in _routed(sim, report.row.execution_id) if one.terminates] == []


def _routed(sim: Simulation, execution_id: str) -> list[e.NextEvaluated]:
    return [event.fact for event in sim.events(execution_id) if isinstance(event.fact, e.NextEvaluated)]


def test_a_caller_hears_that_its_child_was_cancelled_and_by_which_step() -> None:
    sim = Simulation(_child("- {step: start, tool: {kind: noop}, terminate: cancelled}"))
    caller = playbook("- {step: start, tool: {kind: playbook, path: tests/child}}")
    sim.path = catalog.register(sim.rt, caller, "caller.yaml").path
    report = sim.run()
    assert report.row.status == "failed"
    assert "step 'start' ended the execution" in str(report.error)
