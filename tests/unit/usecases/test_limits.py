"""Limits: slots of steps, iterations and executions, rates, circles, and what frees them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from noetl.errors import BadRequest, Conflict, NotFound, PlaybookInvalid, ToolError
from noetl.facts.limits import SlotRow
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.trial.simulation import Message
from noetl.usecases import catalog, control, fork, limits, pausing, retry, signals
from noetl.usecases.runtime import RuntimeLimits
from noetl.usecases.start import start
from noetl.usecases.start_request import StartRequest

from .playbooks import playbook

ONE = playbook("""
    - step: work
      spec: {concurrency: {limit: 1, key: k}}
      tool: {kind: python, code: "result = 1"}
""")


def rows(sim: Simulation, key: str | None = None) -> list[SlotRow]:
    with sim.rt.store.read() as tx:
        return tx.slots.of_key(key)


def having(sim: Simulation, key: str | None = None) -> list[str]:
    return [row.execution_id for row in rows(sim, key) if row.granted_at is not None]


def turn(sim: Simulation) -> None:
    """Delivers wakes alone: commands stay where they are."""
    while (
        at := next((at for at, one in enumerate(sim.mailbox.messages) if one.command is None), None)
    ) is not None:
        sim.deliver(at)


def commands(sim: Simulation) -> list[Message]:
    return [one for one in sim.mailbox.messages if one.command is not None]


def begin(sim: Simulation, *payloads: dict[str, Any]) -> list[str]:
    """Starts one after the other, each with the turns that it needs."""
    found = []
    for payload in payloads:
        found.append(sim.start(payload))
        turn(sim)
    return found


def status(sim: Simulation, run: str) -> str:
    return sim.report(run).row.status


def errors(sim: Simulation, run: str) -> dict[str, Any]:
    error = sim.report(run).error
    assert error is not None
    return dict(error)


# --- steps ----------------------------------------------------------------------------------------


def test_no_more_than_the_limit_run_at_once_and_the_last_one_runs() -> None:
    most, now = [], [0]

    def work(_: Call) -> int:
        return 1

    sim = Simulation(
        playbook("""
        - step: work
          spec: {concurrency: {limit: 3, key: k}}
          tool: {kind: python, code: "result = 1"}
    """),
        {"python": work},
    )
    runs = [sim.start() for _ in range(20)]
    while sim.mailbox.messages:
        sim.deliver(now[0] % len(sim.mailbox.messages))
        most.append(len(having(sim)))
        now[0] += 7
    assert max(most) == 3
    assert {status(sim, run) for run in runs} == {"completed"}
    assert rows(sim) == []


def test_a_slot_is_taken_with_the_command_and_freed_with_the_end() -> None:
    sim = Simulation(ONE)
    first, second = begin(sim, {}, {})
    assert sim.types(first)[-3:] == ["slot.requested", "slot.granted", "command.issued"]
    assert sim.types(second)[-1] == "slot.requested"
    assert sim.report(second).row.waiting_for == "a slot of 'k' (limit 1)"
    assert having(sim) == [first]
    sim.deliver(0)
    assert (sim.types(first)[-1], having(sim)) == ("step.done", [])
    turn(sim)
    assert having(sim) == [second]
    assert sim.types(second)[-2:] == ["slot.granted", "command.issued"]


def test_a_lost_worker_and_another_delivery_keep_the_slot() -> None:
    sim = Simulation(ONE, limits=RuntimeLimits(slice_s=3600.0, max_deliveries=2))
    first, second = begin(sim, {}, {})
    for _ in range(2):
        command = commands(sim)[0].command
        assert command is not None
        sim.mailbox.messages.clear()
        with sim.rt.store.begin() as tx:
            assert tx.commands.claim(command.command_id, "dead", sim.now, sim.now, 2)
        sim.pass_time(1)
        if having(sim) == [first]:
            assert having(sim) == [first]
    turn(sim)
    assert errors(sim, first)["type"] == "WorkerLost"
    assert having(sim) == [second]


def test_a_pipeline_that_waits_keeps_its_slot() -> None:
    sim = Simulation(
        playbook("""
        - step: work
          spec: {concurrency: {limit: 1, key: k}}
          tool: {kind: wait, signal: go}
    """)
    )
    first, second = begin(sim, {}, {})
    sim.settle()
    assert (status(sim, first), having(sim)) == ("waiting", [first])
    assert status(sim, second) == "running"
    signals.send_signal(sim.rt, first, signals.SignalRequest("go"))
    sim.settle()
    assert (status(sim, first), having(sim)) == ("completed", [second])


@pytest.mark.parametrize(
    ("end", "left"),
    [
        (lambda sim, run: control.cancel(sim.rt, run), "cancelled"),
        (lambda sim, run: control.cancel_step(sim.rt, run, "work"), "completed"),
        (lambda sim, run: sim.pass_time(61), "failed"),
    ],
    ids=["cancelled", "the step is cancelled", "its deadline comes"],
)
def test_whatever_ends_it_frees_its_slot(end: Callable[[Simulation, str], None], left: str) -> None:
    sim = Simulation(
        playbook("""
        - step: work
          spec: {deadline: 60, concurrency: {limit: 1, key: k}}
          tool: {kind: wait, signal: go}
    """)
    )
    (first,) = begin(sim, {})
    sim.settle()
    begin(sim, {})
    assert having(sim) == [first]
    end(sim, first)
    sim.settle()
    assert status(sim, first) == left
    assert first not in having(sim)


def test_a_deadline_counts_while_a_step_waits_for_a_slot() -> None:
    sim = Simulation(
        playbook("""
        - step: work
          spec: {deadline: 60, concurrency: {limit: 1, key: k}}
          tool: {kind: python, code: "result = 1"}
    """)
    )
    _, second = begin(sim, {}, {})
    sim.mailbox.messages.clear()
    sim.pass_time(61)
    turn(sim)
    assert errors(sim, second)["type"] == "StepDeadline"
    assert [row.execution_id for row in rows(sim)] == []


def test_all_keys_or_none() -> None:
    sim = Simulation(
        playbook("""
        - step: work
          spec:
            concurrency:
              - {limit: 1, key: "{{ workload.one }}"}
              - {limit: 1, key: "{{ workload.two }}"}
          tool: {kind: python, code: "result = 1"}
    """).replace("workflow:", "workload: {one: a, two: b}\nworkflow:")
    )
    first, second, third = begin(sim, {}, {"one": "b", "two": "c"}, {"one": "c", "two": "d"})
    assert sorted(set(having(sim))) == [first, third]
    assert second not in having(sim)
    sim.settle()
    assert {status(sim, one) for one in (first, second, third)} == {"completed"}
    assert rows(sim) == []


@pytest.mark.parametrize("on_full", ["skip", "fail"])
def test_one_that_finds_no_room_is_skipped_or_fails(on_full: str) -> None:
    sim = Simulation(
        playbook(f"""
        - step: work
          spec: {{concurrency: {{limit: 1, key: k, on_full: {on_full}}}}}
          tool: {{kind: python, code: "result = 1"}}
          next: behind
        - step: behind
          tool: {{kind: python, code: "result = 2"}}
    """)
    )
    first, second = begin(sim, {}, {})
    sim.settle()
    assert status(sim, first) == "completed"
    if on_full == "skip":
        assert (status(sim, second), sim.report(second).result) == ("completed", 2)
        assert "step.skipped" in sim.types(second)
    else:
        error = errors(sim, second)
        assert (error["kind"], error["message"]) == ("limit", "No slot of 'k' was free (limit 1).")
    assert rows(sim) == []


def test_the_oldest_is_cancelled_for_one_more() -> None:
    sim = Simulation(
        playbook("""
        - step: work
          spec: {concurrency: {limit: 1, key: k, on_full: cancel_oldest}}
          tool: {kind: wait, signal: go}
    """)
    )
    (first,) = begin(sim, {})
    sim.settle()
    (second,) = begin(sim, {})
    sim.settle()
    assert having(sim) == [second]
    assert "step.cancelled" in sim.types(first)
    assert status(sim, first) != "waiting"


def test_a_limit_that_is_no_number_fails_the_step_with_one_sentence() -> None:
    sim = Simulation(
        playbook("""
        - step: work
          spec: {concurrency: {limit: "{{ workload.n }}"}}
          tool: {kind: python, code: "result = 1"}
    """).replace("workflow:", "workload: {n: 0}\nworkflow:")
    )
    run = sim.start()
    sim.settle()
    assert errors(sim, run)["kind"] == "template"
    assert errors(sim, run)["message"] == (
        "spec.concurrency: the limit is 0; it has to be a whole number from 1 to 1,000,000."
    )


@pytest.mark.parametrize(
    "spec",
    [
        "concurrency: {limit: 0}",
        "concurrency: {limit: -1}",
        "concurrency: {key: k}",
        "concurrency: {limit: .nan}",
        "concurrency: {limit: 1.5}",
        "concurrency: {limit: 1, on_full: panic}",
        "concurrency: {limit: 1, key: 'queue:http'}",
        "rate: {limit: 1}",
        "rate: {limit: 1, per: fortnight}",
        "rate: {limit: 1, per: 0}",
        "rate: {limit: 0, per: 1s}",
        "priority: 10",
        "priority: -1",
    ],
)
def test_what_bounds_nothing_is_a_problem_of_the_document(spec: str) -> None:
    text = playbook(f"""
        - step: work
          spec: {{{spec}}}
          tool: {{kind: python, code: "result = 1"}}
    """)
    with pytest.raises(PlaybookInvalid):
        Simulation(text)


def test_a_step_that_calls_nothing_has_nothing_to_bound() -> None:
    with pytest.raises(PlaybookInvalid, match="nothing to bound"):
        Simulation(playbook("- step: start\n  spec: {concurrency: {limit: 1}}\n  next: end\n- step: end"))


# --- order ----------------------------------------------------------------------------------------

ORDERED = playbook("""
    - step: work
      spec: {concurrency: {limit: 1, key: k}}
      tool: {kind: python, code: "result = 1"}
