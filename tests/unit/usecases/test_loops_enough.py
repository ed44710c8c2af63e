"""`enough` of a loop: the step is done before all iterations are, and what becomes of the rest."""

from __future__ import annotations

from typing import Any

import pytest
from families import STAYS, Family
from playbooks import playbook
from test_cancelling import During

from noetl.engine.evolve import replay
from noetl.engine.state import initial_state
from noetl.errors import ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control


def looping(enough: str, spec: str = "mode: parallel, max_in_flight: 2", more: str = "") -> str:
    return playbook(
        f"""
- step: start
  {more}
  loop: {{in: [1, 2, 3, 4, 5, 6], iterator: item, enough: {{{enough}}}, spec: {{{spec}}}}}
  tool: {{kind: http, url: "http://x", input: {{item: "{{{{ item }}}}"}}}}
  next:
    arcs:
      - {{step: after}}
      - {{step: failed, when: "{{{{ event.name == 'step.failed' }}}}", args: {{error: "{{{{ error.kind }}}}"}}}}
- step: after
  tool: {{kind: python, code: x, input: {{found: "{{{{ start }}}}"}}}}
- step: failed
  tool: {{kind: python, code: x, input: {{found: "{{{{ error }}}}"}}}}
"""
    )


TWO = 'when: "{{ completed >= 2 }}"'


def double(call: Call) -> Json:
    item: Any = call.args["item"]
    return item * 10


def show(call: Call) -> Json:
    return call.args["found"]


def simulated(text: str, http: Any = double) -> Simulation:
    return Simulation(text, {"http": http, "python": show})


def played(sim: Simulation) -> tuple[str, Any]:
    run = sim.start()
    sim.settle()
    assert replay(initial_state(run), sim.events(run)) == sim.rt.states.get(run), "the log says all of it"
    return run, sim.report(run)


def deliver(sim: Simulation, messages: int) -> None:
    """The first one is the turn that begins."""
    for _ in range(messages):
        sim.deliver()


def items(sim: Simulation) -> list[Any]:
    return [call.args["item"] for call in sim.tools.calls if "item" in call.args]


@pytest.mark.parametrize("width", [1, 2, 3, 6])
def test_the_step_is_done_with_what_there_is_when_it_holds(width: int) -> None:
    sim = simulated(looping(TWO, f"mode: parallel, max_in_flight: {width}"))
    _, report = played(sim)
    began = max(2, width)
    assert report.row.status == "completed"
    stats = report.result["stats"]
    assert stats["completed"] + stats.get("cancelled", 0) == stats["total"] == 6
    assert 2 <= stats["completed"] <= began
    assert items(sim) == list(range(1, began + 1)), "what had not begun is not begun"
    assert [one for one in report.result["results"] if one is not None] == [
        item * 10 for item in range(1, stats["completed"] + 1)
    ]


def test_a_sequential_loop_begins_nothing_behind_the_one_that_was_enough() -> None:
    sim = simulated(looping(TWO, "mode: sequential"))
    _, report = played(sim)
    assert items(sim) == [1, 2]
    assert report.result["results"] == [10, 20, None, None, None, None]


def test_iterations_that_run_are_cancelled_and_what_they_still_say_does_not_count() -> None:
    def act() -> None:
        sim.settle()
        sim.leases.beat()

    # The third call stands in its tool while the two before it are reported.
    sim = simulated(looping(TWO, "mode: parallel, max_in_flight: 3"), During(act, 3))
    run, report = played(sim)
    assert report.row.status == "completed"
    assert report.result["results"] == [1, 2, None, None, None, None]
    assert report.result["stats"] == {"total": 6, "completed": 2, "failed": 0, "cancelled": 4}
    assert sim.rt.store is not None
    with sim.rt.store.read() as tx:
        assert tx.commands.open_of(run) == []


def test_an_iteration_that_is_known_to_run_has_an_event_of_its_end() -> None:
    family = Family(
        """
        - step: start
          loop:
            in: [1, 2]
            iterator: item
            enough: {when: "{{ completed >= 1 }}"}
            spec: {mode: parallel}
          tool: {kind: playbook, path: tests/child, input: {n: "{{ item }}"}}
        """,
        STAYS,
    )
    run = family.start()
    one, other = family.children(run)
    control.patch_ctx(family.sim.rt, one, {"go": True})
    family.sim.settle()
    assert family.status(run) == "completed"
    assert family.status(other) == "cancelled", "nobody waits for it any more"
    assert family.sim.types(run).count("loop.iteration.cancelled") == 1


