"""Loops whose iterations call playbooks: how many at once, in which order, and what a failure
stops."""

from __future__ import annotations

import pytest
from families import STAYS, TENFOLD, Family, loop_of_calls, retried

from noetl.errors import ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.facts.reference import is_reference
from noetl.pipeline.model import Call, Later
from noetl.usecases import control
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import RuntimeLimits
from noetl.usecases.work.lanes import run_lane

BEST = "mode: parallel, max_in_flight: 2, policy: {failure: {mode: best_effort}}"
STATS = {"total": 4, "completed": 4, "failed": 0}


def odd_fails(call: Call) -> Json:
    if call.args["n"] % 2:
        raise ToolError("python", f"{call.args['n']} is odd")
    return call.args["n"]


def go(family: Family, child: str) -> None:
    control.patch_ctx(family.sim.rt, child, {"go": True})
    family.sim.settle()


@pytest.mark.parametrize("width", [1, 2, 3, 16])
def test_never_more_children_than_slots_live_at_once_and_results_keep_the_order_of_items(width: int) -> None:
    family = Family(loop_of_calls("[5, 6, 7, 8, 9, 10]", f"mode: parallel, max_in_flight: {width}"), STAYS)
    run = family.start()
    seen = []
    while alive := family.alive(family.children(run)):
        seen.append(len(alive))
        go(family, alive[-1])  # those that began last end first
    assert max(seen) == min(width, 6)
    assert family.status(run) == "completed"
    assert family.result(run)["results"] == [{"n": n} for n in (5, 6, 7, 8, 9, 10)]
    family.check_log(run)


def test_while_all_slots_wait_nothing_is_open_and_time_changes_nothing() -> None:
    family = Family(loop_of_calls(), STAYS)
    run = family.start()
    for _ in range(3):
        family.later(3600)
        assert len(family.alive(family.children(run))) == len(family.children(run)) == 2
    with family.sim.rt.store.read() as tx:
        assert tx.commands.open_of(run) == []


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_forty_children_each_called_once(mode: str) -> None:
    family = Family(loop_of_calls('"{{ range(40) | list }}"', f"mode: {mode}, max_in_flight: 8"))
    run = family.start()
    assert family.result(run)["results"] == [n * 10 for n in range(40)]
    assert len(family.children(run)) == len(set(family.children(run))) == 40
    assert len(family.facts(run, e.ChildEnded)) == 40


def test_a_sequential_loop_sees_what_earlier_iterations_wrote() -> None:
    tasks = """
    - call: {kind: playbook, path: tests/child, input: {n: "{{ item + (ctx.sum | default(0)) }}"}}
    - keep: {kind: noop, input: {n: "{{ call }}"}, set: {ctx.sum: "{{ result.n }}"}}
    """
    family = Family(loop_of_calls("[1, 2, 3]", "mode: sequential", tasks))
    run = family.start()
    assert family.result(run)["results"] == [{"n": 10}, {"n": 120}, {"n": 1230}]
    assert family.sim.report(run).ctx == {"sum": 1230}
    family.check_log(run)


def test_a_call_may_write_ctx_in_a_sequential_loop() -> None:
    tasks = """
    - call: {kind: playbook, path: tests/child, input: {n: "{{ item + (ctx.sum | default(0)) }}"}, set: {ctx.sum: "{{ result }}"}}
    """
    family = Family(loop_of_calls("[1, 2, 3]", "mode: sequential", tasks))
    assert family.result(family.start())["results"] == [10, 120, 1230]


def test_tasks_around_a_call_run_once_in_each_iteration() -> None:
    tasks = """
    - before: {kind: python, code: "result = n + 1", input: {n: "{{ item }}"}}
    - call: {kind: playbook, path: tests/child, input: {n: "{{ before }}"}}
    - after: {kind: python, code: "result = [before, call]", input: {before: "{{ before }}", call: "{{ call }}"}}
    """
    family = Family(loop_of_calls(tasks=tasks))
    run = family.start()
    assert family.result(run)["results"] == [[n + 1, (n + 1) * 10] for n in (1, 2, 3, 4)]
    mine = [
        (call.where.iteration, call.task) for call in family.sim.tools.calls if call.where.execution_id == run
    ]
    assert sorted(mine) == sorted((i, task) for i in range(4) for task in ("before", "call", "after"))


