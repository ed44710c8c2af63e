"""Loops that their step does not wait for: `sync: false`, and the rest of what was enough."""

from __future__ import annotations

from typing import Any

import pytest
from moments import some
from playbooks import playbook
from test_cancelling import During
from test_retry import Again

from noetl.cli.progress import StepsProgress
from noetl.engine.evolve import replay
from noetl.engine.state import initial_state
from noetl.errors import Conflict, ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.projection.fold import Projection
from noetl.testing import Simulation
from noetl.usecases import control, fork, history, inspect
from noetl.usecases.fork import ForkRequest
from noetl.usecases.turn.advance import advance


def apart(loop: str = "", spec: str = "mode: parallel, max_in_flight: 2", step: str = "") -> str:
    return playbook(
        f"""
- step: start
  {step}
  loop: {{in: [1, 2, 3, 4], iterator: item, {loop} spec: {{{spec}, sync: false}}}}
  tool: {{kind: http, url: "http://x", input: {{item: "{{{{ item }}}}"}}}}
  next:
    arcs:
      - {{step: after}}
      - {{step: never, when: "{{{{ event.name in ['step.failed', 'step.cancelled'] }}}}"}}
- step: after
  tool: {{kind: python, code: x, input: {{found: "{{{{ start }}}}"}}}}
- step: never
  tool: {{kind: python, code: x, input: {{found: no}}}}
"""
    )


def tenfold(call: Call) -> Json:
    item: Any = call.args["item"]
    return item * 10


def simulated(text: str, http: Any = tenfold) -> Simulation:
    return Simulation(text, {"http": http, "python": lambda call: call.args["found"]})


def deliver(sim: Simulation, messages: int) -> None:
    """The first one is the turn that begins."""
    for _ in range(messages):
        sim.deliver()


def facts(sim: Simulation, run: str, kind: Any) -> list[Any]:
    return [event.fact for event in sim.events(run) if isinstance(event.fact, kind)]


def is_replayed(sim: Simulation, run: str) -> bool:
    return replay(initial_state(run), sim.events(run)) == sim.rt.states.get(run)


@pytest.mark.parametrize("mode", ["sequential", "parallel"])
def test_the_step_is_routed_before_any_of_its_iterations_has_run(mode: str) -> None:
    sim = simulated(apart(spec=f"mode: {mode}"))
    run = sim.start()
    deliver(sim, 1)
    decided = [kind for kind in sim.types(run)[-10:] if kind != "command.issued"]
    assert decided[-4:] == ["loop.started", "step.done", "next.evaluated", "step.scheduled"]
    assert sim.tools.calls == []
    assert inspect.state_view(sim.rt, run)["marking"] == {
        "tokens": [],
        "running": [
            {"run_id": "start#1", "step": "start", "status": "running", "routed": True},
            {"run_id": "after#1", "step": "after", "status": "running"},
        ],
    }
    sim.settle()
    report = sim.report(run)
    assert report.row.status == "completed"
    assert report.result == {"results": None, "stats": {"total": 4}}
    assert is_replayed(sim, run)
    assert [call.args["item"] for call in sim.tools.calls if "item" in call.args] == [1, 2, 3, 4]


def test_the_execution_ends_when_the_last_iteration_has() -> None:
    def act() -> None:
        sim.settle()
        seen.append((sim.report(run).row.status, sim.report(run).steps["after"]["status"]))

    seen: list[Any] = []
    sim = simulated(apart(), During(act, 4))
    run = sim.start()
    sim.settle()
    assert seen == [("running", "done")]
    assert sim.types(run)[-3:] == ["loop.done", "workflow.finished", "playbook.processed"]


def test_a_loop_without_items_is_routed_and_over() -> None:
    sim = simulated(apart().replace("[1, 2, 3, 4]", "[]"))
    run = sim.start()
    sim.settle()
    assert sim.report(run).row.status == "completed"
    assert sim.report(run).steps["start"]["result"] == {"results": None, "stats": {"total": 0}}


def failing(call: Call) -> Json:
    if call.args["item"] == 2:
        raise ToolError("client_error", "not this one")
    return call.args["item"]


def test_a_failed_iteration_fails_the_branch_and_nothing_routes_it() -> None:
    sim = simulated(apart(), failing)
    run = sim.start()
    sim.settle()
    report = sim.report(run)
    assert report.row.status == "failed"
    assert "never" not in report.steps
    assert report.steps["start"]["status"] == "failed"
    assert report.row.error["message"] == "not this one"
    assert [fact.boundary for fact in facts(sim, run, e.NextEvaluated)][:1] == ["loop.done"]
    assert is_replayed(sim, run)


def test_under_best_effort_the_other_branches_go_on() -> None:
    sim = simulated(
        apart(
            step="spec: {policy: {failure: {mode: best_effort}}}",
            spec="mode: sequential, policy: {failure: {mode: fail_fast}}",
        ),
        failing,
    )
    run = sim.start()
    sim.settle()
    report = sim.report(run)
    assert (report.row.status, report.steps["after"]["status"]) == ("partial", "done")


