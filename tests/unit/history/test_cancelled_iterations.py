"""How many iterations of a loop were cancelled, and why."""

from __future__ import annotations

import pytest

from noetl.cli.explanation_lines import overview
from noetl.history.accounts import CancelledIterations, StepAccount
from noetl.testing import Simulation
from noetl.usecases import control
from noetl.usecases.signals import SignalRequest, send_signal

from .stories import explained, explanation, playbook


def loop(keys: str) -> str:
    """`keys` say when the step need not wait for its iterations."""
    return playbook(f"""
        - step: many
          loop: {{in: [1, 2, 3], iterator: n, {keys}}}
          tool: {{kind: wait, signal: "go{{{{ n }}}}"}}
          next: hold
        - step: hold
          tool: {{kind: wait, signal: never}}
    """)


WIDE = "mode: parallel, max_in_flight: 3"
NO_SYNC = f"spec: {{{WIDE}, sync: false}}"
REST_RUNS = f"enough: {{when: '{{{{ completed >= 1 }}}}', rest: run}}, spec: {{{WIDE}}}"
REST_ENDS = f"enough: {{when: '{{{{ completed >= 1 }}}}'}}, spec: {{{WIDE}}}"


def told(sim: Simulation, run: str, *names: str) -> None:
    for name in names:
        send_signal(sim.rt, run, SignalRequest(name))
        sim.settle()


def begun(keys: str) -> tuple[Simulation, str]:
    sim = Simulation(loop(keys))
    run = sim.start()
    sim.settle()
    told(sim, run, "go1")
    return sim, run


def many(sim: Simulation, run: str) -> StepAccount:
    return explained(sim, run)["many"]


@pytest.mark.parametrize("keys", [NO_SYNC, REST_RUNS])
@pytest.mark.parametrize("reason", ["", "too late"])
def test_iterations_that_ran_on_were_cancelled_with_the_execution(keys: str, reason: str) -> None:
    sim, run = begun(keys)
    control.cancel(sim.rt, run, reason)
    sim.settle()
    one = many(sim, run)
    why = "the execution was cancelled" + (f": {reason}" if reason else "")
    assert (one.standing, one.why) == (
        "done",
        f"It ran as the entry, and 2 of its 3 iterations were cancelled ({why}).",
    )
    found = one.runs[0].loop
    assert found is not None
    assert (found.completed, found.cancelled, found.open, found.waiting) == (1, 2, 0, 0)
    assert found.cancelled_for == (CancelledIterations(2, why),)
    assert f"2 cancelled: {why}" in [line.text.strip() for line in overview(explanation(sim, run))]


def test_iterations_that_nobody_waited_for_say_that_enough_had_ended() -> None:
    sim, run = begun(REST_ENDS)
    one = many(sim, run)
    why = "enough iterations of its loop had ended"
    assert one.why == f"It ran as the entry, and 2 of its 3 iterations were cancelled ({why})."
    assert one.runs[0].loop is not None
    assert one.runs[0].loop.cancelled_for == (CancelledIterations(2, why),)


def test_iterations_that_had_not_begun_have_the_reason_of_their_loop() -> None:
    sim = Simulation(
        playbook("""
        - step: many
          loop:
            in: [1, 2, 3]
            iterator: n
            spec: {mode: sequential}
            enough: {when: "{{ completed >= 1 }}"}
          tool: {kind: noop}
        """)
    )
    run = sim.start()
    sim.settle()
    assert many(sim, run).why.endswith(
        "and 2 of its 3 iterations were cancelled (enough iterations of its loop had ended)."
    )


def test_reasons_are_counted_one_by_one() -> None:
    sim, run = begun(NO_SYNC)
    control.cancel_step(sim.rt, run, "many", 1, "wrong item")
    sim.settle()
    assert many(sim, run).runs[0].loop is not None
    control.cancel(sim.rt, run)
    sim.settle()
    found = many(sim, run).runs[0].loop
    assert found is not None
    assert sum(one.count for one in found.cancelled_for) == found.cancelled == 2
    assert [one.count for one in found.cancelled_for] == [1, 1]
    assert "wrong item" in found.cancelled_for[0].reason


def test_a_loop_that_goes_on_has_nothing_cancelled() -> None:
    sim, run = begun(NO_SYNC)
    one = many(sim, run)
    assert one.runs[0].loop is not None
    assert (one.runs[0].loop.cancelled, one.runs[0].loop.cancelled_for) == (0, ())


def test_a_step_that_ended_the_execution_is_the_reason() -> None:
    sim = Simulation(
        playbook("""
        - step: many
          loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel, max_in_flight: 3, sync: false}}
          tool: {kind: wait, signal: "go{{ n }}"}
          next: last
        - step: last
          tool: {kind: noop}
          terminate: completed
        """)
    )
    run = sim.start()
    sim.settle()
    why = "step 'last' ended the execution"
    assert many(sim, run).why == f"It ran as the entry, and all of its 3 iterations were cancelled ({why})."
