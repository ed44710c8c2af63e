"""The timeout of a task that calls a playbook bounds how long it waits for it."""

from __future__ import annotations

from families import STAYS, TENFOLD, Family

from noetl.facts import events as e
from noetl.usecases import control

IN_TIME = """
- step: start
  tool: {kind: playbook, path: tests/child, input: {n: 7}, spec: {timeout: 60}}
"""
IN_A_LOOP = """
- step: start
  loop: {in: [1, 2], iterator: item, spec: {mode: parallel, max_in_flight: 2, policy: {failure: {mode: best_effort}}}}
  tool: {kind: playbook, path: tests/child, input: {n: "{{ item }}"}, spec: {timeout: 60}}
"""


def test_a_child_that_takes_too_long_is_cancelled_and_its_task_fails_with_a_timeout() -> None:
    family = Family(IN_TIME, STAYS)
    run = family.sim.start()
    family.sim.settle()
    (child,) = family.children(run)
    family.later(59)
    assert family.alive([run, child]) == [run, child]
    family.later(2)
    report = family.sim.report(run)
    assert report.error is not None
    assert (report.row.status, report.error["kind"], report.error["type"]) == (
        "failed",
        "timeout",
        "ChildTimeout",
    )
    assert family.status(child) == "cancelled"
    assert len(family.facts(run, e.ChildEnded)) == 1


def test_a_child_that_ends_in_time_is_heard_and_time_means_nothing_any_more() -> None:
    family = Family(IN_TIME, TENFOLD)
    run = family.sim.start()
    family.sim.settle()
    family.later(3600)
    assert (family.status(run), family.result(run)) == ("completed", 70)


def test_each_iteration_of_a_loop_has_its_own_time() -> None:
    family = Family(IN_A_LOOP, STAYS)
    run = family.sim.start()
    family.sim.settle()
    first, _ = family.children(run)
    control.patch_ctx(family.sim.rt, first, {"go": True})
    family.sim.settle()
    family.later(61)
    report = family.sim.report(run)
    assert report.row.status == "completed"
    assert report.steps["start"]["result"]["stats"] == {"total": 2, "completed": 1, "failed": 1}


def test_while_its_caller_is_paused_a_child_is_not_timed_out() -> None:
    family = Family(IN_TIME, STAYS)
    run = family.sim.start()
    family.sim.settle()
    control.pause(family.sim.rt, run)
    family.later(3600)
    assert family.status(run) == "paused"
    (child,) = family.children(run)
    assert family.alive([child]) == [child]
    control.resume(family.sim.rt, run)
    family.sim.settle()
    assert (family.status(run), family.status(child)) == ("failed", "cancelled")