def test_best_effort_calls_them_all_and_keeps_errors_beside_results() -> None:
    family = Family(loop_of_calls(spec=BEST), tools={"python": odd_fails})
    run = family.start()
    result = family.result(run)
    assert result["results"] == [None, 2, None, 4]
    assert result["stats"] == {"total": 4, "completed": 2, "failed": 2}
    assert [error and error["kind"] for error in result["errors"]] == ["child", None, "child", None]
    family.check_log(run)


def test_a_failed_child_stops_the_loop_and_cancels_those_that_run() -> None:
    tasks = """
    - call: {kind: playbook, path: "{{ 'tests/child' if item != 3 else 'tests/breaks' }}", input: {n: "{{ item }}"}}
    """
    family = Family(
        loop_of_calls("[1, 2, 3, 4, 5]", "mode: parallel, max_in_flight: 3", tasks),
        STAYS,
        tools={"python": odd_fails},
        breaks=TENFOLD,
    )
    run = family.start()
    assert family.status(run) == "failed"
    assert sorted(family.status(child) for child in family.children(run)) == [
        "cancelled",
        "cancelled",
        "failed",
    ]
    family.check_log(run)


def test_a_loop_that_has_failed_calls_nobody_while_it_waits_for_its_last_lane() -> None:
    tasks = """
    - first: {kind: python, code: "x", input: {n: "{{ item }}"}}
    - call: {kind: playbook, path: tests/child, input: {n: "{{ item }}"}}
    """
    family = Family(
        loop_of_calls("[2, 1, 4]", "mode: parallel, max_in_flight: 3", tasks), STAYS, {"python": odd_fails}
    )
    run = family.sim.start()
    family.sim.deliver()
    calling, failing, held = (
        message.command for message in family.sim.mailbox.messages if message.command is not None
    )
    family.sim.mailbox.messages.clear()
    assert failing is not None
    assert calling is not None
    assert held is not None
    with family.sim.rt.store.begin() as tx:
        # Another worker is at it, and will be for a while.
        now = family.sim.now
        assert tx.commands.claim(held.command_id, "slow", now, now.replace(year=now.year + 1), 5)
    run_lane(family.sim.worker, calling.command_id)
    run_lane(family.sim.worker, failing.command_id)
    family.sim.settle()
    assert family.alive([run]) == [run]
    assert family.children(run) == []


def test_an_iteration_whose_child_failed_may_call_another() -> None:
    calls: list[Json] = []

    def once(call: Call) -> Json:
        calls.append(call.args["n"])
        if calls.count(call.args["n"]) == 1:
            raise ToolError("python", "not yet")
        return call.args["n"]

    for delay in (0, 5):
        calls.clear()
        task = retried('kind: playbook, path: tests/child, input: {n: "{{ item }}"}', delay=delay)
        family = Family(loop_of_calls(tasks=f"\n- call: {task}"), tools={"python": once})
        run = family.start()
        for _ in range(6):
            family.later(6)
        assert family.result(run) == {"results": [1, 2, 3, 4], "stats": STATS}
        assert len(set(family.children(run))) == 8
        family.check_log(run)


def test_cancelling_the_caller_of_many_reaches_all_of_them() -> None:
    family = Family(loop_of_calls('"{{ range(50) | list }}"', "mode: parallel, max_in_flight: 20"), STAYS)
    run = family.start()
    assert len(family.alive(family.children(run))) == 20
    control.cancel(family.sim.rt, run)
    family.sim.settle()
    assert {family.status(one) for one in family.everybody(run)} == {"cancelled"}
    assert len(family.children(run)) == 20


def test_a_paused_loop_gives_no_slot_away_and_takes_none() -> None:
    family = Family(loop_of_calls(), STAYS)
    run = family.start()
    control.pause(family.sim.rt, run)
    family.sim.settle()
    for child in family.children(run):
        go(family, child)
    assert len(family.children(run)) == 2
    control.resume(family.sim.rt, run)
    family.sim.settle()
    assert len(family.alive(family.children(run))) == 2
    assert len(family.children(run)) == 4


def test_detached_calls_of_a_loop_are_not_waited_for() -> None:
    tasks = "\n- call: {kind: playbook, path: tests/child, detached: true}\n"
    family = Family(loop_of_calls(tasks=tasks), STAYS)
    run = family.start()
    assert family.result(run)["stats"] == STATS
    assert [one["execution_id"] for one in family.result(run)["results"]] == family.children(run)
    assert len(family.alive(family.children(run))) == 4


