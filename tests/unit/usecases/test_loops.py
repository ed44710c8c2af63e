"""Loops as people see them: order, results, failures, suspensions, reducers."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import pytest
from playbooks import lone, playbook

from noetl.errors import ToolError
from noetl.facts.events import CommandIssued, LoopStarted
from noetl.facts.json import Json
from noetl.facts.reference import is_reference
from noetl.pipeline.model import Call
from noetl.store.sql import SqlStore
from noetl.testing import Simulation
from noetl.tools.kit.registry import kinds
from noetl.usecases.inspect import Report
from noetl.usecases.ports import Transaction
from noetl.usecases.runtime import RuntimeLimits


def loop(
    mode: str, items: str = "[1, 2, 3, 4]", spec: str = "", task: str = "code: 'result = item * 10'"
) -> str:
    return lone(f"""
        loop: {{in: {items}, iterator: item, spec: {{mode: {mode}{", " + spec if spec else ""}}}}}
        tool: {{kind: python, input: {{item: "{{{{ item }}}}", i: "{{{{ iter.index }}}}"}}, {task}}}
    """)


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_a_loop_yields_results_and_stats_in_item_order(mode: str) -> None:
    report = Simulation(loop(mode)).run()
    assert report.result == {
        "results": [10, 20, 30, 40],
        "stats": {"total": 4, "completed": 4, "failed": 0},
    }


@pytest.mark.parametrize(("items", "results"), [("null", []), ("[]", []), ("'text'", ["text"]), ("7", [7])])
def test_a_null_collection_is_empty_and_a_scalar_is_one_element(items: str, results: list[Json]) -> None:
    report = Simulation(loop("parallel", items, task="code: 'result = item'")).run()
    assert (report.row.status, report.result["results"]) == ("completed", results)


def test_iterations_know_their_index() -> None:
    assert Simulation(loop("parallel", task="code: 'result = i'")).run().result["results"] == [0, 1, 2, 3]


def test_a_sequential_loop_runs_one_after_another() -> None:
    sim = Simulation(loop("sequential"))
    sim.run()
    assert [call.where.iteration for call in sim.tools.calls] == [0, 1, 2, 3]


def test_a_loop_over_a_loop_s_results() -> None:
    report = Simulation(
        playbook("""
            - step: start
              loop: {in: "{{ [1, 2, 3] }}", iterator: x, spec: {mode: parallel}}
              tool: {kind: python, code: "result = {'n': x}", input: {x: "{{ x }}"}}
              next: end
            - step: end
              loop: {in: "{{ start.results }}", iterator: y}
              tool: {kind: python, code: "result = n + 1", input: {n: "{{ iter.y.n }}"}}
        """)
    ).run()
    assert report.result["results"] == [2, 3, 4]


def test_a_collection_too_large_for_the_log_is_kept_by_reference() -> None:
    items = '"{{ range(200) | list }}"'
    sim = Simulation(
        loop("parallel", items, "max_in_flight: 3"), limits=RuntimeLimits(inline_bytes=100, slice_s=3600)
    )
    report = sim.run()
    started = next(e.fact for e in sim.events(report.row.execution_id) if isinstance(e.fact, LoopStarted))
    assert is_reference(started.items)
    assert report.result["results"] == [10 * n for n in range(200)]


# --- failures ------------------------------------------------------------------------------------


def odd_fails(call: Call) -> Json:
    if call.args["item"] % 2:
        raise ToolError("python", f"{call.args['item']} is odd")
    return call.args["item"]


def failed_run(mode: str, spec: str = "") -> tuple[Simulation, Report]:
    sim = Simulation(loop(mode, "[2, 3, 4, 5, 6]", spec), {"python": odd_fails})
    return sim, sim.run()


def test_a_failing_iteration_stops_a_sequential_loop() -> None:
    sim, report = failed_run("sequential")
    assert [call.args["item"] for call in sim.tools.calls] == [2, 3]
    assert report.row.status == "failed"
    assert report.error is not None
    assert (report.error["message"], report.error["iteration"]) == ("3 is odd", 1)
    assert report.error["stats"] == {"total": 5, "completed": 1, "failed": 1}


@pytest.mark.parametrize("width", [1, 2, 4, 16])
def test_a_failing_iteration_stops_a_parallel_loop_whatever_its_width(width: int) -> None:
    sim, report = failed_run("parallel", f"max_in_flight: {width}")
    assert report.row.status == "failed"
    assert len(sim.tools.calls) == 2
    with sim.rt.store.read() as tx:
        assert tx.commands.open_of(report.row.execution_id) == []


def test_best_effort_runs_them_all_and_keeps_errors_beside_results() -> None:
    sim, report = failed_run("parallel", "policy: {failure: {mode: best_effort}}")
    assert report.row.status == "completed"
    assert report.result["results"] == [2, None, 4, None, 6]
    assert [error and error["message"] for error in report.result["errors"]] == [
        None,
        "3 is odd",
        None,
        "5 is odd",
        None,
    ]
    assert report.result["stats"] == {"total": 5, "completed": 3, "failed": 2}
    assert len(sim.tools.calls) == 5


@pytest.mark.parametrize(
    ("tolerate", "status"),
    [("{count: 2}", "completed"), ("{count: 1}", "failed"), ("{percent: 40}", "completed")],
)
def test_as_many_failures_as_are_tolerated_do_not_fail_the_loop(tolerate: str, status: str) -> None:
    _, report = failed_run("sequential", f"policy: {{failure: {{mode: best_effort, tolerate: {tolerate}}}}}")
    assert report.row.status == status


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
@pytest.mark.parametrize(
    ("failure", "status", "called"),
    [
        ("{mode: run_all}", "failed", 5),
        ("{mode: run_all, tolerate: {count: 1}}", "failed", 5),
        ("{mode: run_all, tolerate: {count: 2}}", "completed", 5),
        ("{mode: best_effort, tolerate: {count: 1}}", "failed", 5),
        # Lanes begin what they have taken before anybody has seen the second failure.
        ("{mode: fail_fast, tolerate: {count: 1}}", "failed", None),
        ("{mode: fail_fast, tolerate: {count: 2}}", "completed", 5),
    ],
)
def test_a_loop_fails_behind_its_last_iteration_or_at_once_as_its_mode_says(
    mode: str, failure: str, status: str, called: int | None
) -> None:
    sim, report = failed_run(mode, f"max_in_flight: 1, policy: {{failure: {failure}}}")
    assert (report.row.status, called or len(sim.tools.calls)) == (status, len(sim.tools.calls))
    if status == "failed":
        assert report.error is not None
        assert report.error["message"] == "3 is odd"
        assert report.error["stats"]["failed"] == 2


# --- ctx -----------------------------------------------------------------------------------------


def test_sequential_iterations_see_what_earlier_ones_wrote() -> None:
    report = Simulation(
        lone("""
            loop: {in: [1, 2, 3], iterator: item}
            tool:
              kind: python
              code: "result = total + item"
              input: {total: "{{ ctx.total | default(0) }}", item: "{{ item }}"}
              set: {ctx.total: "{{ result }}"}
        """)
    ).run()
    assert (report.ctx, report.result["results"]) == ({"total": 6}, [1, 3, 6])


REDUCED = """
    loop:
      in: [3, 1, 2]
      iterator: item
      spec: {mode: parallel, max_in_flight: 2, reduce: {ctx.all: append, ctx.sum: sum, ctx.low: min, ctx.map: merge}}
    tool:
      kind: python
      code: "result = item"
      input: {item: "{{ item }}"}
      set: {ctx.all: "{{ item }}", ctx.sum: "{{ item }}", ctx.low: "{{ item }}", ctx.map: {"k": "{{ item }}"}}
