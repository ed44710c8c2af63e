"""A decision says what its events ask for: commands, loops, children, notifications, what is
withdrawn."""

from __future__ import annotations

from dataclasses import replace

from nets import plan, step

from noetl.engine.decide import decide, fail
from noetl.engine.decision import Decision
from noetl.engine.evolve import evolve
from noetl.engine.inputs import Inputs, Playbook
from noetl.engine.plan import Plan
from noetl.engine.state import State, initial_state
from noetl.facts import events as e
from noetl.facts.events import ChildCall, Draft, Parent
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import Loop
from noetl.testing import START

LOOP = Loop([1, 2, 3], "item", "parallel", 2)
REQUESTED = e.Requested("tests/test", 1, "digest")


def after(state: State, *drafts: Draft | e.Fact) -> State:
    for one in drafts:
        state = evolve(state, one if isinstance(one, Draft) else Draft(one))
    return state


def begin(on: Plan, requested: e.Requested = REQUESTED) -> Decision:
    return decide(on, after(initial_state("1"), requested), Inputs(now=START))


def test_the_state_of_a_decision_is_that_before_it_with_its_events_folded_in() -> None:
    decision = begin(plan(step("start", "end"), step("end")))
    assert decision.after == after(after(initial_state("1"), REQUESTED), *decision.drafts)


def test_a_command_brings_what_its_step_reads_as_of_the_event_that_issued_it() -> None:
    (command,) = begin(plan(step("start"))).commands
    assert (command.step, command.run_id, command.iteration) == ("start", "start#1", None)
    assert command.context["digest"] == "digest"
    assert command.context["issued"] == 5


def test_a_loop_is_opened_before_its_lanes_take_from_it() -> None:
    decision = begin(plan(step("start", loop=LOOP)))
    assert [(loop.run_id, loop.generation, loop.count, loop.items) for loop in decision.loops] == [
        ("start#1", 1, 3, [1, 2, 3])
    ]
    assert [command.fact.part for command in decision.commands] == ["l0", "l1"]


def test_lanes_that_are_gone_come_back_for_what_is_missing_alone() -> None:
    on = plan(step("start", loop=LOOP))
    ended = Draft(e.IterationDone("task_0"), step="start", run_id="start#1", iteration=1)
    state = after(begin(on).after, ended)
    (loop,) = decide(on, state, Inputs(now=START)).loops
    assert (loop.generation, loop.count, loop.indices) == (2, 3, (0, 2))


def test_a_failed_loop_hands_out_nothing_more_while_its_lanes_work() -> None:
    on = plan(step("start", loop=LOOP))
    first = begin(on)
    failed = Draft(e.IterationFailed(ErrorInfo("python", "no")), step="start", run_id="start#1", iteration=0)
    held = {command.fact.command_id: True for command in first.commands}
    decision = decide(on, after(first.after, failed), Inputs(now=START, commands=held))
    assert (decision.closed_loops, decision.drafts, decision.closed_commands) == (("start#1",), (), ())


def test_the_end_of_a_cancellation_withdraws_runs_and_closes_their_commands() -> None:
    on = plan(step("start"))
    first = begin(on)
    state = after(first.after, e.CancelRequested(START.isoformat(), "enough"))
    decision = decide(on, state, Inputs(now=START))
    assert decision.ends
    assert decision.closed_commands == tuple(command.fact.command_id for command in first.commands)
    assert [(one.run.id, one.context["digest"]) for one in decision.withdrawn] == [("start#1", "digest")]


def test_a_child_is_made_with_its_call_and_told_when_nobody_waits_for_it() -> None:
    on = plan(step("start"))
    called = e.StepSuspended("task_0", "playbook", None, ChildCall("tests/kid"))
    state = after(begin(on).after, Draft(called, step="start", run_id="start#1"))
    inputs = Inputs(now=START, playbook=lambda path, _: Playbook(path, 3, "kid", ()))
    made = decide(on, state, inputs)
    (child,) = made.children
    assert (child.fact.path, child.fact.playbook_version, child.call.step) == ("tests/kid", 3, "start")
    over = after(made.after, e.CancelRequested(START.isoformat(), "enough"))
    (told,) = decide(on, over, inputs).notifications
    assert (told.purpose, told.to, told.run_id) == ("cancel", child.fact.child_id, "start#1")


def test_the_caller_learns_of_the_end_and_of_waits_once() -> None:
    parent = Parent("7", "call", "call#1", None, "task_0", 1, None, False, None)
    on = plan(step("start"))
    first = begin(on, replace(REQUESTED, parent=parent))
    assert first.notifications == ()
    paused = after(first.after, e.PauseRequested())
    waits = decide(on, paused, Inputs(now=START, status="running"))
    assert [(one.purpose, one.to, one.context["waiting"]) for one in waits.notifications] == [
        ("waits", "7", True)
    ]
    assert decide(on, waits.after, Inputs(now=START, status="paused")).notifications == ()
    broken = fail(on, waits.after, Inputs(now=START, status="paused"), ErrorInfo("internal", "a defect"))
    assert [(one.purpose, one.context["status"]) for one in broken.notifications] == [("answer", "failed")]
    assert fail(on, broken.after, Inputs(now=START), ErrorInfo("internal", "again")).notifications == ()