def test_a_lane_that_dies_loses_no_child_and_doubles_none() -> None:
    deaths = iter([False, True, False, False, True])

    class Death(BaseException):
        pass

    def mortal(call: Call) -> Json:
        if next(deaths, False):
            raise Death
        return original(call)

    family = Family(loop_of_calls("[1, 2, 3, 4, 5, 6]"), TENFOLD)
    original = family.sim.tools._functions["playbook"]
    family.sim.tools._functions = {**family.sim.tools._functions, "playbook": mortal}
    run = family.sim.start()
    for _ in range(8):
        try:
            family.sim.settle()
        except Death:
            continue
        if family.status(run) in ENDED:
            break
        family.sim.pass_time(31)
    assert family.result(run)["results"] == [10, 20, 30, 40, 50, 60]
    assert len(family.children(run)) == 6
    family.check_log(run)


# --- waits with a due time -----------------------------------------------------------------------


def polls(call: Call) -> Json | Later:
    """Done at its third call."""
    seen = call.checkpoint or 0
    return Later(30, seen + 1) if seen < 2 else {"seen": seen}


def test_an_iteration_that_waits_keeps_its_slot_and_its_checkpoint() -> None:
    sim = Family(loop_of_calls("[1, 2, 3, 4, 5]"), tools={"playbook": polls}).sim
    run = sim.start()
    sim.settle()
    assert len(sim.tools.calls) == 2
    for _ in range(10):
        sim.pass_time(31)
        sim.settle()
    assert sim.report(run).result["results"] == [{"seen": 2}] * 5
    assert len(sim.tools.calls) == 15
    assert sim.types(run).count("task.checkpointed") == 10


def test_a_step_that_polls_leaves_its_worker_between_polls() -> None:
    sim = Family(tools={"playbook": polls}).sim
    run = sim.start()
    sim.settle()
    for _ in range(2):
        assert sim.types(run)[-3:] == ["task.checkpointed", "step.suspended", "command.issued"]
        sim.pass_time(29)
        assert sim.mailbox.messages == []
        sim.pass_time(2)
        sim.settle()
    assert sim.report(run).result == {"seen": 2}
    assert [call.checkpoint for call in sim.tools.calls] == [None, 1, 2]
    assert len({call.idempotency_key for call in sim.tools.calls}) == 1


def test_a_worker_that_dies_in_a_later_poll_goes_on_from_the_checkpoint() -> None:
    class Death(BaseException):
        pass

    def mortal(call: Call) -> Json | Later:
        calls.append(call.checkpoint)
        if len(calls) == 2:
            raise Death
        return polls(call)

    calls: list[Json] = []
    sim = Family(tools={"playbook": mortal}).sim
    run = sim.start()
    sim.settle()
    sim.pass_time(31)
    with pytest.raises(Death):
        sim.settle()
    for _ in range(3):
        sim.pass_time(31)
        sim.settle()
    assert sim.report(run).result == {"seen": 2}
    assert calls == [None, 1, 1, 2]


def test_a_checkpoint_too_large_for_the_log_is_kept_by_reference_and_handed_over_as_a_value() -> None:
    def hoards(call: Call) -> Json | Later:
        seen = call.checkpoint or {"text": "z" * 5000, "n": 0}
        if len(family.sim.tools.calls) > 3:
            return {"n": seen["n"]}
        return Later(30, {**seen, "n": min(seen["n"] + 1, 2)})

    family = Family(tools={"playbook": hoards}, limits=RuntimeLimits(inline_bytes=200, slice_s=3600))
    run = family.start()
    for _ in range(4):
        family.later(31)
    assert family.result(run) == {"n": 2}
    kept = family.facts(run, e.TaskCheckpointed)
    assert len(kept) == 2, "what did not change was recorded again"
    assert all(is_reference(fact.checkpoint) for fact in kept)


def test_a_lease_that_runs_out_between_polls_harms_nothing() -> None:
    """Nobody holds a command while the task waits: there is no lease that could run out."""
    sim = Family(tools={"playbook": polls}, limits=RuntimeLimits(slice_s=3600, max_deliveries=1)).sim
    run = sim.start()
    sim.settle()
    for _ in range(3):
        sim.pass_time(3600)
        sim.settle()
    assert sim.report(run).result == {"seen": 2}
    assert "command.lost" not in sim.types(run)


def test_a_poll_that_is_cancelled_between_its_calls_is_not_called_again() -> None:
    sim = Family(tools={"playbook": polls}).sim
    run = sim.start()
    sim.settle()
    control.cancel(sim.rt, run)
    sim.settle()
    sim.pass_time(3600)
    sim.settle()
    assert sim.report(run).row.status == "cancelled"
    assert len(sim.tools.calls) == 1