""")


def test_priority_comes_first_and_then_age_and_who_waits_long_overtakes() -> None:
    sim = Simulation(ORDERED)
    urgent = ORDERED.replace("spec: {", "spec: {priority: 9, ").replace(
        "path: tests/test", "path: tests/urgent"
    )
    path = catalog.register(sim.rt, urgent, "urgent.yaml").path
    first, second, third = begin(sim, {}, {}, {})
    later = start(sim.rt, StartRequest(path)).execution_id
    turn(sim)
    assert having(sim) == [first]
    sim.deliver(0)
    turn(sim)
    assert having(sim) == [later]
    sim.pass_time(5 * 60)
    newest = start(sim.rt, StartRequest(path)).execution_id
    turn(sim)
    sim.deliver(0)
    turn(sim)
    # Five minutes are worth five steps: 5 + 5 against 9.
    assert having(sim) == [second]
    sim.settle()
    assert {status(sim, run) for run in (first, second, third, later, newest)} == {"completed"}


# --- rates ----------------------------------------------------------------------------------------


def test_no_more_begin_in_any_window_than_the_rate_allows() -> None:
    sim = Simulation(
        playbook("""
        - step: work
          spec: {rate: {limit: 2, per: 10s, key: api}}
          tool: {kind: python, code: "result = 1"}
    """)
    )
    began = sim.now
    runs = [sim.start() for _ in range(5)]
    sim.rest()
    assert {status(sim, run) for run in runs} == {"completed"}
    at = sorted(
        (event.recorded_at - began).total_seconds()
        for run in runs
        for event in sim.events(run)
        if event.fact.type == "slot.granted"
    )
    assert at == [0, 0, 10, 10, 20]
    sim.pass_time(11)
    assert rows(sim) == []


# --- loops ----------------------------------------------------------------------------------------

LOOP = playbook("""
    - step: work
      loop:
        in: [1, 2, 3, 4, 5, 6]
        iterator: n
        spec: {mode: parallel, max_in_flight: 4, concurrency: {limit: 2, key: k}}
      tool: {kind: python, code: "result = n", input: {n: "{{ iter.n }}"}}
