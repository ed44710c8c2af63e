"""`grow` and `close` of a loop: items that iterations bring, and loops that stay open."""

from __future__ import annotations

from typing import Any

import pytest
from moments import some
from playbooks import playbook
from test_cancelling import During
from test_retry import Again

from noetl.engine.evolve import replay
from noetl.engine.state import initial_state
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.facts.reference import is_reference
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control, fork
from noetl.usecases.fork import ForkRequest
from noetl.usecases.runtime import RuntimeLimits
from noetl.usecases.turn.advance import advance

#: Each item below ten brings two further ones: 1 → 2, 3; 2 → 4, 5; 3 → 6, 7...
TREE = "{{ [result * 2, result * 2 + 1] if result < 4 else none }}"


def growing(more: str, spec: str = "mode: parallel, max_in_flight: 2", items: str = "[1]") -> str:
    return playbook(
        f"""
- step: start
  loop: {{in: {items}, iterator: item, {more}, spec: {{{spec}}}}}
  tool: {{kind: http, url: "http://x", input: {{item: "{{{{ item }}}}"}}}}
  next:
    arcs:
      - {{step: after}}
      - {{step: failed, when: "{{{{ event.name == 'step.failed' }}}}"}}
- step: after
  tool: {{kind: python, code: x, input: {{found: "{{{{ start }}}}"}}}}
- step: failed
  tool: {{kind: python, code: x}}
"""
    )


def same(call: Call) -> Json:
    return call.args["item"]


def simulated(text: str, http: Any = same, **more: Any) -> Simulation:
    return Simulation(text, {"http": http, "python": lambda call: call.args.get("found")}, **more)


def played(sim: Simulation) -> tuple[str, Any]:
    run = sim.start()
    sim.settle()
    assert replay(initial_state(run), sim.events(run)) == sim.rt.states.get(run), "the log says all of it"
    return run, sim.report(run)


def facts(sim: Simulation, run: str, kind: Any) -> list[Any]:
    return [event.fact for event in sim.events(run) if isinstance(event.fact, kind)]


def called(sim: Simulation) -> list[Any]:
    return [call.args["item"] for call in sim.tools.calls if "item" in call.args]


@pytest.mark.parametrize("spec", ["mode: sequential", "mode: parallel", "mode: parallel, max_in_flight: 2"])
def test_what_iterations_bring_is_run_as_well(spec: str) -> None:
    sim = simulated(growing(f'grow: "{TREE}"', spec))
    run, report = played(sim)
    assert report.row.status == "completed"
    assert report.result == {
        "results": [1, 2, 3, 4, 5, 6, 7],
        "stats": {"total": 7, "completed": 7, "failed": 0},
    }
    grown = facts(sim, run, e.LoopGrown)
    assert [fact.from_index for fact in grown] == list(range(7)), "each is asked once"
    assert [fact.items for fact in grown if fact.count] == [[2, 3], [4, 5], [6, 7]]


def test_what_is_brought_may_be_kept_by_reference() -> None:
    grow = "{{ range(100, 160) | list if result == 1 else [] }}"
    sim = simulated(growing(f'grow: "{grow}"'), limits=RuntimeLimits(inline_bytes=100))
    run, report = played(sim)
    assert any(is_reference(fact.items) for fact in facts(sim, run, e.LoopGrown))
    assert report.steps["start"]["result"]["stats"]["completed"] == 61
    assert called(sim) == [1, *range(100, 160)]


def test_it_sees_the_iteration_and_what_came_of_it() -> None:
    grow = "{{ [[item, iter.item, iter.index, result, ctx.more | default(0)]] if iter.index < 1 else [] }}"
    sim = simulated(growing(f'grow: "{grow}"', items="[9]"), lambda call: f"r{call.args['item']}")
    _, report = played(sim)
    assert called(sim) == [9, [9, 9, 0, "r9", 0]]
    assert report.row.status == "completed"


def test_null_and_an_empty_list_bring_nothing() -> None:
    sim = simulated(growing('grow: "{{ none if result == 1 else [] }}"', items="[1, 2]"))
    _, report = played(sim)
    assert report.result["stats"]["total"] == 2