"""


@pytest.mark.parametrize("inline", [64 * 1024, 1])
def test_reducers_fold_in_item_order_also_values_kept_by_reference(inline: int) -> None:
    report = Simulation(lone(REDUCED), limits=RuntimeLimits(inline_bytes=inline, slice_s=3600)).run()
    assert report.ctx == {"all": [3, 1, 2], "sum": 6, "low": 1, "map": {"k": 2}}


def test_a_reducer_folds_into_what_ctx_has_already() -> None:
    report = Simulation(
        playbook("""
            - step: start
              tool: {kind: noop, set: {ctx.all: ["{{ 'x' * 300 }}"]}}
              next: each
            - step: each
              loop: {in: [1, 2], iterator: item, spec: {mode: parallel, reduce: {ctx.all: append}}}
              tool: {kind: noop, set: {ctx.all: "{{ item }}"}}
        """),
        limits=RuntimeLimits(inline_bytes=200),
    ).run()
    assert report.ctx == {"all": ["x" * 300, 1, 2]}


def test_values_that_do_not_fit_their_reducer_fail_the_step_with_the_reason() -> None:
    report = Simulation(
        lone("""
            loop: {in: [1, text], iterator: item, spec: {mode: parallel, reduce: {ctx.sum: sum}}}
            tool: {kind: noop, set: {ctx.sum: "{{ item }}"}}
        """)
    ).run()
    assert report.row.status == "failed"
    assert report.error is not None
    assert (report.error["kind"], report.error["step"]) == ("template", "start")
    assert "`sum` of ctx.sum" in report.error["message"]


# --- suspensions ---------------------------------------------------------------------------------

SLOW = """
    loop: {{in: [0, 1, 2, 3, 4], iterator: item, spec: {{mode: {mode}, max_in_flight: {width}}}}}
    tool:
      kind: http
      url: http://x
      input: {{item: "{{{{ item }}}}"}}
      spec: {{policy: {{rules: [
        {{when: "{{{{ outcome.status == 'error' }}}}", then: {{do: retry, attempts: 5, delay: 5}}}},
        {{else: {{then: {{do: continue}}}}}}]}}}}