""")


def test_iterations_of_all_loops_share_the_slots_of_a_key() -> None:
    sim = Simulation(LOOP)
    runs = [sim.start() for _ in range(3)]
    most = 0
    while sim.mailbox.messages:
        sim.deliver()
        most = max(most, len(having(sim)))
        open_lanes = sum(command.state != "closed" for run in runs for command in _open(sim, run))
        assert open_lanes <= 2
    assert most == 2
    assert {status(sim, run) for run in runs} == {"completed"}
    assert [sim.report(run).result["results"] for run in runs] == [[1, 2, 3, 4, 5, 6]] * 3
    assert rows(sim) == []


def _open(sim: Simulation, run: str) -> list[Any]:
    with sim.rt.store.read() as tx:
        return [one for one in tx.commands.open_of(run) if one.purpose in ("lane", "iteration")]


WAITING_LOOP = playbook("""
    - step: work
      loop:
        in: [1, 2, 3]
        iterator: n
        spec: {mode: parallel, max_in_flight: 3, concurrency: {limit: 2, key: k}}
      tool: {kind: wait, signal: {name: "go{{ iter.n }}"}}
""")


def test_an_iteration_that_waits_keeps_its_slot_and_goes_on_with_it() -> None:
    sim = Simulation(WAITING_LOOP)
    run = sim.start()
    sim.settle()
    assert sorted(row.part for row in rows(sim) if row.granted_at) == ["i0", "i1"]
    assert _open(sim, run) == []
    signals.send_signal(sim.rt, run, signals.SignalRequest("go1"))
    sim.settle()
    assert len(having(sim)) == 2
    assert sorted(row.part for row in rows(sim) if row.granted_at) == ["i1", "i2"]
    for name in ("go2", "go3"):
        signals.send_signal(sim.rt, run, signals.SignalRequest(name))
    sim.settle()
    assert (status(sim, run), rows(sim)) == ("completed", [])


def test_an_iteration_that_is_cancelled_while_it_waits_frees_its_slot() -> None:
    sim = Simulation(WAITING_LOOP)
    run = sim.start()
    sim.settle()
    control.cancel_step(sim.rt, run, "work", 0)
    sim.settle()
    assert sorted(row.part for row in rows(sim) if row.granted_at) == ["i1", "i2"]


def test_a_loop_as_a_whole_has_a_slot_from_its_first_lane_to_its_end() -> None:
    sim = Simulation(
        playbook("""
        - step: work
          spec: {concurrency: {limit: 1, key: k}}
          loop: {in: [1, 2, 3], iterator: n, spec: {mode: parallel}}
          tool: {kind: python, code: "result = n", input: {n: "{{ iter.n }}"}}
    """)
    )
    first, second = begin(sim, {}, {})
    assert (having(sim), _open(sim, second)) == ([first], [])
    sim.settle()
    assert [sim.report(run).result["results"] for run in (first, second)] == [[1, 2, 3]] * 2
    assert rows(sim) == []


# --- executions -----------------------------------------------------------------------------------

WHOLE = playbook("""
    - step: work
      tool: {kind: wait, signal: go}