@pytest.mark.parametrize("grow", ["{{ 7 }}", "{{ {'a': 1} }}", "{{ result + {} }}"])
def test_what_is_no_list_fails_the_step(grow: str) -> None:
    sim = simulated(growing(f'grow: "{grow}"'))
    _, report = played(sim)
    assert report.steps["start"]["error"]["kind"] == "template"
    assert report.steps["failed"]["status"] == "done"


def test_more_items_than_a_loop_may_have_fail_the_step() -> None:
    sim = simulated(growing('grow: "{{ [result + 1, result + 2] }}"'), limits=RuntimeLimits(max_items=20))
    _, report = played(sim)
    assert report.steps["start"]["error"]["kind"] == "limit"


def test_an_iteration_that_was_cancelled_is_not_asked() -> None:
    sim = simulated(growing('grow: "{{ [] }}"', items="[1, 2, 3]"))
    run = sim.start()
    sim.deliver()
    control.cancel_step(sim.rt, run, "start", 1)
    advance(sim.rt)
    sim.settle()
    assert sorted(fact.from_index for fact in facts(sim, run, e.LoopGrown)) == [0, 2]


def test_enough_is_asked_of_what_has_grown() -> None:
    sim = simulated(
        growing(f'grow: "{TREE}", enough: {{when: "{{{{ completed == total }}}}"}}', "mode: sequential")
    )
    _, report = played(sim)
    assert report.result["stats"] == {"total": 7, "completed": 7, "failed": 0}, "never before all have grown"


def test_a_growing_loop_may_have_enough() -> None:
    grow = 'grow: "{{ [result + 1] }}", enough: {when: "{{ results[-2] == 5 }}"}'
    sim = simulated(growing(grow, "mode: sequential"))
    _, report = played(sim)
    assert report.result["results"] == [1, 2, 3, 4, 5, None]


# --- close ---------------------------------------------------------------------------------------


def test_a_loop_stays_open_and_holds_no_worker_until_it_is_closed() -> None:
    sim = simulated(growing('close: "{{ ctx.closed }}"', items="[1, 2]"))
    run, report = played(sim)
    assert (report.row.status, report.row.waiting_for) == ("waiting", "the loop of step 'start' to close")
    with sim.rt.store.read() as tx:
        assert tx.commands.open_of(run) == []
    control.patch_ctx(sim.rt, run, {"other": 1})
    sim.settle()
    assert sim.report(run).row.status == "waiting"
    control.patch_ctx(sim.rt, run, {"closed": True})
    sim.settle()
    assert sim.report(run).row.status == "completed"
    assert sim.report(run).result["stats"]["completed"] == 2


def test_it_is_not_asked_before_all_have_ended() -> None:
    sim = simulated(growing('close: "{{ true }}"', "mode: sequential", items="[1, 2, 3]"))
    _, report = played(sim)
    assert report.result["stats"]["completed"] == 3


def test_a_signal_closes_a_loop_by_what_is_assigned_behind_it() -> None:
    text = playbook(
        """
- step: start
  next: [loop, wait]
- step: loop
  loop: {in: [1], iterator: item, grow: "{{ [] }}", close: "{{ ctx.closed }}"}
  tool: {kind: http, url: "http://x", input: {item: "{{ item }}"}}
- step: wait
  tool: {kind: python, code: x, input: {found: 1}}
  set: {ctx.closed: true}
"""
    )
    sim = simulated(text)
    _, report = played(sim)
    assert report.row.status == "completed"


def test_a_guard_that_cannot_be_asked_fails_the_step() -> None:
    sim = simulated(growing('close: "{{ 1 + {} }}"'))
    _, report = played(sim)
    assert report.steps["start"]["error"]["kind"] == "template"


def test_a_step_that_stays_open_ends_by_its_deadline_or_when_it_is_cancelled() -> None:
    sim = simulated(growing('close: "{{ ctx.closed }}"'))
    run = sim.start()
    sim.settle()
    control.cancel_step(sim.rt, run, "start")
    sim.settle()
    assert sim.report(run).row.status == "completed"
    assert sim.report(run).steps["start"]["status"] == "cancelled"