"""


class Flaky:
    """Items of `bad` fail at their first attempts."""

    def __init__(self, bad: dict[int, int]) -> None:
        self.bad = bad
        self.order: list[tuple[int, int]] = []

    def __call__(self, call: Call) -> Json:
        item = call.args["item"]
        self.order.append((item, call.attempt))
        if call.attempt <= self.bad.get(item, 0):
            raise ToolError("server_error", "503")
        return item


@pytest.mark.parametrize("slice_s", [0.0, 3600.0])
def test_a_suspended_iteration_of_a_sequential_loop_is_not_overtaken(slice_s: float) -> None:
    tool = Flaky({1: 2})
    sim = Simulation(
        lone(SLOW.format(mode="sequential", width=1)), {"http": tool}, limits=RuntimeLimits(slice_s=slice_s)
    )
    report = sim.run()
    assert (report.row.status, report.result["results"]) == ("completed", [0, 1, 2, 3, 4])
    assert tool.order == [(0, 1), (1, 1), (1, 2), (1, 3), (2, 1), (3, 1), (4, 1)]


@pytest.mark.parametrize("slice_s", [0.0, 3600.0])
def test_a_suspended_iteration_keeps_its_slot(slice_s: float) -> None:
    tool = Flaky({0: 1, 1: 1})
    sim = Simulation(
        lone(SLOW.format(mode="parallel", width=2)), {"http": tool}, limits=RuntimeLimits(slice_s=slice_s)
    )
    run = sim.start()
    sim.settle()
    assert [item for item, _ in tool.order] == [0, 1], "both slots are taken by iterations that wait"
    sim.pass_time(6)
    sim.settle()
    report = sim.report(run)
    assert (report.row.status, report.result["results"]) == ("completed", [0, 1, 2, 3, 4])
    parts = [e.fact.part for e in sim.events(run) if isinstance(e.fact, CommandIssued)]
    assert parts == ["l0", "l1", "i0", "i1"], "the iterations that resumed took what was left"


def test_iterations_suspend_again_and_again_without_using_up_generations() -> None:
    tool = Flaky(dict.fromkeys(range(5), 3))
    report = Simulation(lone(SLOW.format(mode="parallel", width=1)), {"http": tool}).run()
    assert (report.row.status, report.result["results"]) == ("completed", [0, 1, 2, 3, 4])


def test_ctx_of_a_sequential_loop_survives_a_suspension() -> None:
    body = SLOW.format(mode="sequential", width=1).rstrip() + '\n      set: {ctx.last: "{{ item }}"}\n'
    body = body.replace("input: {", 'input: {seen: "{{ ctx.last }}", ')
    seen: list[Any] = []
    flaky = Flaky({2: 1})

    def tool(call: Call) -> Json:
        seen.append(call.args["seen"])
        return flaky(call)

    report = Simulation(lone(body), {"http": tool}).run()
    assert report.row.status == "completed"
    assert seen == [None, 0, 1, 1, 2, 3]


def test_a_lane_that_finds_nothing_to_take_still_ends_the_loop() -> None:
    sim = Simulation(loop("parallel", "[1, 2, 3]", "max_in_flight: 3"), {"python": odd_fails})
    run = sim.start()
    sim.deliver()
    sim.deliver()
    # The scheduler has seen the failure before the other lanes come, and they have nothing to
    # report.
    sim.deliver(len(sim.mailbox.messages) - 1)
    sim.settle()
    assert sim.report(run).row.status == "failed"


def test_dashboards_tell_the_lanes_of_a_loop_apart() -> None:
    sim = Simulation(
        playbook("""
        - step: each
          loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: 2}}
          tool: {kind: python, code: "result = n"}
        """)
    )
    run = sim.start()
    sim.deliver()
    with sim.rt.store.read() as tx:
        labels = [row.label for row in tx.commands.open_of(run)]
    assert sorted(labels) == ["tests/test:each[lane 0]", "tests/test:each[lane 1]"]


class Counting(SqlStore):
    """Counts the transactions that write."""

    def __init__(self) -> None:
        super().__init__("memory://")
        self.commits = 0

    def begin(self) -> AbstractContextManager[Transaction]:
        self.commits += 1
        return super().begin()


@pytest.mark.parametrize(
    ("task", "is_each"),
    [
        ("kind: http, url: 'http://a/{{ item }}'", False),
        ("kind: http, url: 'http://a/{{ item }}', method: PUT", False),
        ("kind: http, url: 'http://a/{{ item }}', method: POST", True),
        ("kind: http, url: 'http://a/{{ item }}', method: POST, effects: none", False),
        ("kind: http, url: 'http://a/{{ item }}', effects: external", True),
        ("kind: postgres, command: 'SELECT :n', params: {n: '{{ item }}'}", False),
        ("kind: postgres, command: 'INSERT INTO t VALUES (:n)', params: {n: '{{ item }}'}", True),
    ],
)
def test_iterations_of_a_parallel_loop_are_committed_each_where_repeating_them_changes_something(
    task: str, is_each: bool
) -> None:
    many = lone(f"""
        loop: {{in: "{{{{ range(40) | list }}}}", iterator: item, spec: {{mode: parallel, max_in_flight: 1}}}}
        tool: {{{task}}}
    """)
    store = Counting()
    sim = Simulation(many, {"http": lambda _: 1, "postgres": lambda _: 1}, store=store, kinds=kinds())
    report = sim.run()
    assert report.result["stats"]["completed"] == 40
    assert (store.commits > 40) is is_each