def test_the_rest_may_run_on_while_the_step_is_routed() -> None:
    sim = simulated(looping(f"{TWO}, rest: run"))
    run, report = played(sim)
    assert report.result == {
        "results": [10, 20, None, None, None, None],
        "stats": {"total": 6, "completed": 2, "failed": 0},
    }
    assert sorted(items(sim)) == [1, 2, 3, 4, 5, 6]
    types = sim.types(run)
    assert types.index("step.done") < types.index("loop.done") < types.index("workflow.finished")
    done = next(event.fact for event in sim.events(run) if isinstance(event.fact, e.LoopDone))
    assert (done.completed, done.cancelled, done.cut) == (6, 0, False)


def test_the_guard_sees_the_results_so_far_in_the_order_of_the_items() -> None:
    sim = simulated(looping('when: "{{ results[1] == 20 and results[5] is none and total == 6 }}"'))
    _, report = played(sim)
    assert report.result["stats"]["completed"] == 2


def test_the_guard_sees_failures_and_decides_whether_they_matter() -> None:
    def odd(call: Call) -> Json:
        item: Any = call.args["item"]
        if item == 2:
            raise ToolError("client_error", "not this one")
        return item

    sim = simulated(looping('when: "{{ failed > 0 }}"', "mode: sequential"), odd)
    _, report = played(sim)
    assert report.row.status == "completed"
    assert report.steps["start"]["result"]["stats"] == {
        "total": 6,
        "completed": 1,
        "failed": 1,
        "cancelled": 4,
    }


def test_a_failure_that_is_not_tolerated_fails_the_step_where_it_does_not_hold() -> None:
    def broken(call: Call) -> Json:
        raise ToolError("client_error", "not this one")

    sim = simulated(looping(TWO), broken)
    _, report = played(sim)
    assert report.steps["start"]["status"] == "failed"
    assert report.result == "client_error", "its arc took it"


def test_a_guard_that_cannot_be_evaluated_fails_the_step() -> None:
    sim = simulated(looping('when: "{{ results[0] + {} }}"'))
    _, report = played(sim)
    error = report.steps["start"]["error"]
    assert (report.steps["start"]["status"], error["kind"]) == ("failed", "template")
    assert report.row.status == "completed", "an arc took it"
    assert items(sim) == [1, 2]


def test_where_it_never_holds_the_step_is_done_as_ever() -> None:
    sim = simulated(looping('when: "{{ completed > 100 }}"'))
    _, report = played(sim)
    assert report.result == {
        "results": [10, 20, 30, 40, 50, 60],
        "stats": {"total": 6, "completed": 6, "failed": 0},
    }


def test_it_sees_what_ctx_has_become() -> None:
    sim = simulated(
        looping('when: "{{ ctx.stop | default(false) }}"', "mode: sequential"), During(lambda: None, 9)
    )
    run = sim.start()
    deliver(sim, 2)
    control.patch_ctx(sim.rt, run, {"stop": True})
    sim.settle()
    assert items(sim) == [1]
    assert sim.report(run).result["stats"]["cancelled"] == 5


def test_nothing_is_asked_while_the_execution_is_paused() -> None:
    sim = simulated(looping(TWO))
    run = sim.start()
    deliver(sim, 3)
    control.pause(sim.rt, run)
    sim.settle()
    assert sim.report(run).row.status == "paused"
    assert "step.done" not in sim.types(run)
    control.resume(sim.rt, run)
    sim.settle()
    assert sim.report(run).result["stats"]["completed"] == 2


def test_what_the_iterations_wrote_to_ctx_is_folded_when_the_step_is_done() -> None:
    text = playbook(
        """
- step: start
  loop:
    in: [1, 2, 3, 4]
    iterator: item
    enough: {when: "{{ completed == 2 }}", rest: run}
    spec: {mode: parallel, max_in_flight: 1, reduce: {ctx.sum: sum}}
  tool: {kind: http, url: "http://x", input: {item: "{{ item }}"}, set: {ctx.sum: "{{ item }}"}}
  next: after
- step: after
  tool: {kind: python, code: x, input: {found: "{{ ctx.sum }}"}}
"""
    )
    sim = simulated(text)
    run, report = played(sim)
    assert report.result == 3, "those that had ended by then"
    assert report.ctx["sum"] == 10, "and the others when they had"
    assert sim.types(run).count("ctx.patched") == 2


def test_a_deadline_ends_those_that_run_on() -> None:
    sim = simulated(looping(f"{TWO}, rest: run", more="spec: {deadline: 60}"))
    run = sim.start()
    deliver(sim, 4)
    assert "step.done" in sim.types(run)
    sim.pass_time(61)
    sim.settle()
    report = sim.report(run)
    assert report.row.status == "failed"
    assert report.row.error["type"] == "StepDeadline"
    assert report.steps["start"]["status"] == "failed"