""").replace(
    "workflow:", "executor: {spec: {concurrency: {limit: 1, key: whole, on_full: ON_FULL}}}\nworkflow:"
)


def test_an_execution_waits_before_its_first_step() -> None:
    sim = Simulation(WHOLE.replace("ON_FULL", "wait"))
    first, second = begin(sim, {}, {})
    sim.settle()
    assert [status(sim, run) for run in (first, second)] == ["waiting", "pending"]
    assert sim.report(second).row.waiting_for == "a slot of 'whole' (limit 1)"
    control.cancel(sim.rt, first)
    sim.settle()
    assert [status(sim, run) for run in (first, second)] == ["cancelled", "waiting"]
    assert having(sim) == [second]


@pytest.mark.parametrize(
    ("on_full", "left"),
    [
        ("skip", ["waiting", "cancelled"]),
        ("fail", ["waiting", "failed"]),
        ("cancel_oldest", ["cancelled", "waiting"]),
    ],
)
def test_an_execution_that_finds_no_room(on_full: str, left: list[str]) -> None:
    sim = Simulation(WHOLE.replace("ON_FULL", on_full))
    first, second = begin(sim, {}, {})
    sim.settle()
    assert [status(sim, run) for run in (first, second)] == left
    assert len(rows(sim)) == 1


# --- calls and circles ----------------------------------------------------------------------------


def test_what_is_called_enters_the_keys_of_its_callers_again() -> None:
    child = ONE.replace("path: tests/test", "path: tests/child")
    sim = Simulation(
        playbook("""
        - step: call
          spec: {concurrency: {limit: 1, key: k}}
          tool: {kind: playbook, path: tests/child}
    """)
    )
    catalog.register(sim.rt, child, "child.yaml")
    runs = [sim.start() for _ in range(3)]
    most = 0
    while sim.mailbox.messages:
        sim.deliver()
        counting = [row for row in rows(sim) if row.granted_at is not None and row.under is None]
        most = max(most, len(counting))
    assert most == 1
    assert {status(sim, run) for run in runs} == {"completed"}
    assert rows(sim) == []


CIRCLE = playbook("""
    - step: work
      spec: {concurrency: {limit: 1, key: "{{ workload.inner }}"}}
      tool: {kind: python, code: "result = 1"}
