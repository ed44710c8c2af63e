"""Loops that tasks have of their own: scopes, failures, policies, and what can happen between two
items."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import catalog

HEAD = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/test}\n"


def playbook(loop: str, more: str = "", around: str = "", after: str = "") -> str:
    return (
        f"{HEAD}workload: {{xs: [1, 2, 3]}}\nworkflow:\n  - step: start\n{around}    tool:\n"
        f'      - name: one\n        kind: python\n        code: result = 1\n        input: {{x: "{{{{ x '
        f'}}}}"}}\n'
        f"        loop: {loop}\n{more}{after}"
    )


LOOP = '{in: "{{ xs }}", iterator: x}'


def double(call: Call) -> Json:
    return call.args["x"] * 2


def run(text: str, tool: Any = double) -> tuple[Any, Simulation]:
    simulation = Simulation(text, {"python": tool})
    return simulation.run(), simulation


def calls(simulation: Simulation) -> list[Call]:
    return [call for call in simulation.tools.calls if call.kind == "python"]


def test_the_result_has_those_of_all_items_in_their_order_and_counts_them() -> None:
    report, _ = run(playbook(LOOP))
    assert report.result == {"results": [2, 4, 6], "stats": {"total": 3, "completed": 3, "failed": 0}}


@pytest.mark.parametrize(
    ("collection", "results"),
    [("null", []), ("[]", []), ("7", [14]), ("'{{ nothing }}'", []), ("'{{ xs[1] }}'", [4])],
)
def test_null_is_empty_and_a_scalar_is_one_element(collection: str, results: list[int]) -> None:
    report, _ = run(playbook(f"{{in: {collection}, iterator: x}}"))
    assert report.result["results"] == results
    assert report.result["stats"]["total"] == len(results)


def test_a_mapping_is_one_element() -> None:
    report, _ = run(playbook("{in: {a: 1}, iterator: x}"), lambda call: call.args["x"])
    assert report.result["results"] == [{"a": 1}]


SCOPE = """
        set: {n: "{{ output.stats.total }}"}
      - {name: see, kind: noop, input: {all: "{{ one.results }}", n: "{{ n }}", left: "{{ x | default('gone') }}"}}