def test_failures_that_its_policy_tolerates_are_counted() -> None:
    sim = simulated(apart(spec="mode: parallel, policy: {failure: {tolerate: {count: 1}}}"), failing)
    run = sim.start()
    sim.settle()
    report = sim.report(run)
    assert report.row.status == "completed"
    assert report.errors_passed_over == 1
    done = facts(sim, run, e.LoopDone)[0]
    assert (done.completed, done.failed, done.failure) == (3, 1, None)


def test_cancelling_the_step_ends_what_runs_of_it_and_routes_nothing_again() -> None:
    sim = simulated(apart())
    run = sim.start()
    deliver(sim, 1)
    control.cancel_step(sim.rt, run, "start")
    advance(sim.rt)
    sim.settle()
    report = sim.report(run)
    assert report.row.status == "completed"
    assert "never" not in report.steps
    assert report.steps["start"]["status"] == "done"
    assert [call for call in sim.tools.calls if "item" in call.args] == []
    assert len(facts(sim, run, e.NextEvaluated)) == 2
    with pytest.raises(Conflict):
        control.cancel_step(sim.rt, run, "start")


def test_one_iteration_of_it_may_be_cancelled() -> None:
    sim = simulated(apart())
    run = sim.start()
    deliver(sim, 1)
    control.cancel_step(sim.rt, run, "start", 3)
    advance(sim.rt)
    sim.settle()
    done = facts(sim, run, e.LoopDone)[0]
    assert (done.completed, done.cancelled) == (3, 1)


def test_cancelling_the_execution_ends_it_as_well() -> None:
    sim = simulated(apart())
    run = sim.start()
    deliver(sim, 1)
    control.cancel(sim.rt, run)
    sim.settle()
    assert sim.report(run).row.status == "cancelled"
    assert sim.tools.calls == []


def test_a_failure_elsewhere_that_stops_all_stops_it() -> None:
    def broken(call: Call) -> Json:
        raise ToolError("client_error", "no")

    sim = Simulation(apart(), {"http": tenfold, "python": broken})
    run = sim.start()
    deliver(sim, 1)
    # The step behind it comes first.
    sim.mailbox.messages.reverse()
    sim.deliver()
    advance(sim.rt)
    sim.settle()
    assert sim.report(run).row.status == "failed"
    assert [call for call in sim.tools.calls if "item" in call.args] == []
    assert is_replayed(sim, run)


def test_its_deadline_fails_the_branch() -> None:
    sim = simulated(apart(step="spec: {deadline: 60}"))
    run = sim.start()
    deliver(sim, 1)
    sim.pass_time(61)
    sim.settle()
    report = sim.report(run)
    assert (report.row.status, report.row.error["type"]) == ("failed", "StepDeadline")
    assert "never" not in report.steps
    assert facts(sim, run, e.StepTimedOut) == []


def test_a_pause_holds_it_and_it_goes_on() -> None:
    sim = simulated(apart(spec="mode: sequential"), During(lambda: control.pause(sim.rt, run), 2))
    run = sim.start()
    sim.settle()
    assert sim.report(run).row.status == "paused"
    control.resume(sim.rt, run)
    sim.settle()
    assert sim.report(run).row.status == "completed"
    assert facts(sim, run, e.LoopDone)[0].completed == 4


JOIN = playbook(
    """
- step: start
  next: [apart, beside]
- step: apart
  loop: {in: [1, 2], iterator: item, spec: {sync: false}}
  tool: {kind: http, url: "http://x", input: {item: "{{ item }}"}}
  next: join
- step: beside
  tool: {kind: noop}
  next: join
- step: join
  tool: {kind: python, code: x, input: {found: joined}}
  next: [{step: apart, when: "{{ false }}"}]
"""
)


def test_iterations_that_run_on_hold_no_join_up() -> None:
    def act() -> None:
        sim.settle()
        seen.append(sim.report(run).steps["join"]["status"])

    seen: list[str] = []
    sim = simulated(JOIN, During(act, 2))
    run = sim.start()
    sim.settle()
    assert seen == ["done"]
    assert sim.report(run).steps["join"]["runs"] == 1


ROUNDS = playbook(
    """
- step: start
  next: [apart, beside]
- step: apart
  loop: {in: [1, 2], iterator: item, spec: {sync: false}}
  tool: {kind: http, url: "http://x", input: {item: "{{ item }}"}}
  next: [{step: join, when: "{{ false }}"}]
- step: beside
  tool: {kind: noop}
  next: join
- step: join
  spec: {join: first}
  set: {ctx.n: "{{ ctx.n | default(0) + 1 }}"}
  next: [{step: back, when: "{{ ctx.n < 2 }}"}]
- step: back
  next: join
"""
)


def test_iterations_that_run_on_keep_no_round_of_a_join_open() -> None:
    def act() -> None:
        sim.settle()
        seen.append(sim.report(run).steps["join"]["runs"])

    seen: list[int] = []
    sim = simulated(ROUNDS, During(act, 2))
    run = sim.start()
    sim.settle()
    assert seen == [2]