""").replace(
    "workflow:",
    'workload: {outer: a, inner: b}\nexecutor: {spec: {concurrency: {limit: 1, key: "{{ outer }}"}}}\nworkflow:',
)


def test_of_those_that_wait_for_one_another_in_a_circle_the_youngest_fails() -> None:
    sim = Simulation(CIRCLE)
    first, second = sim.start(), sim.start({"outer": "b", "inner": "a"})
    sim.settle()
    assert [status(sim, run) for run in (first, second)] == ["completed", "failed"]
    error = errors(sim, second)
    assert error["kind"] == "limit"
    assert f"execution {second} waits for a slot of 'a', which execution {first} has" in error["message"]
    assert rows(sim) == []


# --- again and elsewhere --------------------------------------------------------------------------


def test_a_fork_asks_for_slots_of_its_own() -> None:
    sim = Simulation(
        playbook("""
        - step: work
          spec: {concurrency: {limit: 1, key: k}}
          tool: {kind: wait, signal: go}
    """)
    )
    first = sim.start()
    sim.settle()
    other = fork.fork(sim.rt, fork.ForkRequest(first, at=len(sim.events(first)))).execution_id
    sim.settle()
    assert having(sim) == [first]
    signals.send_signal(sim.rt, other, signals.SignalRequest("go"))
    sim.settle()
    assert "command.issued" not in sim.types(other)[-2:]
    signals.send_signal(sim.rt, first, signals.SignalRequest("go"))
    sim.settle()
    assert [status(sim, run) for run in (first, other)] == ["completed", "completed"]
    assert rows(sim) == []


def test_a_retry_begins_without_the_slots_of_its_source() -> None:
    fails = [True]

    def work(call: Call) -> int:
        if call.where.step == "second" and fails[0]:
            raise ToolError("server_error", "not yet")
        return 1

    sim = Simulation(
        playbook("""
        - step: work
          spec: {concurrency: {limit: 1, key: k}}
          tool: {kind: python, code: "result = 1"}
          next: second
        - step: second
          spec: {concurrency: {limit: 1, key: k}}
          tool: {kind: python, code: "result = 2"}
    """),
        {"python": work},
    )
    first = sim.start()
    sim.settle()
    assert (status(sim, first), rows(sim)) == ("failed", [])
    fails[0] = False
    again = retry.retry(sim.rt, retry.RetryRequest(first, confirmed=True)).execution_id
    sim.settle()
    assert (status(sim, again), rows(sim)) == ("completed", [])
    # What stands needs no slot.
    assert sim.types(again).count("slot.requested") == 1


def test_what_is_paused_leaves_the_line_and_joins_it_again() -> None:
    sim = Simulation(ONE)
    first, second, third = begin(sim, {}, {}, {})
    control.pause(sim.rt, second)
    turn(sim)
    assert [row.execution_id for row in rows(sim)] == [first, third]
    sim.deliver(0)
    turn(sim)
    assert having(sim) == [third]
    control.resume(sim.rt, second)
    sim.settle()
    assert {status(sim, run) for run in (first, second, third)} == {"completed"}


# --- queues ---------------------------------------------------------------------------------------


def test_a_queue_with_a_limit_is_a_pool() -> None:
    sim = Simulation(
        playbook("""
        - step: work
          spec: {queue: http}
          tool: {kind: python, code: "result = 1"}
    """),
        limits=RuntimeLimits(slice_s=3600.0, queue_limits={"http": 2}),
    )
    runs = [sim.start() for _ in range(5)]
    turn(sim)
    assert len(having(sim, "queue:http")) == 2
    sim.settle()
    assert {status(sim, run) for run in runs} == {"completed"}
    assert rows(sim) == []


def test_a_lost_wake_is_made_up_for_by_the_sweeper(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = Simulation(ONE)
    first, second = begin(sim, {}, {})
    with monkeypatch.context() as patch:
        patch.setattr("noetl.usecases.turn.advance.wake_waiters", lambda *_: 0)
        sim.settle()
    assert (status(sim, first), status(sim, second)) == ("completed", "running")
    sim.pass_time(1)
    sim.settle()
    assert status(sim, second) == "completed"


# --- pause of parts -------------------------------------------------------------------------------


def test_a_paused_key_gives_nobody_a_slot_and_takes_none_away() -> None:
    sim = Simulation(ONE)
    first, second = begin(sim, {}, {})
    pausing.pause_key(sim.rt, "k", "too slow")
    pausing.pause_key(sim.rt, "k", "again")
    sim.settle()
    sim.pass_time(30)
    sim.settle()
    assert [status(sim, run) for run in (first, second)] == ["completed", "running"]
    (found,) = limits.look(sim.rt)
    assert (found.paused and found.paused.reason, found.held, found.waiting) == ("too slow", 0, 1)
    pausing.resume_key(sim.rt, "k")
    sim.settle()
    assert status(sim, second) == "completed"
    with pytest.raises(Conflict, match="not paused"):
        pausing.resume_key(sim.rt, "k")


def test_workers_take_nothing_of_a_paused_queue() -> None:
    sim = Simulation(ONE)
    run = sim.start()
    pausing.pause_queue(sim.rt, "python")
    sim.settle()
    sim.pass_time(3600)
    sim.settle()
    assert sim.types(run)[-1] == "command.issued"
    pausing.resume_queue(sim.rt, "python")
    sim.pass_time(1)
    sim.settle()
    assert status(sim, run) == "completed"


def test_the_queue_of_the_scheduler_is_not_paused() -> None:
    with pytest.raises(BadRequest, match="scheduler"):
        pausing.pause_queue(Simulation(ONE).rt, "scheduler")


TWO = playbook("""
    - step: start
      next: [left, right]
    - step: left
      tool: {kind: python, code: "result = 1"}
      next: last
    - step: right
      tool: {kind: python, code: "result = 2"}
      next: last
    - step: last
      tool: {kind: python, code: "result = 3"}
