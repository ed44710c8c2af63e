"""A task that calls a playbook: what it hands over, what it gets back, and what may go wrong on the
way."""

from __future__ import annotations

import pytest
from families import BROKEN, CALLS, STAYS, TENFOLD, Family, called, retried

from noetl.errors import ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.usecases import catalog, control
from noetl.usecases.runtime import RuntimeLimits
from noetl.usecases.turn import deciding

# --- what goes in and what comes out -------------------------------------------------------------


def test_a_called_playbook_is_an_execution_of_its_own_and_its_result_is_the_task_s() -> None:
    family = Family()
    run = family.start()
    (child,) = family.children(run)
    assert (family.status(run), family.result(run)) == ("completed", 70)
    assert (family.status(child), family.result(child)) == ("completed", 70)
    assert family.sim.report(child).row.parent_id == run
    assert family.sim.report(run).row.parent_id is None
    family.check_log(run)


def test_nothing_is_held_while_the_child_runs() -> None:
    family = Family(child=STAYS)
    run = family.start()
    (child,) = family.children(run)
    assert family.alive([run, child]) == [run, child]
    with family.sim.rt.store.read() as tx:
        assert tx.commands.open_of(run) == []
    assert family.sim.mailbox.messages == []
    control.patch_ctx(family.sim.rt, child, {"go": True})
    family.sim.settle()
    assert family.result(run) == {"n": 7}


def test_payload_lies_over_input_and_both_over_the_workload() -> None:
    family = Family(
        "- step: start\n  tool: {kind: playbook, path: tests/child, input: {a: 1, b: 1, m: {y: 2}}, "
        "payload: {b: 2}}",
        '- step: start\n  tool: {kind: noop, input: {all: "{{ workload }}"}}',
        child_root="workload: {a: 0, b: 0, c: 0, m: {x: 1}}",
    )
    assert family.result(family.start()) == {"all": {"a": 1, "b": 2, "c": 0, "m": {"x": 1, "y": 2}}}


def test_a_payload_too_large_for_the_log_means_the_same_as_a_small_one() -> None:
    caller = (
        "- step: start\n  tool: {kind: playbook, path: tests/child, payload: {m: {y: \"{{ 'z' * 500 }}\"}}}"
    )
    child = (
        '- step: start\n  tool: {kind: noop, input: {x: "{{ workload.m.x }}", y: "{{ workload.m.y | '
        'length }}"}}'
    )
    for limit in (100, 100_000):
        family = Family(
            caller,
            child,
            child_root="workload: {m: {x: 1}}",
            limits=RuntimeLimits(inline_bytes=limit, slice_s=3600),
        )
        assert family.result(family.start()) == {"x": 1, "y": 500}


def test_a_result_too_large_for_the_log_is_handed_over_by_reference_and_read_as_a_value() -> None:
    caller = """
    - step: start
      tool:
        - call: {kind: playbook, path: tests/child, set: {ctx.size: "{{ result.text | length }}"}}
        - after: {kind: python, code: "result = [size, len(text)]", input: {size: "{{ ctx.size }}", text: "{{ call.text }}"}}
    """
    child = "- step: start\n  tool: {kind: python, code: \"result = {'text': 'z' * 5000}\"}"
    family = Family(caller, child, limits=RuntimeLimits(inline_bytes=200, slice_s=3600))
    run = family.start()
    assert family.result(run) == [5000, 5000]
    assert longest_event(family, run) < 2000


def test_the_result_of_a_child_s_loop_does_not_swell_the_caller_s_log() -> None:
    child = (
        '- step: start\n  loop: {in: "{{ range(300) | list }}", iterator: i}\n  tool: {kind: noop, '
        'input: {i: "{{ i }}"}}'
    )
    family = Family(child=child, limits=RuntimeLimits(inline_bytes=400, slice_s=3600))
    run = family.start()
    assert family.result(run)["stats"] == {"total": 300, "completed": 300, "failed": 0}
    assert longest_event(family, run) < 2000


def longest_event(family: Family, run: str) -> int:
    return max(len(str(event.fact)) for event in family.sim.events(run))


def test_return_step_names_the_step_whose_result_is_wanted() -> None:
    child = TENFOLD + '  next: end\n- step: end\n  tool: {kind: noop, input: {last: "{{ start }}"}}\n'
    family = Family(child=child)
    assert family.result(family.start()) == {"last": 70}
    wanted = Family(CALLS.replace("input:", "return_step: start, input:"), child)
    assert wanted.result(wanted.start()) == 70


def test_a_return_step_that_the_child_does_not_have_fails_the_call_before_there_is_a_child() -> None:
    family = Family(CALLS.replace("input:", "return_step: strat, input:"))
    run = family.start()
    error = family.sim.report(run).error
    assert error is not None
    assert (error["kind"], error["type"], error["task"]) == ("client_error", "UnknownStep", "task_0")
    assert "no step 'strat' to return. Did you mean 'start'?" in error["message"]
    assert family.children(run) == []
    family.check_log(run)


