"""A step, or one iteration of it, is cancelled by somebody, and the execution goes on."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from families import STAYS, Family
from playbooks import lone, playbook

from noetl.errors import Conflict, NotFound
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control
from noetl.usecases.turn.advance import advance

FORK = playbook("""
    - step: start
      next: [slow, quick]
    - step: slow
      tool: {kind: http, url: http://x}
      next: behind
    - step: quick
      tool: {kind: noop, input: {quick: true}}
    - step: behind
      tool: {kind: noop}
""")

ROUTED = playbook("""
    - step: start
      tool: {kind: http, url: http://x}
      next:
        arcs:
          - {step: gone, when: "{{ event.name == 'step.cancelled' }}", args: {why: "{{ error.message }}"}}
          - {step: well}
    - step: gone
      tool: {kind: noop, input: {why: "{{ args.why }}"}}
    - step: well
      tool: {kind: noop}
""")

LOOP = lone("""
    loop: {in: "{{ range(5) | list }}", iterator: item, spec: {mode: parallel, max_in_flight: 2}}
    tool: {kind: http, url: http://x, input: {item: "{{ item }}"}}
""")


class During:
    """A tool that lets something happen when it is called for that item, then yields the item."""

    def __init__(self, act: Callable[[], object], item: Json = None) -> None:
        self.act = act
        self.item = item

    def __call__(self, call: Call) -> Json:
        if call.args.get("item") == self.item:
            self.act()
        return call.args.get("item")


def steps_of(sim: Simulation, run: str) -> dict[str, Json]:
    return {name: step["status"] for name, step in sim.report(run).steps.items()}


def test_a_step_that_is_cancelled_ends_its_branch_and_no_other() -> None:
    sim = Simulation(FORK)
    run = sim.start()
    sim.deliver()
    control.cancel_step(sim.rt, run, "slow", reason="not needed")
    advance(sim.rt)
    sim.settle()
    assert sim.report(run).row.status == "completed"
    assert steps_of(sim, run) == {"start": "done", "slow": "cancelled", "quick": "done"}
    assert sim.tools.calls == [call for call in sim.tools.calls if call.kind == "noop"]


def test_an_arc_may_ask_for_the_cancellation() -> None:
    sim = Simulation(ROUTED)
    run = sim.start()
    sim.deliver()
    control.cancel_step(sim.rt, run, "start", reason="not needed")
    advance(sim.rt)
    sim.settle()
    assert sim.report(run).row.status == "completed"
    assert sim.report(run).result == {"why": "not needed"}


def test_a_result_that_comes_later_is_discarded() -> None:
    def act() -> None:
        control.cancel_step(sim.rt, run, "start")
        sim.settle()
        sim.leases.beat()

    sim = Simulation(ROUTED, {"http": During(act)})
    run = sim.start()
    sim.settle()
    assert steps_of(sim, run) == {"start": "cancelled", "gone": "done"}
    assert "step.done" not in [kind for kind, step in _typed(sim, run) if step == "start"]


def _typed(sim: Simulation, run: str) -> list[tuple[str, str | None]]:
    return [(event.fact.type, event.draft.step) for event in sim.events(run)]


def test_a_result_that_came_first_counts() -> None:
    sim = Simulation(ROUTED, {"http": lambda _: {"n": 1}})
    run = sim.start()
    sim.deliver()
    sim.deliver()
    assert sim.types(run)[-1] == "step.done"
    with pytest.raises(Conflict, match="does not run now"):
        control.cancel_step(sim.rt, run, "start")
    sim.settle()
    assert steps_of(sim, run) == {"start": "done", "well": "done"}


def test_what_a_cancelled_step_called_is_cancelled() -> None:
    family = Family(child=STAYS)
    run = family.start()
    (child,) = family.children(run)
    control.cancel_step(family.sim.rt, run, "start")
    family.sim.settle()
    assert family.status(child) == "cancelled"
    assert family.status(run) == "completed"


def test_one_run_of_a_step_is_named_by_its_number() -> None:
    sim = Simulation(FORK)
    run = sim.start()
    sim.deliver()
    with pytest.raises(Conflict, match=r"'slow#2' .* does not run now"):
        control.cancel_step(sim.rt, run, "slow#2")
    control.cancel_step(sim.rt, run, "slow#1")
    control.cancel_step(sim.rt, run, "slow#1", reason="asked twice")
    advance(sim.rt)
    sim.settle()
    assert sim.types(run).count("step.cancel.requested") == 1


def test_what_cannot_be_cancelled_is_said() -> None:
    sim = Simulation(LOOP, {"http": lambda call: call.args})
    run = sim.start()
    with pytest.raises(NotFound, match=r"no step 'strat'\. Did you mean 'start'"):
        control.cancel_step(sim.rt, run, "strat")
    with pytest.raises(Conflict, match="does not run now"):
        control.cancel_step(sim.rt, run, "start")
    sim.deliver()
    with pytest.raises(Conflict, match="no iteration 5 that has not ended"):
        control.cancel_step(sim.rt, run, "start", 5)
    advance(sim.rt)
    sim.settle()
    with pytest.raises(Conflict, match="has ended"):
        control.cancel_step(sim.rt, run, "start")


# --- iterations ----------------------------------------------------------------------------------


def test_an_iteration_that_has_not_begun_is_passed_over() -> None:
    sim = Simulation(LOOP, {"http": lambda call: call.args["item"]})
    run = sim.start()
    sim.deliver()
    control.cancel_step(sim.rt, run, "start", 3)
    advance(sim.rt)
    sim.settle()
    assert sim.report(run).result == {
        "results": [0, 1, 2, None, 4],
        "stats": {"total": 5, "completed": 4, "failed": 0, "cancelled": 1},
    }
    assert [call.args["item"] for call in sim.tools.calls] == [0, 1, 2, 4]


def test_an_iteration_that_runs_is_dropped_and_its_lane_goes_on() -> None:
    def act() -> None:
        control.cancel_step(sim.rt, run, "start", 1)
        sim.settle()
        sim.leases.beat()

    sim = Simulation(LOOP, {"http": During(act, 1)})
    run = sim.start()
    sim.settle()
    assert sim.report(run).row.status == "completed"
    assert sim.report(run).result["results"] == [0, None, 2, 3, 4]
    assert sim.types(run).count("loop.iteration.cancelled") == 1


def test_a_result_that_comes_without_a_heartbeat_is_discarded() -> None:
    def act() -> None:
        control.cancel_step(sim.rt, run, "start", 1)
        sim.settle()

    sim = Simulation(LOOP, {"http": During(act, 1)})
    run = sim.start()
    sim.settle()
    assert sim.report(run).result["results"] == [0, None, 2, 3, 4]
    (discarded,) = (event.fact for event in sim.events(run) if event.fact.type == "result.discarded")
    assert discarded.reason.startswith("a result came too late (loop.iteration.done): ")


def test_all_iterations_may_be_cancelled() -> None:
    sim = Simulation(LOOP, {"http": lambda call: call.args["item"]})
    run = sim.start()
    sim.deliver()
    for index in range(5):
        control.cancel_step(sim.rt, run, "start", index)
    advance(sim.rt)
    sim.settle()
    assert sim.report(run).row.status == "completed"
    assert sim.report(run).result["stats"] == {"total": 5, "completed": 0, "failed": 0, "cancelled": 5}
    assert sim.tools.calls == []


def test_a_step_and_an_iteration_of_it_may_be_cancelled_at_once() -> None:
    sim = Simulation(LOOP, {"http": lambda call: call.args["item"]})
    run = sim.start()
    sim.deliver()
    control.cancel_step(sim.rt, run, "start", 1)
    control.cancel_step(sim.rt, run, "start")
    sim.settle()
    assert sim.report(run).row.status == "completed"
    assert "step.cancelled" in sim.types(run)
    assert "loop.iteration.cancelled" not in sim.types(run), "it is over with its step"


def test_an_iteration_that_waits_for_a_playbook_is_cancelled_with_it() -> None:
    family = Family(
        """
        - step: start
          loop: {in: [1, 2], iterator: item, spec: {mode: parallel}}
          tool: {kind: playbook, path: tests/child}
        """,
        STAYS,
    )
    run = family.start()
    first, second = family.children(run)
    control.cancel_step(family.sim.rt, run, "start", 0)
    family.sim.settle()
    assert sorted((family.status(first), family.status(second))) == ["cancelled", "waiting"]
    assert family.status(run) == "waiting"
