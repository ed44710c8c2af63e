"""What has been done is undone when an execution fails or is cancelled, and cleaned up always."""

from __future__ import annotations

from typing import Any

import pytest
from playbooks import playbook

from noetl.errors import ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.signals import SignalRequest, send_signal

TRIP = playbook(
    """
    - step: start
      compensate: undo
      tool: {kind: http, url: http://x, input: {do: flight}}
      next: hotels
    - step: hotels
      loop: {in: [rome, oslo, bern], iterator: city}
      compensate: undo
      tool: {kind: http, url: http://x, input: {do: "{{ city }}"}}
      next: pay
    - step: pay
      tool: {kind: http, url: http://x, input: {do: pay}}
    - step: undo
      tool: {kind: http, url: http://x, input: {undo: "{{ result }}", item: "{{ item }}"}}
    - step: told
      tool: {kind: http, url: http://x, input: {told: "{{ reason }}"}}
    - step: cleared
      tool: {kind: http, url: http://x, input: {cleared: "{{ status }}"}}
    """,
    "executor: {spec: {finally: cleared, on_cancel: told}}",
)


WORDS = ("do", "undo", "told", "cleared", "given_back")


class Agency:
    """Books what it is asked for, but what is in `fails`; notes all that it was asked."""

    def __init__(self, *fails: str) -> None:
        self.fails = list(fails)
        self.asked: list[Any] = []

    def __call__(self, call: Call) -> Json:
        name = next(word for word in WORDS if word in call.args)
        value, item = call.args[name], call.args.get("item")
        self.asked.append((name, value) if item is None else (name, value, item))
        if value in self.fails:
            raise ToolError("client_error", f"{value} is not to be had")
        return f"{value}!" if name == "do" else None

    @property
    def undone(self) -> list[Any]:
        return [what for name, what, *_ in self.asked if name == "undo"]


def booked(agency: Agency, text: str = TRIP) -> tuple[Simulation, str]:
    sim = Simulation(text, {"http": agency})
    run = sim.start()
    sim.settle()
    return sim, run


def statuses(sim: Simulation, run: str) -> str:
    return sim.report(run).row.status


# --- what has failed -----------------------------------------------------------------------------


def test_runs_and_iterations_are_undone_in_reverse_order_before_the_final_step() -> None:
    agency = Agency("pay")
    sim, run = booked(agency)
    assert statuses(sim, run) == "failed"
    assert agency.asked == [
        ("do", "flight"),
        ("do", "rome"),
        ("do", "oslo"),
        ("do", "bern"),
        ("do", "pay"),
        ("undo", "bern!", "bern"),
        ("undo", "oslo!", "oslo"),
        ("undo", "rome!", "rome"),
        ("undo", "flight!"),
        ("cleared", "failed"),
    ]
    error = sim.report(run).error
    assert error is not None
    assert "pay is not to be had" in error["message"]


def test_iterations_of_several_loops_are_undone_in_the_reverse_order_of_their_ends() -> None:
    text = playbook("""
        - step: start
          next: [{step: left}, {step: right}]
        - step: left
          loop: {in: [1, 2], iterator: n, spec: {mode: sequential}}
          compensate: undo
          tool: {kind: wait, signal: {name: "left{{ n }}"}}
          next: pay
        - step: right
          loop: {in: [1, 2], iterator: n, spec: {mode: parallel}}
          compensate: undo
          tool: {kind: wait, signal: {name: "right{{ n }}"}}
          next: pay
        - step: pay
          join: all
          tool: {kind: http, url: http://x, input: {do: pay}}
        - step: undo
          tool: {kind: http, url: http://x, input: {undo: "{{ args.of }}{{ args.item }}"}}
    """)
    agency = Agency("pay")
    sim, run = booked(agency, text)
    for name in ("right2", "left1", "right1", "left2"):
        send_signal(sim.rt, run, SignalRequest(name))
        sim.settle()
    assert statuses(sim, run) == "failed"
    assert agency.undone == ["left2", "right1", "left1", "right2"]


def test_who_undoes_an_iteration_is_told_how_it_ended() -> None:
    text = playbook("""
        - step: start
          loop: {in: [rome, oslo], iterator: city}
          compensate: {step: undo, when: started}
          tool: {kind: http, url: http://x, input: {do: "{{ city }}"}}
        - step: undo
          tool: {kind: http, url: http://x, input: {undo: "{{ args.iteration }} {{ args.status }}"}}
    """)
    agency = Agency("oslo")
    booked(agency, text)
    assert agency.undone == ["1 failed", "0 done"]


