"""In what two executions differ."""

from __future__ import annotations

from datetime import timedelta

from noetl.history.accounts import Asked
from noetl.history.differences import Difference, Parting, RunsDifference
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import catalog
from noetl.usecases.runtime import RuntimeLimits

from .stories import differences, ended, playbook

BOOK = playbook(
    """
    - step: start
      tool: {kind: noop, result: {n: "{{ workload.n }}", rows: [1, 2]}}
      next: {arcs: [{step: big, when: "{{ result.n > 5 }}"}, {step: small}]}
    - step: big
      tool: {kind: noop}
    - step: small
      tool: {kind: http}
      next: {arcs: [{step: big, when: "{{ false }}"}]}
    """,
    "workload: {n: 1, m: {k: 2}}",
)


def simulated() -> Simulation:
    return Simulation(BOOK, tools={"http": lambda _: 5})


def test_two_runs_with_the_same_inputs_are_the_same() -> None:
    sim = simulated()
    found = differences(sim, ended(sim), ended(sim))
    assert (found.same, found.summary) == (True, "They went the same way to the same results.")
    assert (found.parting, found.path.shown, found.guards.shown) == (None, (), ())


def test_inputs_path_guards_and_results_are_compared() -> None:
    sim = simulated()
    found = differences(sim, ended(sim), ended(sim, n=7))
    assert found.summary == ("They differ in: inputs, path, guards, status of steps, results.")
    assert found.inputs.shown == (
        Difference("overrides.n", "added", b=7),
        Difference("workload.n", "changed", 1, 7),
    )
    assert found.path.shown == (RunsDifference("small", 1, 0), RunsDifference("big", 0, 1))
    assert found.parting == Parting(2, "start#1", "small#1", "big#1")
    big, small = found.guards.shown
    assert (big.run, big.step) == ("start#1", "big")
    assert big.a == Asked("{{ result.n > 5 }}", {"result.n": 1}, "did not hold")
    assert big.b == Asked("{{ result.n > 5 }}", {"result.n": 7}, "taken")
    assert (small.step, small.b) == ("small", None)
    assert Difference("start.n", "changed", 1, 7) in found.results.shown
    assert Difference("small", "removed", 5) in found.results.shown


def test_versions_of_a_playbook_and_their_nets_are_compared() -> None:
    sim = simulated()
    first = ended(sim)
    catalog.register(sim.rt, BOOK.replace("rows: [1, 2]", "rows: [1, 3, 4]"), "test.yaml")
    found = differences(sim, first, ended(sim))
    assert [one.path for one in found.playbook.shown] == ["version", "net"]
    assert found.results.shown == (
        Difference("start.rows[1]", "changed", 2, 3),
        Difference("start.rows[2]", "added", b=4),
    )


def test_durations_are_compared_the_largest_difference_first() -> None:
    delays = [0, 3]

    def slow(_call: Call) -> int:
        sim.now += timedelta(seconds=delays.pop(0))
        return 5

    sim = Simulation(BOOK, tools={"http": slow})
    found = differences(sim, ended(sim), ended(sim))
    assert found.same
    assert (found.a.duration_ms, found.b.duration_ms) == (0.0, 3000.0)
    top = found.durations.shown[0]
    assert (top.step, top.a, top.b) == ("small", 0.0, 3000.0)


def test_a_run_that_failed_differs_in_status_and_error() -> None:
    sim = Simulation(
        playbook(
            """
            - step: start
              tool: {kind: python, input: {n: "{{ workload.n }}"}, code: "result = 1 / n"}
            """,
            "workload: {n: 1}",
        )
    )
    found = differences(sim, ended(sim), ended(sim, n=0))
    assert (found.a.status, found.b.status) == ("completed", "failed")
    assert found.summary.startswith("They differ in: status, inputs, ")
    told = "ZeroDivisionError: division by zero"
    assert found.errors.shown == tuple(Difference(at, "added", b=told) for at in ("execution", "start"))
    assert found.b.error is not None
    assert found.b.error["type"] == "ZeroDivisionError"
    assert found.steps.shown == (Difference("start", "changed", "done", "failed"),)


def test_each_section_is_bounded_and_says_how_many_more_there_are() -> None:
    sim = Simulation(
        playbook(
            "- step: start\n  tool: {kind: noop, result: {rows: '{{ workload.rows }}'}}",
            "workload: {rows: []}",
        )
    )
    found = differences(sim, ended(sim, rows=[]), ended(sim, rows=list(range(50))), most=3)
    assert (len(found.results.shown), found.results.more) == (3, 47)
    assert found.results.shown[0] == Difference("start.rows[0]", "added", b=0)


def test_secrets_are_hidden_and_large_values_cut() -> None:
    sim = Simulation(playbook("- step: start\n  tool: {kind: noop}", "workload: {password: a, text: b}"))
    found = differences(sim, ended(sim), ended(sim, password="opensesame", text="z" * 500))
    assert found.inputs.more == 0
    assert "opensesame" not in repr(found)
    assert all(len(str(one.b)) <= 120 for one in found.inputs.shown)


def test_numbers_and_booleans_are_not_the_same() -> None:
    sim = Simulation(playbook("- step: start\n  tool: {kind: noop}", "workload: {n: 1}"))
    found = differences(sim, ended(sim, n=1), ended(sim, n=True))
    assert Difference("workload.n", "changed", 1, True) in found.inputs.shown


def test_large_results_are_compared_by_their_content() -> None:
    sim = Simulation(
        playbook("- step: start\n  tool: {kind: http}", "workload: {n: 1}"),
        tools={"http": lambda _: rows.pop()},
        limits=RuntimeLimits(slice_s=3600.0, inline_bytes=100),
    )
    rows = [list(range(1000)) for _ in range(2)]
    found = differences(sim, ended(sim), ended(sim))
    assert found.same
    rows = [list(range(1000)), list(range(1001))]
    found = differences(sim, ended(sim), ended(sim))
    (one,) = found.results.shown
    assert (one.path, one.a, one.b) == ("start", "<a large result>", "<a large result>")
