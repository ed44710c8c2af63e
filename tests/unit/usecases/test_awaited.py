"""What executions wait for, as reports, lists and explanations show it: slots, pauses and ends."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.history.accounts import Explanation
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import control, history, inspect, pausing
from noetl.usecases.signals import SignalRequest, send_signal

from .playbooks import playbook

ONE = playbook("""
    - step: work
      spec: {deadline: 10m, concurrency: {limit: 1, key: k}}
      tool: {kind: wait, signal: go}
""")


def settled(sim: Simulation) -> str:
    run = sim.start()
    sim.settle()
    return run


def tell(sim: Simulation, run: str, name: str) -> None:
    send_signal(sim.rt, run, SignalRequest(name))
    sim.settle()


def waits(sim: Simulation, run: str) -> list[dict[str, Any]]:
    return [dict(one) for one in sim.report(run).waits]


def texts(sim: Simulation, run: str) -> list[str]:
    return [awaited["text"] for one in waits(sim, run) for awaited in one["for"]]


def line(sim: Simulation, run: str) -> str | None:
    """What lists say that it waits for."""
    found = {row.execution_id: row.waiting_for for row in inspect.executions(sim.rt)}
    return found[run]


def explain(sim: Simulation, run: str) -> Explanation:
    return history.explain(sim.rt, run)


# --- slots ----------------------------------------------------------------------------------------


def test_a_step_that_waits_for_a_slot_says_of_which_key_since_when_and_until_when() -> None:
    sim = Simulation(ONE)
    first = settled(sim)
    sim.pass_time(60)
    second = settled(sim)
    assert [one["kind"] for one in waits(sim, first)] == ["task"]
    (one,) = waits(sim, second)
    assert (one["kind"], one["step"], one["run_id"], one["task"]) == ("slot", "work", "work#1", None)
    assert one["since"] == "2026-01-01T00:01:00+00:00"
    assert one["until"] == "2026-01-01T00:11:00+00:00"
    (awaited,) = one["for"]
    assert (awaited["name"], awaited["text"]) == ("k", "a slot of 'k' (1 of 1 taken)")
    assert awaited["slot"] == {"key": "k", "limit": 1, "per_s": None, "taken": 1, "paused": None}


def test_an_explanation_says_what_a_step_waits_for_now_and_what_it_waited_for_then() -> None:
    sim = Simulation(ONE)
    settled(sim)
    second = settled(sim)
    since = "since 2026-01-01T00:00:00+00:00"
    assert explain(sim, second).steps[0].why == (
        f"It waits: a slot of 'k' (1 of 1 taken), {since}: `noetl limits --key k`."
    )
    version = sim.types(second).index("slot.requested") + 1
    control.cancel(sim.rt, second)
    sim.settle()
    then = history.explain(sim.rt, second, version=version)
    assert then.steps[0].why == f"It waits: a slot of 'k' (limit 1), {since}."


def test_an_execution_and_a_region_wait_for_slots_of_their_own() -> None:
    sim = Simulation(
        playbook(
            """
            - {step: start, tool: {kind: noop}, next: hold}
            - {step: hold, tool: {kind: wait, signal: go}}
            """,
            "regions: {desk: {steps: [hold], deadline: 1h, concurrency: {limit: 1, key: r}}}",
        )
    )
    settled(sim)
    second = settled(sim)
    (one,) = waits(sim, second)
    assert (one["kind"], one["step"], one["region"], one["run_id"]) == ("slot", None, "desk", None)
    assert one["until"] == "2026-01-01T01:00:00+00:00"
    found = explain(sim, second)
    assert [wait.text for wait in found.waits] == [
        "region 'desk' waits for a slot of 'r' (1 of 1 taken), since 2026-01-01T00:00:00+00:00: "
        "`noetl limits --key r`"
    ]
    assert found.steps[1].why.startswith("It waits: region 'desk' waits for a slot of 'r' (1 of 1 taken)")
    whole = Simulation(
        playbook(
            "- {step: hold, tool: {kind: wait, signal: go}}",
            "executor: {spec: {concurrency: {limit: 1, key: w}}}",
        )
    )
    settled(whole)
    other = settled(whole)
    assert [(one["step"], one["region"]) for one in waits(whole, other)] == [(None, None)]
    assert explain(whole, other).waits[0].text.startswith("it waits for a slot of 'w' (1 of 1 taken), since")


def test_lanes_of_a_loop_that_wait_are_shown_together() -> None:
    sim = Simulation(
        playbook("""
        - step: each
          loop:
            in: [1, 2, 3, 4]
            iterator: n
            spec: {mode: parallel, max_in_flight: 4, concurrency: {limit: 1, key: k}}
          tool: {kind: wait, signal: go}
        """)
    )
    run = settled(sim)
    slots = [one for one in waits(sim, run) if one["kind"] == "slot"]
    assert [(one["step"], one["iteration"]) for one in slots] == [("each", None)]
    assert slots[0]["for"][0]["text"] == "3 slots of 'k' (1 of 1 taken)"


def test_a_rate_says_when_the_next_one_is_due() -> None:
    sim = Simulation(
        playbook("""
        - step: work
          spec: {rate: {limit: 1, per: 1m, key: k}}
          tool: {kind: noop}
        """)
    )
    settled(sim)
    second = settled(sim)
    (one,) = waits(sim, second)[0]["for"]
    assert (one["text"], one["due_at"]) == (
        "its turn at 'rate:k' (1 of 1 in 60 s taken)",
        "2026-01-01T00:01:00+00:00",
    )


# --- pauses ---------------------------------------------------------------------------------------


def test_a_key_that_is_paused_is_the_reason_why_nothing_goes_on() -> None:
    sim = Simulation(ONE)
    pausing.pause_key(sim.rt, "k", "it is moved")
    run = settled(sim)
    assert texts(sim, run) == ["a slot of 'k' (0 of 1 taken; paused: it is moved)"]
    assert waits(sim, run)[0]["for"][0]["slot"]["paused"]["reason"] == "it is moved"
    assert line(sim, run) == "a slot of 'k' (limit 1); key 'k' to be resumed"
    pausing.resume_key(sim.rt, "k")
    sim.settle()
    assert line(sim, run) == "signal 'go'"


def test_a_queue_that_is_paused_is_the_reason_of_what_waits_in_it() -> None:
    sim = Simulation(playbook("- {step: work, tool: {kind: python, code: 'result = 1'}}"))
    pausing.pause_queue(sim.rt, "python", "at night")
    run = settled(sim)
    (one,) = waits(sim, run)
    assert (one["kind"], one["step"], one["run_id"]) == ("pause", "work", "work#1")
    assert one["since"] == "2026-01-01T00:00:00+00:00"
    assert texts(sim, run) == ["queue 'python' to be resumed (paused: at night)"]
    assert line(sim, run) == "queue 'python' to be resumed"
    why = explain(sim, run).steps[0].why
    since = "since 2026-01-01T00:00:00+00:00"
    assert why.startswith(f"It waits: queue 'python' to be resumed (paused: at night), {since}")
    assert "+00:00: `noetl limits resume python --queue`" in why
    pausing.resume_queue(sim.rt, "python")
    assert (waits(sim, run), line(sim, run)) == ([], None)


def test_a_step_that_is_paused_says_who_paused_it_and_what_lets_it_go_on() -> None:
    sim = Simulation(ONE)
    run = sim.start()
    pausing.pause_step(sim.rt, run, "work", "look first")
    sim.settle()
    (one,) = waits(sim, run)
    assert (one["kind"], one["step"], one["since"]) == ("pause", "work", "2026-01-01T00:00:00+00:00")
    assert texts(sim, run) == ["step 'work' to be resumed (paused: look first)"]
    why = explain(sim, run).steps[0].why
    assert why.startswith("It waits: step 'work' to be resumed (paused: look first), since 2026-01-01")
    assert f"+00:00: `noetl execution resume {run} --step work`" in why


def test_what_a_worker_is_at_is_not_kept_by_the_pause_of_its_step() -> None:
    sim = Simulation(playbook("- {step: work, tool: {kind: python, code: 'result = 1'}}"))
    run = sim.start()
    sim.deliver(0)
    (command,) = [one.command for one in sim.mailbox.messages if one.command is not None]
    with sim.rt.store.begin() as tx:
        assert tx.commands.claim(command.command_id, "busy", sim.now, sim.now, 2)
    pausing.pause_step(sim.rt, run, "work")
    assert explain(sim, run).steps[0].why.startswith("It runs: worker busy has its command")


# --- ends -----------------------------------------------------------------------------------------


def fail_pay(call: Call) -> Json:
    if call.args.get("do") == "pay":
        raise ToolError("client_error", "no money")
    return None


ENDS = playbook(
    """
    - step: book
      compensate: undo
      tool: {kind: http, url: http://x, input: {do: book}}
      next: rent
    - step: rent
      compensate: undo
      tool: {kind: http, url: http://x, input: {do: rent}}
      next: pay
    - step: pay
      tool: {kind: http, url: http://x, input: {do: pay}}
    - step: undo
      tool: {kind: wait, signal: undone}
    - step: clear
      tool: {kind: wait, signal: cleared}
    """,
    "executor: {spec: {finally: clear}}",
)


def test_an_execution_that_only_ends_says_how_and_what_is_left() -> None:
    sim = Simulation(ENDS, {"http": fail_pay})
    run = settled(sim)
    first = "its end as failed: step 'undo' undoes rent#1, 1 more to undo"
    assert line(sim, run) == f"{first}; signal 'undone'"
    (one,) = [one for one in waits(sim, run) if one["kind"] == "ending"]
    assert (one["step"], one["run_id"], one["for"][0]["text"]) == (None, "undo#1", first)
    assert one["since"] == "2026-01-01T00:00:00+00:00"
    assert explain(sim, run).waits[0].text == f"it waits for {first}, since 2026-01-01T00:00:00+00:00"
    tell(sim, run, "undone")
    assert line(sim, run) == "its end as failed: step 'undo' undoes book#1; signal 'undone'"
    tell(sim, run, "undone")
    assert line(sim, run) == "its end as failed: step 'clear' runs last; signal 'cleared'"
    tell(sim, run, "cleared")
    assert (line(sim, run), waits(sim, run)) == (None, [])


def test_what_is_cleaned_up_behind_a_run_is_no_end_while_others_work() -> None:
    sim = Simulation(
        playbook("""
        - step: start
          next: [left, right]
        - step: left
          finally: clear
          tool: {kind: noop}
        - step: right
          tool: {kind: wait, signal: right}
        - step: clear
          tool: {kind: wait, signal: cleared}
        """)
    )
    run = settled(sim)
    assert line(sim, run) == "signal 'right'; signal 'cleared'"
    tell(sim, run, "right")
    assert line(sim, run) == "the end of left#1: step 'clear' cleans up; signal 'cleared'"


@pytest.mark.parametrize("handler", ["compensate", "finally"])
def test_a_region_that_ends_says_what_it_still_does(handler: str) -> None:
    own = {"compensate": ("compensate: undo", ", compensate: true"), "finally": ("", ", finally: undo")}[
        handler
    ]
    sim = Simulation(
        playbook(
            f"""
            - {{step: book, tool: {{kind: http, url: http://x}}, next: hold, {own[0]}}}
            - {{step: hold, tool: {{kind: wait, signal: go}}, next: after}}
            - {{step: after, tool: {{kind: noop}}}}
            - {{step: undo, tool: {{kind: wait, signal: undone}}}}
            """,
            f"regions: {{trip: {{steps: [book, hold], on_cancel: after{own[1]}}}}}",
        ),
        {"http": lambda _: None},
    )
    run = settled(sim)
    control.cancel_region(sim.rt, run, "trip")
    sim.settle()
    does = {"compensate": "undoes book#1", "finally": "cleans up"}[handler]
    (one,) = [one for one in waits(sim, run) if one["kind"] == "ending"]
    assert (one["region"], one["for"][0]["text"]) == (
        "trip",
        f"the end of region 'trip': step 'undo' {does}",
    )