def test_a_return_step_that_did_not_run_yields_null_and_a_warning() -> None:
    child = TENFOLD + "  next: {arcs: [{step: never, when: false}]}\n- step: never\n  tool: {kind: noop}\n"
    family = Family(CALLS.replace("input:", "return_step: never, input:"), child)
    run = family.start()
    assert (family.status(run), family.result(run)) == ("completed", None)
    (warning,) = family.facts(run, e.TaskDone)[0].meta["warnings"]
    assert "step 'never' of playbook 'tests/child'" in warning
    assert "did not run" in warning
    family.check_log(run)


def test_a_version_is_called_as_it_was_and_none_means_the_newest() -> None:
    for version, result in (("version: 1, ", 70), ("", 7)):
        family = Family(CALLS.replace("input:", f"{version}input:"))
        newer = TENFOLD.replace("n * 10", "n")
        catalog.register(family.sim.rt, called("tests/child", newer))
        assert family.result(family.start()) == result


def test_a_detached_child_is_not_waited_for() -> None:
    family = Family(CALLS.replace("input:", "detached: true, input:"), STAYS)
    run = family.start()
    (child,) = family.children(run)
    assert family.status(run) == "completed"
    assert family.result(run) == {"execution_id": child, "path": "tests/child", "version": 1}
    assert family.alive([child]) == [child]
    control.patch_ctx(family.sim.rt, child, {"go": True})
    family.sim.settle()
    assert family.status(child) == "completed"
    assert family.facts(run, e.ChildEnded) == []


def test_steps_of_a_child_see_the_iteration_that_called_them() -> None:
    caller = """
    - step: start
      loop: {in: [a, b], iterator: item}
      tool: {kind: playbook, path: tests/child}
    """
    child = """
    - step: start
      tool: {kind: noop, input: {item: "{{ iter.parent.item }}", index: "{{ iter.parent.index }}"}}
    """
    family = Family(caller, child)
    assert family.result(family.start())["results"] == [{"item": "a", "index": 0}, {"item": "b", "index": 1}]


# --- children that do not end well ---------------------------------------------------------------


def test_a_failed_child_fails_its_task_with_the_child_s_reason() -> None:
    family = Family(child=BROKEN)
    run = family.start()
    error = family.sim.report(run).error
    assert family.status(run) == "failed"
    assert error is not None
    assert (error["kind"], error["step"]) == ("child", "start")
    assert "no luck" in error["message"]
    assert family.children(run)[0] in error["message"]


def test_a_partial_child_fails_its_task() -> None:
    branches = (
        "- step: start\n  next: [a, b]\n- step: a\n  tool: {kind: noop}\n" + BROKEN.replace("start", "b")[1:]
    )
    family = Family(
        child=branches, child_root="executor: {spec: {policy: {failure: {mode: best_effort}}}}\nworkload: {}"
    )
    run = family.start()
    assert family.status(family.children(run)[0]) == "partial"
    assert family.status(run) == "failed"
    assert "partial" in family.sim.report(run).error["message"]  # type: ignore[index]


def test_a_cancelled_child_fails_its_task() -> None:
    family = Family(child=STAYS)
    run = family.start()
    control.cancel(family.sim.rt, family.children(run)[0], "by hand")
    family.sim.settle()
    assert family.status(run) == "failed"
    assert family.sim.report(run).error["message"].endswith("was cancelled: by hand.")  # type: ignore[index]


def test_a_child_that_does_not_accept_its_payload_fails_its_task() -> None:
    family = Family(child_root='workload: {n: 1, bad: "{{ 1 / (n - 7) }}"}')
    run = family.start()
    assert family.status(family.children(run)[0]) == "failed"
    assert "workload" in family.sim.report(run).error["message"]  # type: ignore[index]


def test_a_child_that_the_engine_cannot_decide_fails_its_task(monkeypatch: pytest.MonkeyPatch) -> None:
    family, go_on = Family(), deciding.Course.go_on

    def defective(course: deciding.Course, **known: object) -> None:
        if course.state.parent is not None and course.state.started:
            raise RuntimeError("a defect")
        go_on(course, **known)

    monkeypatch.setattr(deciding.Course, "go_on", defective)
    run = family.start()
    assert family.status(run) == "failed"
    assert "a defect" in family.sim.report(run).error["message"]  # type: ignore[index]