def test_nothing_is_undone_of_what_went_well() -> None:
    agency = Agency()
    sim, run = booked(agency)
    assert statuses(sim, run) == "completed"
    assert [name for name, *_ in agency.asked if name != "do"] == ["cleared"]


def test_an_iteration_that_failed_has_nothing_to_be_undone() -> None:
    agency = Agency("oslo")
    sim, _ = booked(agency)
    assert agency.asked[-3:] == [("undo", "rome!", "rome"), ("undo", "flight!"), ("cleared", "failed")]
    assert sim


def test_what_may_have_been_done_is_undone_where_the_step_says_so() -> None:
    agency = Agency("pay")
    text = TRIP.replace("input: {do: pay}}", "input: {do: pay}}\n    compensate: {step: undo, when: started}")
    booked(agency, text)
    assert agency.asked[5:7] == [("undo", None), ("undo", "bern!", "bern")]


def test_an_undoing_that_fails_is_tried_again_and_the_others_go_on() -> None:
    agency = Agency("pay", "oslo!")
    sim, run = booked(agency)
    for _ in range(3):
        sim.pass_time(10)
        sim.settle()
    assert agency.undone == ["bern!", "oslo!", "oslo!", "oslo!", "rome!", "flight!"]
    report = sim.report(run)
    assert report.row.status == "failed"
    assert report.error is not None
    assert "pay is not to be had" in report.error["message"]
    failed = [event for event in sim.events(run) if isinstance(event.fact, e.StepFailed)]
    assert [event.draft.step for event in failed] == ["pay", "undo"]


def test_a_retry_does_again_what_was_undone() -> None:
    agency = Agency("pay")
    sim, run = booked(agency)
    agency.fails.clear()
    agency.asked.clear()
    again = retry(sim.rt, RetryRequest(run)).execution_id
    sim.settle()
    assert statuses(sim, again) == "completed"
    assert [what for name, what in agency.asked if name == "do"] == ["flight", "rome", "oslo", "bern", "pay"]


# --- what was cancelled --------------------------------------------------------------------------


def test_a_cancelled_execution_is_undone_told_and_cleared() -> None:
    agency = Agency()
    text = TRIP.replace(
        "tool: {kind: http, url: http://x, input: {do: pay}}", "tool: {kind: wait, signal: paid}"
    )
    sim, run = booked(agency, text)
    control.cancel(sim.rt, run, "too dear")
    sim.settle()
    assert statuses(sim, run) == "cancelled"
    assert agency.asked[4:] == [
        ("undo", "bern!", "bern"),
        ("undo", "oslo!", "oslo"),
        ("undo", "rome!", "rome"),
        ("undo", "flight!"),
        ("told", "too dear"),
        ("cleared", "cancelled"),
    ]


def test_an_execution_that_is_cancelled_before_it_began_has_nothing_to_clear() -> None:
    agency = Agency()
    sim = Simulation(TRIP, {"http": agency})
    run = sim.start()
    control.cancel(sim.rt, run)
    sim.settle()
    assert (statuses(sim, run), agency.asked) == ("cancelled", [])


def test_a_pause_from_before_does_not_keep_it_from_its_end() -> None:
    agency = Agency()
    text = TRIP.replace(
        "tool: {kind: http, url: http://x, input: {do: pay}}", "tool: {kind: wait, signal: paid}"
    )
    sim, run = booked(agency, text)
    control.pause(sim.rt, run)
    sim.settle()
    control.cancel(sim.rt, run, "too dear")
    sim.settle()
    assert statuses(sim, run) == "cancelled"
    assert agency.asked[-1] == ("cleared", "cancelled")


# --- finally of a step ---------------------------------------------------------------------------

ROOM = playbook("""
    - step: start
      finally: key
      tool: {kind: http, url: http://x, input: {do: room}}
      next: [{step: out}]
    - step: out
      tool: {kind: http, url: http://x, input: {do: out}}
    - step: key
      tool: {kind: http, url: http://x, input: {given_back: "{{ status }}"}}
""")


def test_a_step_is_cleaned_up_before_its_arcs_are_asked() -> None:
    agency = Agency()
    booked(agency, ROOM)
    assert agency.asked == [("do", "room"), ("given_back", "done"), ("do", "out")]