def test_a_pause_closes_nothing() -> None:
    sim = simulated(growing('close: "{{ ctx.closed }}"'))
    run = sim.start()
    sim.settle()
    control.pause(sim.rt, run)
    control.patch_ctx(sim.rt, run, {"closed": True})
    sim.settle()
    assert "loop.done" not in sim.types(run)
    control.resume(sim.rt, run)
    sim.settle()
    assert sim.report(run).row.status == "completed"


# --- again ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("spec", ["mode: sequential", "mode: parallel"])
def test_a_retry_takes_what_was_brought_and_goes_on(spec: str) -> None:
    again = Again(
        f"""
- step: start
  loop:
    in: [1]
    iterator: item
    grow: "{{{{ [item * 2, item * 2 + 1] if item < 4 else none }}}}"
    spec: {{{spec}}}
  tool: {{kind: http, url: "{{{{ item }}}}"}}
  next: after
- step: after
  tool: {{kind: http, url: after, input: {{n: "{{{{ start.stats }}}}"}}}}
  next: last
- step: last
  tool: {{kind: http, url: last}}
"""
    )
    again.broken["last"] = "client_error"
    first = again.run()
    again.broken.clear()
    second = again.retry(first)
    assert again.report(second).row.status == "completed"
    assert again.calls.keys() == {"last"}
    assert again.report(second).steps["start"]["result"] == again.report(first).steps["start"]["result"]


def test_a_retry_of_a_loop_that_failed_makes_only_the_rest() -> None:
    again = Again(
        """
- step: start
  loop: {in: [1], iterator: item, grow: "{{ [item * 2, item * 2 + 1] if item < 4 else none }}"}
  tool: {kind: http, url: "{{ item }}"}
"""
    )
    again.broken["5"] = "client_error"
    first = again.run()
    assert again.report(first).row.status == "failed"
    again.broken.clear()
    second = again.retry(first)
    assert again.report(second).result["stats"] == {"total": 7, "completed": 7, "failed": 0}
    assert again.calls.keys() == {"5", "6", "7"}


class Overtaken(Again):
    """While the call of `slow` is made, all others are."""

    def _call(self, call: Call) -> Any:
        if call.config["url"] == "slow":
            self.sim.settle()
        return super()._call(call)


def test_a_retry_takes_what_was_brought_while_an_earlier_item_was_at_work() -> None:
    again = Overtaken(
        """
- step: start
  loop:
    in: [quick, slow]
    iterator: item
    grow: "{{ ['brought'] if item == 'quick' else none }}"
    spec: {mode: parallel}
  tool: {kind: http, url: "{{ item }}"}
  next: last
- step: last
  tool: {kind: http, url: last}
"""
    )
    again.broken["last"] = "client_error"
    first = again.run()
    ends = [
        event.draft.iteration for event in again.sim.events(first) if isinstance(event.fact, e.IterationDone)
    ]
    assert ends == [0, 2, 1], "what was brought ended before the slow one"
    again.broken.clear()
    again.retry(first)
    assert again.calls.keys() == {"last"}


def test_a_fork_from_any_moment_comes_to_the_same_end() -> None:
    sim = simulated(growing(f'grow: "{TREE}"'))
    first, report = played(sim)
    for at in some(range(1, len(sim.events(first)) - 1)):
        made = fork.fork(sim.rt, ForkRequest(first, at=at)).execution_id
        sim.settle()
        assert sorted(sim.report(made).result["results"]) == sorted(report.result["results"]), at
        assert replay(initial_state(made), sim.events(made)) == sim.rt.states.get(made)


def test_an_iteration_that_is_tried_later_keeps_its_place() -> None:
    def act() -> None:
        sim.settle()

    sim = simulated(growing(f'grow: "{TREE}"'), During(act, 3))
    _, report = played(sim)
    assert report.result["stats"]["completed"] == 7