"""


def test_an_item_sees_its_own_scope_and_later_tasks_do_not() -> None:
    text = playbook(LOOP, after=SCOPE).replace(
        '{x: "{{ x }}"}',
        '{x: "{{ [x, iter.x, iter.index, loop_index, iter.parent is none] }}"}',
    )
    report, _ = run(text, lambda call: call.args["x"])
    assert report.result == {
        "all": [[n, n, n - 1, n - 1, True] for n in (1, 2, 3)],
        "n": 3,
        "left": "gone",
    }


def test_in_a_step_that_loops_the_parent_is_the_iteration() -> None:
    text = playbook('{in: "{{ iter.row.cells }}", iterator: x}').replace(
        '{x: "{{ x }}"}',
        '{x: "{{ [x, row.id, iter.parent.row.id, iter.parent.index, iter.index, loop_index] }}"}',
    )
    around = (
        "    loop: {in: [{id: a, cells: [1, 2]}, {id: b, cells: [3]}], iterator: row, spec: {mode: %s}}\n"
    )
    for mode in ("sequential", "parallel"):
        report, _ = run(text.replace("    tool:", around % mode + "    tool:"), lambda call: call.args["x"])
        assert report.row.status == "completed", report.error
        assert [one["results"] for one in report.result["results"]] == [
            [[1, "a", "a", 0, 0, 0], [2, "a", "a", 0, 1, 1]],
            [[3, "b", "b", 1, 0, 0]],
        ]


def failing(*items: int) -> Any:
    def tool(call: Call) -> Json:
        if call.args["x"] in items:
            raise ToolError("server_error", f"No {call.args['x']}.")
        return double(call)

    return tool


def test_an_item_that_fails_fails_the_task_and_no_other_one_starts() -> None:
    report, simulation = run(playbook(LOOP), failing(2))
    assert report.row.status == "failed"
    error = report.error or {}
    assert (error["task"], error["item"], error["message"]) == ("one", 1, "No 2.")
    assert error["stats"] == {"total": 3, "completed": 1, "failed": 1}
    assert len(calls(simulation)) == 2


@pytest.mark.parametrize(
    ("failure", "status"),
    [
        ("{mode: best_effort}", "completed"),
        ("{tolerate: {count: 2}}", "completed"),
        ("{tolerate: {percent: 67}}", "completed"),
        ("{tolerate: {count: 1}}", "failed"),
        ("{tolerate: {percent: 50}}", "failed"),
        ("{mode: fail_fast}", "failed"),
        ("{mode: run_all}", "failed"),
        ("{mode: run_all, tolerate: {count: 2}}", "completed"),
    ],
)
def test_failures_that_the_loop_tolerates_leave_null_and_their_error(failure: str, status: str) -> None:
    loop = f"{{in: '{{{{ xs }}}}', iterator: x, spec: {{policy: {{failure: {failure}}}}}}}"
    report, _ = run(playbook(loop), failing(1, 3))
    assert report.row.status == status
    if status == "completed":
        assert report.result["results"] == [None, 4, None]
        assert [error and error["message"] for error in report.result["errors"]] == ["No 1.", None, "No 3."]
        assert report.result["stats"] == {"total": 3, "completed": 1, "failed": 2}


@pytest.mark.parametrize(
    ("failure", "called"), [("{mode: run_all}", 3), ("{tolerate: {count: 1}}", 3), ("{mode: fail_fast}", 1)]
)
def test_a_task_fails_behind_its_last_item_or_at_once_as_its_mode_says(failure: str, called: int) -> None:
    loop = f"{{in: '{{{{ xs }}}}', iterator: x, spec: {{policy: {{failure: {failure}}}}}}}"
    report, simulation = run(playbook(loop), failing(1, 2))
    assert (report.row.status, len(calls(simulation))) == ("failed", called)


RETRY = """
        spec: {policy: {rules: [
          {when: "{{ outcome.status == 'error' and _attempt < 3 }}", then: {do: retry, attempts: 3, delay: %s}},
          {when: "{{ outcome.status == 'error' }}", then: {do: %s}}]}}
"""


@pytest.mark.parametrize("delay", [0, 30])
def test_the_policy_is_that_of_each_item(delay: int) -> None:
    seen: list[int] = []

    def flaky(call: Call) -> Json:
        seen.append(call.args["x"])
        if call.args["x"] == 2 and seen.count(2) < 3:
            raise ToolError("server_error", "Busy.", retryable=True)
        return double(call)

    report, simulation = run(playbook(LOOP, RETRY % (delay, "fail")), flaky)
    assert report.result["results"] == [2, 4, 6]
    assert seen == [1, 2, 2, 2, 3]
    keys = [call.idempotency_key for call in calls(simulation)]
    assert [keys.index(key) for key in keys] == [0, 1, 1, 1, 4]
    assert [call.attempt for call in calls(simulation)] == [1, 1, 2, 3, 1]


@pytest.mark.parametrize("do", ["continue", "break"])
def test_an_item_whose_policy_goes_on_counts_as_completed_and_is_null(do: str) -> None:
    report, _ = run(
        playbook(LOOP, RETRY % (0, do), after=SCOPE.partition("\n")[2].partition("\n")[2]), failing(2)
    )
    assert report.result["all"] == [2, None, 6]


def test_a_jump_leaves_the_loop_with_what_there_is() -> None:
    rule = "        spec: {policy: {rules: [{when: '{{ result == 4 }}', then: {do: jump, to: see}}]}}\n"
    see = '      - {name: never, kind: noop}\n      - {name: see, kind: noop, input: {o: "{{ one }}"}}\n'
    report, _ = run(playbook(LOOP, rule, after=see))
    assert report.result == {"o": {"results": [2, 4], "stats": {"total": 3, "completed": 2, "failed": 0}}}


def test_a_jump_back_begins_the_loop_again() -> None:
    again = """      - name: again
        kind: noop
        spec: {policy: {rules: [{when: "{{ ctx.turn is not defined }}", then: {do: jump, to: one, set: {ctx.turn: 1}}}]}}