def test_a_caller_that_the_engine_cannot_decide_leaves_no_child_behind(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    family, go_on = Family(child=STAYS), deciding.Course.go_on
    run = family.start()

    def defective(course: deciding.Course, **known: object) -> None:
        if course.state.parent is None:
            raise RuntimeError("a defect")
        go_on(course, **known)

    monkeypatch.setattr(deciding.Course, "go_on", defective)
    control.patch_ctx(family.sim.rt, run, {"any": 1})
    family.sim.settle()
    assert [family.status(one) for one in family.everybody(run)] == ["failed", "cancelled"]


@pytest.mark.parametrize(
    ("call", "says"),
    [("path: tests/chlid", "tests/child"), ("path: tests/child, version: 9", "no version 9")],
)
def test_a_playbook_that_is_not_there_fails_the_task_and_names_what_is(call: str, says: str) -> None:
    family = Family(f"- step: start\n  tool: {{kind: playbook, {call}}}")
    run = family.start()
    assert family.status(run) == "failed"
    assert says in family.sim.report(run).error["message"]  # type: ignore[index]
    assert family.children(run) == []
    family.check_log(run)


def test_a_playbook_that_no_longer_compiles_fails_the_task_and_not_the_engine(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    caller = (
        CALLS + "  next: {arcs: [{step: end, when: \"{{ outcome.status == 'error' }}\"}]}\n- step: end\n  "
        'tool: {kind: noop, input: {why: "handled"}}\n'
    )
    family = Family(caller)
    with family.sim.rt.store.begin() as tx:
        row = tx.playbooks.get("tests/child")
        assert row is not None
        kinds = {kind: info for kind, info in family.sim.rt.kinds.items() if kind != "python"}
        monkeypatch.setattr(family.sim.rt.compiled, "get", lambda _: None)
    object.__setattr__(family.sim.rt, "kinds", kinds)
    run = family.start()
    assert (family.status(run), family.result(run)) == ("completed", {"why": "handled"})


def test_calls_nest_so_deep_and_no_deeper() -> None:
    recursive = (
        '- step: start\n  tool: {kind: playbook, path: tests/child, input: {n: "{{ workload.n + 1 }}"}}\n'
    )
    family = Family(child=recursive, limits=RuntimeLimits(max_depth=4, slice_s=3600))
    run = family.start()
    assert [family.status(one) for one in family.everybody(run)] == ["failed"] * 4
    assert "limit" in family.sim.report(run).error["message"]  # type: ignore[index]


# --- retries and jumps ---------------------------------------------------------------------------


def flaky() -> dict[str, object]:
    """`python` fails at its first call, wherever it is."""
    calls: list[Call] = []

    def python(call: Call) -> Json:
        calls.append(call)
        if len(calls) == 1:
            raise ToolError("python", "not yet")
        return call.args["n"]

    return {"python": python}


@pytest.mark.parametrize("delay", [0, 0.01, 5])
def test_a_retry_after_a_failed_child_calls_another_one(delay: float) -> None:
    caller = (
        f"- step: start\n  tool: {retried('kind: playbook, path: tests/child, input: {n: 7}', delay=delay)}"
    )
    family = Family(caller, tools=flaky())  # type: ignore[arg-type]
    run = family.start()
    family.later()
    first, second = family.children(run)
    assert [family.status(one) for one in (first, second)] == ["failed", "completed"]
    assert (family.status(run), family.result(run)) == ("completed", 7)
    family.check_log(run)


def test_a_retry_of_a_playbook_that_is_missing_looks_again() -> None:
    caller = f"- step: start\n  tool: {retried('kind: playbook, path: tests/late, input: {n: 7}', delay=5)}"
    family = Family(caller)
    run = family.start()
    assert family.children(run) == []
    catalog.register(family.sim.rt, called("tests/late", TENFOLD))
    family.later(6)
    assert (family.status(run), family.result(run)) == ("completed", 70)


def test_a_task_that_a_jump_returns_to_calls_another_child() -> None:
    caller = """
    - step: start
      tool:
        - call: {kind: playbook, path: tests/child, input: {n: "{{ (_prev or {}).n | default(1) }}"}}
        - judge:
            kind: noop
            input: {n: "{{ call }}"}
            spec: {policy: {rules: [{when: "{{ call < 100 }}", then: {do: jump, to: call}}, {else: {then: {do: break}}}]}}
    """
    family = Family(caller)
    run = family.start()
    assert [family.result(one) for one in family.children(run)] == [10, 100]
    assert family.result(run) == {"n": 100}
    assert len(set(family.children(run))) == 2


def test_tasks_before_the_call_are_not_run_again_and_those_behind_see_its_result() -> None:
    caller = """
    - step: start
      tool:
        - before: {kind: python, code: "result = 3"}
        - call: {kind: playbook, path: tests/child, input: {n: "{{ before }}"}}
        - again: {kind: playbook, path: tests/child, input: {n: "{{ call }}"}}
        - after: {kind: python, code: "result = [before, call, again]", input: {before: "{{ before }}", call: "{{ call }}", again: "{{ again }}"}}
    """
    family = Family(caller)
    run = family.start()
    assert family.result(run) == [3, 30, 300]
    mine = [call.task for call in family.sim.tools.calls if call.where.execution_id == run]
    assert mine == ["before", "call", "again", "after"]


def test_an_answer_counts_though_the_input_can_no_longer_be_rendered() -> None:
    """What the child came to is a fact; what its input was made of may have changed meanwhile."""
    caller = (
        '- step: start\n  tool: {kind: playbook, path: tests/child, input: {n: "{{ 14 / (ctx.by | '
        'default(2)) }}"}}'
    )
    family = Family(caller, STAYS)
    run = family.start()
    control.patch_ctx(family.sim.rt, run, {"by": 0})
    control.patch_ctx(family.sim.rt, family.children(run)[0], {"go": True})
    family.sim.settle()
    assert (family.status(run), family.result(run)) == ("completed", {"n": 7})
