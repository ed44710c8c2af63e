"""Limits and pauses of loops that grow, have enough, stay open, or are not waited for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from moments import some
from playbooks import playbook

from noetl.engine.evolve import replay
from noetl.engine.moments import moment_at
from noetl.engine.state import initial_state
from noetl.errors import ToolError
from noetl.facts import events as e
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import catalog, control, fork, pausing
from noetl.usecases.fork import ForkRequest
from noetl.usecases.retry import RetryRequest, retry
from noetl.usecases.signals import SignalRequest, send_signal
from noetl.usecases.start import start
from noetl.usecases.start_request import StartRequest

WAIT = "{kind: wait, signal: {name: 'go{{ n }}'}}"
CALL = "{kind: http, url: http://x, input: {n: '{{ n }}'}}"
APART = "sync: false, mode: parallel"
TREE = "grow: '{{ [n * 10, n * 10 + 1] if n < 10 else none }}',"
LANES = "concurrency: {limit: 2, key: k}"
WHOLE = "spec: {concurrency: {limit: 1, key: s}}"


def looped(
    loop: str = "", spec: str = APART, step: str = "", items: str = "[1, 2, 3]", tool: str = WAIT
) -> str:
    return playbook(
        "- {step: start, next: many}\n"
        "- step: many\n"
        f"  {step}\n"
        f"  loop: {{in: {items}, iterator: n, {loop} spec: {{{spec}}}}}\n"
        f"  tool: {tool}\n"
        "  next: after\n"
        "- {step: after, tool: {kind: http, url: http://x, input: {n: after}}, next: last}\n"
        "- {step: last, tool: {kind: http, url: http://x, input: {n: last}}}\n"
    )


class Calls:
    """Notes what it is called with, and fails for what is in `fails`. `act` happens in the first
    call."""

    def __init__(self, act: Callable[[], object] = lambda: None) -> None:
        self.seen: list[Json] = []
        self.fails: set[Json] = set()
        self.act = act

    def __call__(self, call: Call) -> Json:
        if not self.seen:
            self.act()
        self.seen.append(call.args["n"])
        if call.args["n"] in self.fails:
            raise ToolError("client_error", "no")
        return call.args["n"]


def begun(text: str, calls: Calls | None = None) -> tuple[Simulation, str]:
    sim = Simulation(text, {"http": calls or Calls()})
    run = sim.start()
    sim.settle()
    return sim, run


def go(sim: Simulation, run: str, *items: int) -> None:
    """Lets the iterations of those items end."""
    for item in items:
        send_signal(sim.rt, run, SignalRequest(f"go{item}"))
        sim.settle()


def slots(sim: Simulation, key: str | None = None) -> tuple[list[str], list[str]]:
    """The parts that have slots, and those that wait for one."""
    with sim.rt.store.read() as tx:
        rows = tx.slots.of_key(key)
    had = [row.part for row in rows if row.granted_at is not None]
    return had, [row.part for row in rows if row.granted_at is None]


def status(sim: Simulation, run: str) -> str:
    return sim.report(run).row.status


def state_of(sim: Simulation, run: str) -> dict[str, str]:
    return {name: step["status"] for name, step in sim.report(run).steps.items()}


def is_replayed(sim: Simulation, run: str) -> bool:
    return replay(initial_state(run), sim.events(run)) == sim.rt.states.get(run)


# --- slots of iterations -------------------------------------------------------------------------


def test_iterations_of_a_loop_that_grows_have_slots_one_by_one() -> None:
    sim, run = begun(looped(TREE, f"mode: parallel, {LANES}", items="[1]"))
    assert slots(sim) == (["i0"], [])
    go(sim, run, 1)
    assert slots(sim) == (["i1", "i2"], [])
    go(sim, run, 10)
    assert slots(sim) == (["i2"], [])
    go(sim, run, 11)
    assert (slots(sim), status(sim, run)) == (([], []), "completed")
    assert is_replayed(sim, run)


def test_those_for_which_there_is_no_slot_wait_and_no_others_are_asked_for() -> None:
    spec = "mode: parallel, max_in_flight: 2, concurrency: {limit: 1, key: k}"
    sim, run = begun(looped("enough: {when: '{{ completed >= 3 }}'},", spec))
    assert slots(sim) == (["i0"], ["i1"])
    go(sim, run, 1)
    assert slots(sim) == (["i1"], ["i2"])
    go(sim, run, 2, 3)
    assert (slots(sim), status(sim, run)) == (([], []), "completed")


def test_one_that_is_cancelled_before_it_has_its_slot_leaves_the_line() -> None:
    spec = "mode: parallel, concurrency: {limit: 1, key: k}"
    sim, run = begun(looped("enough: {when: '{{ completed >= 3 }}'},", spec))
    control.cancel_step(sim.rt, run, "many", 1)
    for turn in range(2):
        control.patch_ctx(sim.rt, run, {"turn": turn})
        sim.settle()
        assert slots(sim) == (["i0"], ["i2"])
    go(sim, run, 1, 3)
    assert (slots(sim), status(sim, run)) == (([], []), "completed")


def test_what_waits_for_a_slot_leaves_the_line_when_there_was_enough() -> None:
    spec = "mode: parallel, concurrency: {limit: 1, key: k}"
    sim, run = begun(looped("enough: {when: '{{ completed >= 1 }}'},", spec))
    go(sim, run, 1)
    assert (slots(sim), status(sim, run)) == (([], []), "completed")
    assert {one.fact.part for one in sim.events(run) if isinstance(one.fact, e.SlotGranted)} == {"i0"}


@pytest.mark.parametrize("loop", ["", TREE])
def test_iterations_that_run_on_have_their_slots_until_they_end(loop: str) -> None:
    sim, run = begun(looped(loop, f"{APART}, {LANES}", items="[10, 20, 30]"))
    assert state_of(sim, run)["last"] == "done"
    assert len(slots(sim)[0]) == 2
    go(sim, run, 10, 20)
    assert len(slots(sim)[0]) == 1
    go(sim, run, 30)
    assert (slots(sim), status(sim, run)) == (([], []), "completed")


def test_a_loop_that_is_open_and_has_nothing_to_do_holds_no_slot_of_iterations() -> None:
    sim, run = begun(looped("grow: '{{ none }}', close: '{{ ctx.closed }}',", f"mode: parallel, {LANES}"))
    go(sim, run, 1, 2, 3)
    assert slots(sim) == ([], [])
    assert sim.report(run).row.waiting_for == "the loop of step 'many' to close"


@pytest.mark.parametrize("loop", ["", TREE])
def test_a_key_that_cannot_be_fails_the_branch_behind_the_end_of_the_step(loop: str) -> None:
    sim, run = begun(looped(loop, f"{APART}, concurrency: {{limit: 1, key: '{{{{ [1] }}}}'}}"))
    error = sim.report(run).error
    assert error is not None
    assert "the key is [1]" in error["message"]
    done = next(event.fact for event in sim.events(run) if isinstance(event.fact, e.LoopDone))
    assert done.failure is not None
    assert "step.failed" not in sim.types(run)
    assert is_replayed(sim, run)


# --- the slot of a loop as a whole ---------------------------------------------------------------


def two(text: str) -> tuple[Simulation, str, str]:
    """Two executions of the same playbook, one after the other."""
    sim, first = begun(text)
    second = sim.start()
    sim.settle()
    return sim, first, second


def test_a_step_that_does_not_wait_for_its_iterations_waits_for_its_slot() -> None:
    sim, first, second = two(looped(step=WHOLE))
    assert state_of(sim, first)["last"] == "done"
    assert state_of(sim, second)["many"] == "waiting"
    assert sim.types(second)[-1] == "slot.requested"
    go(sim, first, 1, 2, 3)
    assert status(sim, first) == "completed"
    assert state_of(sim, second)["last"] == "done"
    go(sim, second, 1, 2, 3)
    assert (slots(sim), status(sim, second)) == (([], []), "completed")
    assert is_replayed(sim, second)


@pytest.mark.parametrize(
    ("on_full", "ended", "step"),
    [("skip", "completed", "skipped"), ("fail", "failed", "failed")],
)
def test_where_there_is_none_it_is_skipped_or_fails_as_other_steps_do(
    on_full: str, ended: str, step: str
) -> None:
    sim, _, second = two(looped(step=f"spec: {{concurrency: {{limit: 1, key: s, on_full: {on_full}}}}}"))
    assert status(sim, second) == ended
    assert state_of(sim, second)["many"] == step


def test_iterations_that_run_on_give_way_to_who_cancels_the_oldest() -> None:
    sim, first, second = two(looped(step="spec: {concurrency: {limit: 1, key: s, on_full: cancel_oldest}}"))
    assert status(sim, first) == "completed"
    assert state_of(sim, first)["many"] == "done"
    assert state_of(sim, second)["last"] == "done"


# --- pauses --------------------------------------------------------------------------------------


def test_a_loop_may_close_while_its_step_is_paused() -> None:
    sim, run = begun(looped("close: '{{ ctx.closed }}',", "mode: parallel"))
    go(sim, run, 1, 2, 3)
    pausing.pause_step(sim.rt, run, "many", "not yet")
    sim.settle()
    control.patch_ctx(sim.rt, run, {"closed": True})
    sim.settle()
    assert status(sim, run) == "completed"


def test_what_a_paused_step_has_begun_may_be_enough() -> None:
    calls = Calls(lambda: pausing.pause_step(sim.rt, run, "many", "not yet"))
    text = looped("enough: {when: '{{ completed >= 1 }}'},", "mode: sequential", tool=CALL)
    sim = Simulation(text, {"http": calls})
    run = sim.start()
    sim.settle()
    assert calls.seen == [1, "after", "last"]
    assert status(sim, run) == "completed"


def test_what_iterations_bring_begins_when_their_step_is_resumed() -> None:
    calls = Calls(lambda: pausing.pause_step(sim.rt, run, "many", "not yet"))
    sim = Simulation(looped(TREE, f"mode: parallel, {LANES}", items="[1]", tool=CALL), {"http": calls})
    run = sim.start()
    sim.settle()
    assert calls.seen == [1]
    assert sim.types(run)[-1] == "loop.grown"
    assert sim.report(run).row.waiting_for == "step 'many' to be resumed"
    pausing.resume_step(sim.rt, run, "many")
    sim.settle()
    assert sorted(map(str, calls.seen)) == ["1", "10", "11", "after", "last"]
    assert status(sim, run) == "completed"


def test_a_cancelled_execution_ends_what_runs_on_and_frees_its_slots() -> None:
    sim, run = begun(looped(spec=f"{APART}, {LANES}", step=WHOLE))
    go(sim, run, 2)
    control.cancel(sim.rt, run)
    sim.settle()
    assert (slots(sim), status(sim, run)) == (([], []), "cancelled")
    assert is_replayed(sim, run)


# --- again ---------------------------------------------------------------------------------------

SHAPES: dict[str, dict[str, Any]] = {
    "whole": {"step": WHOLE},
    "lanes": {"spec": f"{APART}, {LANES}"},
    "one by one": {"step": WHOLE, "spec": f"sync: false, mode: sequential, {LANES}"},
    "growing": {"loop": TREE, "spec": f"mode: parallel, {LANES}", "items": "[1, 20]"},
    "all": {"loop": TREE, "spec": f"{APART}, {LANES}", "step": WHOLE, "items": "[1, 20]"},
    "rest": {
        "loop": "enough: {when: '{{ completed >= 1 }}', rest: run},",
        "spec": f"mode: parallel, {LANES}",
    },
}


def iterations(sim: Simulation, run: str) -> set[int | None]:
    return {event.draft.iteration for event in sim.events(run) if isinstance(event.fact, e.IterationDone)}


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("broken", [3, 20, 11, "last"])
def test_a_retry_runs_what_had_not_ended_well(shape: dict[str, Any], broken: Json) -> None:
    calls = Calls()
    calls.fails.add(broken)
    sim, first = begun(looped(**shape, tool=CALL), calls)
    if status(sim, first) == "completed":
        return
    done = len(iterations(sim, first))
    calls.fails.clear()
    calls.seen.clear()
    second = retry(sim.rt, RetryRequest(first)).execution_id
    sim.settle()
    assert status(sim, second) == "completed"
    assert sum(isinstance(one, int) for one in calls.seen) == len(iterations(sim, second)) - done
    assert slots(sim) == ([], [])
    assert is_replayed(sim, second)


OTHER = playbook("- {step: start, spec: {concurrency: {limit: 1, key: s}}, tool: {kind: wait, signal: go}}\n")


def test_what_stands_of_it_needs_no_slot_and_the_rest_is_withdrawn_where_there_is_none() -> None:
    calls = Calls()
    calls.fails.add(2)
    step = "spec: {concurrency: {limit: 1, key: s, on_full: skip}}"
    sim, first = begun(looped(spec="sync: false, mode: sequential", step=step, tool=CALL), calls)
    catalog.register(sim.rt, OTHER.replace("tests/test", "tests/other"))
    start(sim.rt, StartRequest(path="tests/other"))
    sim.settle()
    second = retry(sim.rt, RetryRequest(first)).execution_id
    sim.settle()
    assert state_of(sim, second)["many"] == "done"
    assert iterations(sim, second) == {0}
    assert "step.cancelled" in sim.types(second)
    assert status(sim, second) == "completed"
    assert is_replayed(sim, second)


@pytest.mark.parametrize("name", ["whole", "all", "rest"])
def test_a_fork_of_any_moment_runs_every_iteration(name: str) -> None:
    sim, first = begun(looped(**SHAPES[name], tool=CALL))
    events, done = sim.events(first), iterations(sim, first)
    for at in some(sorted({moment_at(events, version) for version in range(1, len(events) - 1)})):
        made = fork.fork(sim.rt, ForkRequest(first, at=at)).execution_id
        sim.settle()
        assert status(sim, made) == "completed", at
        assert iterations(sim, made) == done, at
        assert slots(sim) == ([], []), at