"""
    report, simulation = run(playbook(LOOP, after=again))
    assert report.row.status == "completed", report.error
    assert [call.args["x"] for call in calls(simulation)] == [1, 2, 3, 1, 2, 3]
    assert len({call.idempotency_key for call in calls(simulation)}) == 6


def test_what_a_rule_assigns_to_the_scope_of_an_item_is_gone_with_it() -> None:
    rules = """        spec: {policy: {rules: [
          {when: "{{ iter.tried is not defined }}", then: {do: retry, attempts: 2, set: {iter.tried: "{{ x }}"}}},
          {else: {do: continue, set: {ctx.sum: "{{ (ctx.sum | default(0)) + iter.tried }}"}}}]}}
"""
    report, simulation = run(playbook(LOOP, rules))
    assert report.row.status == "completed", report.error
    assert report.ctx == {"sum": 6}
    assert len(calls(simulation)) == 6


def test_a_collection_that_cannot_be_evaluated_fails_the_task() -> None:
    report, _ = run(playbook("{in: '{{ 1 / 0 }}', iterator: x}"))
    error = report.error or {}
    assert (report.row.status, error["kind"], error["task"]) == ("failed", "template", "one")
    assert "The loop of task 'one'" in error["message"]


def test_more_items_than_a_task_may_have_are_refused_before_the_first() -> None:
    report, simulation = run(playbook("{in: '{{ range(10001) | list }}', iterator: x}"))
    assert (report.error or {})["kind"] == "limit"
    assert "on a step" in (report.error or {})["message"]
    assert calls(simulation) == []


def test_each_item_is_in_the_log_before_the_next_one_and_none_is_run_again_after_a_crash() -> None:
    whole = Simulation(playbook(LOOP), {"python": double})
    kept = [event.fact for event in whole.events(whole.run().row.execution_id)]
    items = [fact.item for fact in kept if isinstance(fact, e.TaskItemDone)]
    assert items == [0, 1, 2]
    died: list[int] = []

    def dying(call: Call) -> Json:
        if call.args["x"] == 2 and not died:
            died.append(2)
            raise KeyboardInterrupt
        return double(call)

    simulation = Simulation(playbook(LOOP), {"python": dying})
    execution_id = simulation.start()
    with pytest.raises(KeyboardInterrupt):
        simulation.settle()
    simulation.pass_time(120)
    simulation.settle()
    assert simulation.report(execution_id).result["results"] == [2, 4, 6]
    assert [call.args["x"] for call in calls(simulation)] == [1, 2, 2, 3]


def test_a_thousand_small_items() -> None:
    report, _ = run(playbook("{in: '{{ range(1000) | list }}', iterator: x}"))
    assert report.row.status == "completed", report.error
    assert report.result["stats"] == {"total": 1000, "completed": 1000, "failed": 0}


def test_playbooks_are_called_one_after_another_and_see_the_item_as_their_parent() -> None:
    child = (
        "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: c, path: tests/child}\nworkflow:\n"
        '  - step: end\n    tool: {kind: noop, input: {p: "{{ [iter.parent.x, iter.parent.index] }}"}}\n'
    )
    text = playbook(LOOP).replace(
        "kind: python\n        code: result = 1\n", "kind: playbook\n        path: tests/child\n"
    )
    simulation = Simulation(text)
    catalog.register(simulation.rt, child, "child.yaml")
    report = simulation.run()
    assert report.row.status == "completed", report.error
    assert [one["p"] for one in report.result["results"]] == [[1, 0], [2, 1], [3, 2]]