""")


def test_a_paused_step_begins_nothing_and_the_rest_goes_on() -> None:
    sim = Simulation(TWO)
    run = sim.start()
    pausing.pause_step(sim.rt, run, "last", "look at it first")
    pausing.pause_step(sim.rt, run, "last")
    sim.settle()
    steps = sim.report(run).steps
    assert {steps["left"]["status"], steps["right"]["status"]} == {"done"}
    assert "last" not in steps
    assert (status(sim, run), sim.report(run).row.waiting_for) == ("waiting", "step 'last' to be resumed")
    pausing.resume_step(sim.rt, run, "last")
    sim.settle()
    assert (status(sim, run), sim.report(run).result) == ("completed", 3)
    assert sim.types(run).count("step.pause.requested") == 1


def test_a_command_of_a_paused_step_is_not_taken_and_a_loop_of_it_stands_still() -> None:
    sim = Simulation(
        playbook("""
        - step: work
          loop: {in: [1, 2, 3, 4], iterator: n, spec: {mode: sequential}}
          tool: {kind: python, code: "result = n", input: {n: "{{ iter.n }}"}}
    """),
        limits=RuntimeLimits(slice_s=0.0),
    )
    run = sim.start()
    turn(sim)
    sim.deliver()
    pausing.pause_step(sim.rt, run, "work")
    sim.settle()
    sim.pass_time(3600)
    sim.settle()
    assert sim.types(run).count("loop.iteration.done") == 1
    pausing.resume_step(sim.rt, run, "work")
    sim.pass_time(1)
    sim.settle()
    assert (status(sim, run), sim.report(run).result["results"]) == ("completed", [1, 2, 3, 4])


def test_a_step_that_there_is_not_and_one_that_is_not_paused() -> None:
    sim = Simulation(TWO)
    run = sim.start()
    with pytest.raises(NotFound, match="Did you mean 'last'"):
        pausing.pause_step(sim.rt, run, "lats")
    with pytest.raises(Conflict, match="is not paused"):
        pausing.resume_step(sim.rt, run, "last")


def test_nothing_stays_paused_of_an_execution_that_has_ended() -> None:
    sim = Simulation(TWO)
    run = sim.start()
    pausing.pause_step(sim.rt, run, "last")
    sim.settle()
    control.cancel(sim.rt, run)
    sim.settle()
    with sim.rt.store.read() as tx:
        assert tx.slots.paused() == []


def test_who_has_a_slot_and_who_waits_is_shown_to_whom_it_may_be() -> None:
    sim = Simulation(ONE)
    first, second = begin(sim, {}, {})
    (found,) = limits.look(sim.rt)
    assert (found.key, found.limit, found.held, found.waiting) == ("k", 1, 1, 1)
    assert [(row.execution_id, path) for row, path in found.holders] == [(first, "tests/test")]
    assert [row.execution_id for row, _ in found.waiters] == [second]
    (hidden,) = limits.look(sim.rt, "k", is_visible=lambda path: path == "tests/other")
    assert (hidden.held, hidden.waiting, hidden.holders, hidden.waiters) == (1, 1, (), ())
    assert limits.look(sim.rt, "other") == []