def test_what_is_told_of_a_step_says_that_its_iterations_run_on() -> None:
    sim = simulated(apart())
    run = sim.start()
    deliver(sim, 1)
    account = history.explain(sim.rt, run, "start").steps[0]
    assert account.standing == "running"
    assert "its step is done, and they run on" in account.why


def test_the_row_of_its_run_stays_open_until_the_last_iteration_has_ended() -> None:
    sim = simulated(apart(), failing)
    run = sim.start()
    deliver(sim, 1)
    assert rows_of(sim, run)["start#1"]["ended_at"] is None
    assert rows_of(sim, run)["start#1"]["status"] == "done"
    sim.settle()
    row = rows_of(sim, run)["start#1"]
    assert (row["status"], row["iterations"], row["iterations_failed"]) == ("failed", 4, 1)
    assert row["ended_at"] is not None


def rows_of(sim: Simulation, run: str) -> dict[str, Any]:
    row = sim.report(run).row
    with sim.rt.store.read() as tx:
        net = sim.rt.plan(tx, row.digest).net
    made = Projection(run, net)
    settled = [row for event in sim.events(run) for row in made.take(event)]
    return {row.values["run_id"]: row.values for row in (*settled, *made.rest()) if row.table == "step_run"}


def test_progress_shows_the_failure_behind_the_end_of_the_step() -> None:
    sim = simulated(apart(), failing)
    run = sim.start()
    sim.settle()
    story = StepsProgress()
    seen = [line for event in sim.events(run) if (line := story.on(event))]
    assert any(line.startswith("start: done") for line in seen)
    assert seen[-1].startswith("start: failed: not this one")


def test_what_is_told_of_it_afterwards_is_how_its_iterations_ended() -> None:
    sim = simulated(apart(), failing)
    run = sim.start()
    sim.settle()
    account = history.explain(sim.rt, run, "start").steps[0].runs[0]
    assert (account.status, account.reason) == (
        "failed",
        "its step was done, and iterations that ran on failed",
    )
    assert account.loop is not None
    assert (account.loop.completed, account.loop.failed) == (1, 1)


# --- again ---------------------------------------------------------------------------------------

AGAIN = """
- step: start
  loop: {in: [1, 2, 3], iterator: item, spec: {sync: false}}
  tool: {kind: http, url: "{{ item }}"}
  next: after
- step: after
  tool: {kind: http, url: after}
"""


def test_a_retry_makes_those_again_that_had_not_ended_well() -> None:
    again = Again(AGAIN)
    again.broken["2"] = "client_error"
    first = again.run()
    assert again.report(first).row.status == "failed"
    again.broken.clear()
    assert again.words(first)["start"] == "rerun"
    second = again.retry(first)
    assert again.report(second).row.status == "completed"
    assert "1" not in again.calls
    assert again.calls.keys() >= {"2", "3"}


def test_a_retry_takes_the_whole_of_one_that_went_well() -> None:
    again = Again(AGAIN + "  next: last\n- step: last\n  tool: {kind: http, url: last}\n")
    again.broken["last"] = "client_error"
    first = again.run()
    again.broken.clear()
    words = again.words(first)
    second = again.retry(first)
    assert again.report(second).row.status == "completed"
    assert words == {"start": "reuse", "after": "reuse", "last": "rerun"}
    assert again.calls.keys() == {"last"}


@pytest.mark.parametrize("rest", ["cancel", "run"])
def test_a_retry_comes_to_enough_with_the_same_iterations(rest: str) -> None:
    again = Again(
        f"""
- step: start
  loop: {{in: [1, 2, 3, 4], iterator: item, enough: {{when: "{{{{ completed >= 2 }}}}", rest: {rest}}}}}
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
    assert again.report(first).row.status == "failed"
    again.broken.clear()
    second = again.retry(first)
    report = again.report(second)
    assert report.row.status == "completed"
    assert report.steps["start"]["result"] == again.report(first).steps["start"]["result"]
    assert "after" not in again.calls, "it read the same"
    assert not again.calls.keys() & {"1", "2"}


@pytest.mark.parametrize("loop", ["", 'enough: {when: "{{ completed >= 2 }}", rest: run},'])
def test_a_fork_from_any_moment_comes_to_the_same_end(loop: str) -> None:
    text = apart(loop) if not loop else apart(loop).replace(", sync: false", "")
    sim = simulated(text)
    first = sim.start()
    sim.settle()
    events = sim.events(first)
    for at in some(range(1, len(events) - 1)):
        made = fork.fork(sim.rt, ForkRequest(first, at=at)).execution_id
        sim.settle()
        report = sim.report(made)
        assert report.row.status == "completed", at
        assert report.steps["start"]["status"] == report.steps["after"]["status"] == "done"
        ended = {
            event.draft.iteration for event in sim.events(made) if isinstance(event.fact, e.IterationDone)
        }
        assert ended == {0, 1, 2, 3}
        assert is_replayed(sim, made)