def test_a_step_that_failed_is_cleaned_up() -> None:
    agency = Agency("room")
    sim, run = booked(agency, ROOM)
    assert agency.asked == [("do", "room"), ("given_back", "failed")]
    assert statuses(sim, run) == "failed"


def test_a_step_that_was_withdrawn_is_cleaned_up() -> None:
    agency = Agency()
    sim, run = booked(
        agency, ROOM.replace("{kind: http, url: http://x, input: {do: room}}", "{kind: wait, timer: 1h}")
    )
    control.cancel(sim.rt, run)
    sim.settle()
    assert agency.asked == [("given_back", "cancelled")]
    assert statuses(sim, run) == "cancelled"


def test_a_step_that_somebody_ended_is_cleaned_up_and_the_execution_goes_on() -> None:
    agency = Agency()
    text = ROOM.replace("{kind: http, url: http://x, input: {do: room}}", "{kind: wait, timer: 1h}")
    sim, run = booked(agency, text)
    control.cancel_step(sim.rt, run, "start")
    sim.settle()
    assert agency.asked == [("given_back", "cancelled")]
    assert statuses(sim, run) == "completed"


def test_a_failure_to_clean_up_is_one_of_the_execution() -> None:
    agency = Agency("done")
    sim, run = booked(agency, ROOM)
    assert statuses(sim, run) == "failed"
    assert agency.asked == [("do", "room"), ("given_back", "done")]


@pytest.mark.parametrize("nth", [1, 2])
def test_a_handler_that_a_cancel_interrupts_runs_again(nth: int) -> None:
    """What is to be undone or cleaned up is, whatever comes between."""
    agency = Agency()
    sim = Simulation(ROOM, {"http": agency})
    run = sim.start()
    while len(agency.asked) < nth:
        sim.deliver()
    control.cancel(sim.rt, run)
    sim.settle()
    assert statuses(sim, run) == "cancelled"
    assert agency.asked[-1][0] == "given_back"


ENDING = playbook(
    """
    - step: start
      compensate: undo
      tool: {kind: http, url: http://x, input: {do: flight}}
      next: pay
    - step: pay
      tool: {kind: http, url: http://x, input: {do: pay}}
    - step: undo
      tool:
        - said: {kind: http, url: http://x, input: {undo: "{{ result }}"}}
        - wait: {kind: wait, signal: undone}
    - step: told
      tool: {kind: http, url: http://x, input: {told: "{{ reason }}"}}
    - step: cleared
      tool:
        - said: {kind: http, url: http://x, input: {cleared: "{{ status }}"}}
        - wait: {kind: wait, signal: go}
    """,
    "executor: {spec: {finally: cleared, on_cancel: told}}",
)


def test_a_final_step_that_a_cancel_interrupts_runs_again_behind_what_is_undone() -> None:
    agency = Agency()
    sim, run = booked(agency, ENDING)
    control.cancel(sim.rt, run, "no more")
    sim.settle()
    for name in ("undone", "go"):
        send_signal(sim.rt, run, SignalRequest(name))
        sim.settle()
    assert statuses(sim, run) == "cancelled"
    assert agency.asked == [
        ("do", "flight"),
        ("do", "pay"),
        ("cleared", "completed"),
        ("undo", "flight!"),
        ("told", "no more"),
        ("cleared", "cancelled"),
    ]


def test_a_final_step_that_had_ended_does_not_run_again() -> None:
    agency = Agency()
    sim, run = booked(agency, ENDING)
    send_signal(sim.rt, run, SignalRequest("go"))
    while "step.done" not in sim.types(run)[-1:]:
        sim.deliver()
    control.cancel(sim.rt, run)
    sim.settle()
    send_signal(sim.rt, run, SignalRequest("undone"))
    sim.settle()
    assert statuses(sim, run) == "cancelled"
    assert agency.asked.count(("cleared", "completed")) == 1
    assert ("cleared", "cancelled") not in agency.asked


def test_a_cancel_interrupts_nothing_of_what_an_execution_does_at_its_end() -> None:
    agency = Agency("pay")
    sim, run = booked(agency, ENDING)
    control.cancel(sim.rt, run)
    assert sim.report(run).row.halt == ""
    sim.settle()
    for name in ("undone", "go"):
        send_signal(sim.rt, run, SignalRequest(name))
        sim.settle()
    assert statuses(sim, run) == "cancelled"
    assert "step.cancelled" not in sim.types(run)
