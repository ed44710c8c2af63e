"""Steps that have to end in time."""

from __future__ import annotations

from families import STAYS, Family
from playbooks import playbook

from noetl.errors import ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control
from noetl.usecases.fork import ForkRequest, fork
from noetl.usecases.turn.advance import advance

BOOK = playbook(
    """
    - step: start
      spec: {deadline: "{{ workload.limit }}"}
      tool: {kind: http, url: http://x}
      next:
        arcs:
          - {step: late, when: "{{ event.name == 'step.timed_out' }}", args: {why: "{{ error.kind }}"}}
          - {step: failed, when: "{{ event.name == 'step.failed' }}"}
          - {step: well}
    - step: late
      tool: {kind: noop, input: {why: "{{ args.why }}"}}
    - step: failed
      tool: {kind: noop}
    - step: well
      tool: {kind: noop, input: {well: true}}
""",
    root="workload: {limit: 10s}",
)


def started(text: str = BOOK, **payload: Json) -> tuple[Simulation, str]:
    """An execution whose step was scheduled, and no worker has its command."""
    sim = Simulation(text, {"http": lambda _: {"n": 1}})
    run = sim.start(payload)
    sim.deliver()
    return sim, run


def test_the_message_says_the_time_as_playbooks_do() -> None:
    sim, run = started(BOOK.replace("step: late, when", "step: well, when"), limit="90s")
    sim.pass_time(90)
    advance(sim.rt)
    (failed,) = (one.fact for one in sim.events(run) if one.fact.type == "step.timed_out")
    assert "within its deadline of 1m 30s, which counts" in failed.error.message


def test_a_step_that_ends_in_time_hears_nothing() -> None:
    sim, run = started()
    sim.settle()
    assert sim.report(run).result == {"well": True}
    assert "timer.fired" not in sim.types(run)
    sim.pass_time(60)
    sim.settle()
    assert sim.report(run).row.status == "completed"


def test_a_step_that_waits_in_a_queue_times_out_and_an_arc_takes_that() -> None:
    sim, run = started()
    sim.mailbox.messages.clear()
    sim.pass_time(10)
    advance(sim.rt)
    sim.settle()
    assert sim.report(run).result == {"why": "timeout"}
    assert sim.types(run).index("timer.fired") + 1 == sim.types(run).index("step.timed_out")
    assert not [call for call in sim.tools.calls if call.kind == "http"]


def test_without_such_an_arc_it_counts_as_a_failure() -> None:
    sim, run = started(BOOK.replace("step.timed_out", "step.nothing"))
    sim.mailbox.messages.clear()
    sim.pass_time(10)
    advance(sim.rt)
    sim.settle()
    assert sim.report(run).steps["failed"]["status"] == "done"


def test_a_result_that_comes_behind_the_deadline_is_discarded() -> None:
    def late(_: Call) -> Json:
        sim.pass_time(11)
        advance(sim.rt)
        sim.leases.beat()
        return {"n": 1}

    sim = Simulation(BOOK, {"http": late})
    run = sim.start()
    sim.settle()
    assert sim.report(run).result == {"why": "timeout"}


def test_attempts_and_their_delays_count() -> None:
    def fails(_: Call) -> Json:
        raise ToolError("connection", "no route")

    text = BOOK.replace(
        "{deadline:",
        "{policy: {rules: [{when: \"{{ outcome.status == 'error' }}\", then: {do: retry, attempts: 9, "
        "delay: 4}}]}, deadline:",
    )
    sim = Simulation(text, {"http": fails})
    run = sim.start()
    sim.rest()
    assert sim.report(run).result == {"why": "timeout"}
    assert len([call for call in sim.tools.calls if call.kind == "http"]) == 3


def test_a_deadline_may_be_null_and_what_is_no_time_fails_the_step() -> None:
    sim, run = started(limit=None)
    assert "timer.scheduled" not in sim.types(run)
    sim, run = started(limit="soon")
    sim.settle()
    (error,) = [event.fact.error for event in sim.events(run) if isinstance(event.fact, e.StepFailed)]
    assert "spec.deadline: 'soon' is not a duration" in error.message


def test_nothing_times_out_while_paused_and_a_pause_does_not_count() -> None:
    sim, run = started()
    sim.mailbox.messages.clear()
    sim.pass_time(4)
    control.pause(sim.rt, run)
    advance(sim.rt)
    sim.pass_time(100)
    advance(sim.rt)
    assert "timer.fired" not in sim.types(run)
    control.resume(sim.rt, run)
    sim.mailbox.messages.clear()
    advance(sim.rt)
    sim.pass_time(5)
    advance(sim.rt)
    assert "timer.fired" not in sim.types(run)
    sim.pass_time(1)
    advance(sim.rt)
    assert "timer.fired" in sim.types(run)


def test_of_a_fork_the_time_begins_anew() -> None:
    family = Family(
        """
        - step: start
          spec: {deadline: 10s}
          tool: {kind: playbook, path: tests/child}
        """,
        STAYS,
    )
    run = family.start()
    family.sim.pass_time(8)
    made = fork(family.sim.rt, ForkRequest(run, at=family.sim.report(run).row.head_version))
    advance(family.sim.rt)
    family.sim.pass_time(5)
    family.sim.settle()
    assert (family.status(run), family.status(made.execution_id)) == ("failed", "waiting")
    family.sim.pass_time(5)
    family.sim.settle()
    assert family.status(made.execution_id) == "failed"


def test_the_child_that_a_step_waits_for_is_cancelled_with_it() -> None:
    family = Family(
        """
        - step: start
          spec: {deadline: 10s}
          tool: {kind: playbook, path: tests/child}
        """,
        STAYS,
    )
    run = family.start()
    (child,) = family.children(run)
    family.sim.pass_time(10)
    family.sim.settle()
    assert (family.status(run), family.status(child)) == ("failed", "cancelled")
