"""The promises are worth something: each of these seeded defects breaks one of them in a fixed
scenario."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Any

import pytest
from books import Book, call_of_kid, kid, tool
from promises import Outcome, broken, undisturbed
from seeded import Break, Defects, Scenario
from sqlalchemy import bindparam, update
from world import OPERATIONS, PATIENT, Schedule, World

from noetl.engine import decide as engine_decide
from noetl.engine import decision as engine_decision
from noetl.engine import iterations as engine_iterations
from noetl.engine import lanes as engine_lanes
from noetl.engine import loops as engine_loops
from noetl.engine.loop_ends import close_loop
from noetl.engine.state import State
from noetl.facts.events import ChildEnded, Draft
from noetl.pipeline import calls
from noetl.store import commands as store_commands
from noetl.store.events import SqlEvents
from noetl.store.loops import SqlLoops
from noetl.store.schema.work import command, loop_run
from noetl.usecases import purposes, sweep
from noetl.usecases.called import TurnCalls
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.turn import advance as turns
from noetl.usecases.turn import deciding, writing
from noetl.usecases.work import iterations, reports, shares
from noetl.usecases.work.leases import Delivery, End, Worker

TOOLS = {"python": tool}


# --- scenarios -----------------------------------------------------------------------------------


def task(name: str = "t0", *, delay: float = 0, **inputs: Any) -> dict[str, Any]:
    rule = {"when": "{{ outcome.status == 'error' }}", "then": {"do": "retry", "attempts": 4, "delay": delay}}
    rules = [rule, {"else": {"then": {"do": "continue"}}}]
    return {
        "name": name,
        "kind": "python",
        "code": "x",
        "input": inputs,
        "spec": {"policy": {"rules": rules}},
    }


def loop(mode: str, count: int, width: int, **spec: Any) -> dict[str, Any]:
    return {
        "in": list(range(count)),
        "iterator": "item",
        "spec": {"mode": mode, "max_in_flight": width, **spec},
    }


def everything() -> Book:
    """A fork into a parallel loop that retries and a sequential loop that counts, a join, a
    cycle."""
    book = Book(widths={"wide": 2, "narrow": 1}, sequential={"narrow"})
    book.add("start", tool=[task(), task("t1", previous="{{ t0 }}")], next=["wide", "narrow"])
    retried = task(delay=5, item="{{ item }}", fails=1)
    book.add("wide", loop=loop("parallel", 5, 2), tool=[retried, task("t1", was="{{ t0 }}")], next="join")
    counted = {**task("t1", item="{{ item }}", seen="{{ ctx.n }}"), "set": {"ctx.n": "{{ result }}"}}
    book.add("narrow", loop=loop("sequential", 4, 1), tool=[task(item="{{ item }}"), counted], next="join")
    book.add(
        "join", tool=[task(a="{{ wide }}", b="{{ narrow }}")], set={"ctx.k": "{{ ctx.k | default(0) + 1 }}"}
    )
    book.steps[-1]["next"] = {"arcs": [{"step": "join", "when": "{{ ctx.k < 3 }}"}, {"step": "end"}]}
    book.add("end", tool=[task(delay=5, fails=1)])
    return book


def lone_loop() -> Book:
    book = Book(widths={"start": 3})
    book.add("start", loop=loop("parallel", 9, 3), tool=[task(item="{{ item }}")])
    return book


def waiting_loop() -> Book:
    book = Book(widths={"start": 2})
    some = "{{ 1 if item % 3 == 0 else 0 }}"
    book.add("start", loop=loop("parallel", 9, 2), tool=[task(item="{{ item }}", delay=5, fails=some)])
    return book


def narrow_loop() -> Book:
    book = Book(widths={"start": 1}, sequential={"start"})
    counted = {**task(item="{{ item }}", seen="{{ ctx.n }}"), "set": {"ctx.n": "{{ result }}"}}
    book.add("start", loop=loop("sequential", 5, 1), tool=[counted])
    return book


def failing_loop() -> Book:
    book = Book(widths={"start": 3})
    stop = [{"name": "t0", "kind": "python", "code": "x", "input": {"item": "{{ item }}", "bad": [0]}}]
    book.add("start", loop=loop("parallel", 3, 3), tool=stop)
    return book


def chain() -> Book:
    book = Book()
    for name, following in itertools.pairwise(("start", "a", "b", "c", "end", "")):
        book.add(
            name, tool=[task(), task("t1", was="{{ t0 }}")], **({"next": following} if following else {})
        )
    return book


def calling_loop() -> Book:
    book = Book(widths={"start": 2}, others=[kid()])
    book.add(
        "start", loop=loop("parallel", 5, 2), tool=[call_of_kid(n="{{ item }}"), task("t1", was="{{ t0 }}")]
    )
    return book


def calling_chain() -> Book:
    """A step that calls, then a loop that does, beside a branch that calls too."""
    book = Book(widths={"wide": 3}, others=[kid(1, 5)])
    book.add("start", tool=[call_of_kid(n=1), task("t1", was="{{ t0 }}")], next=["wide", "other"])
    book.add("wide", loop=loop("parallel", 3, 3), tool=[call_of_kid(n="{{ item }}")])
    book.add("other", tool=[call_of_kid(n=7)])
    return book


#: Messages move and processes go on; nothing else happens.
HEALTHY = ("step", "step", "deliver")


@dataclass(frozen=True)
class Played(Scenario):
    """A book, and what may happen to it."""

    book: Callable[[], Book]
    operations: tuple[str, ...] = HEALTHY
    seeds: range = range(6)
    length: int = 300
    #: Whether the outcome is that of an undisturbed run.
    certain: bool = True
    options: dict[str, Any] = field(default_factory=dict)

    def prepare(self) -> None:
        expected(self.book)

    def trouble(self, schedule: Schedule, **options: Any) -> list[str]:
        book = self.book()
        others = [other.text for other in book.others]
        world = World(book.text, dict(TOOLS), others=others, **{**self.options, **options})
        try:
            world.start()
            world.play(schedule)
            world.settle()
            return broken(world, book, expected(self.book) if self.certain else None)
        finally:
            world.abandon()


@cache
def expected(book: Callable[[], Book]) -> Outcome:
    """Computed before anything is broken."""
    return undisturbed(book(), dict(TOOLS))


SCENARIOS = {
    "a healthy chain needs no sweeper": Played(chain, seeds=range(12), options={"sweeps": False}),
    "a healthy loop needs no sweeper": Played(lone_loop, options={"sweeps": False}),
    "a failing loop ends without a sweeper": Played(failing_loop, certain=False, options={"sweeps": False}),
    "the chord alone completes a loop": Played(
        lone_loop,
        operations=("step", "step", "deliver", "duplicate"),
        seeds=range(20),
        length=150,
        options={"sweeps": False, "wakes": False, "limits": replace(PATIENT, slice_s=3600.0)},
    ),
    "iterations that wait keep their slots": Played(
        waiting_loop,
        operations=("step", "step", "step", "finish", "deliver", "deliver", "due", "sweep", "sweep"),
        seeds=range(12),
        options={"limits": replace(PATIENT, lease_s=1e6)},
    ),
    "workers die": Played(
        narrow_loop, operations=(*HEALTHY, "finish", "crash", "expire", "sweep"), seeds=range(12)
    ),
    "workers are slow": Played(
        chain, operations=(*HEALTHY, *HEALTHY, "expire", "sweep", "sweep"), seeds=range(12)
    ),
    "healthy calls need no sweeper": Played(calling_loop, seeds=range(3), options={"sweeps": False}),
    "everything happens to calls": Played(
        calling_chain, operations=(*OPERATIONS, "duplicate"), seeds=range(3)
    ),
    "those who call die": Played(
        calling_loop, operations=(*HEALTHY, "finish", "crash", "expire", "sweep"), seeds=range(4), length=200
    ),
    "what executions tell one another comes twice": Played(
        calling_loop, operations=(*HEALTHY, "finish", "duplicate"), seeds=range(3), length=200
    ),
    "those who call are cancelled": Played(
        calling_chain, operations=(*HEALTHY * 15, "cancel"), seeds=range(4, 9), length=150, certain=False
    ),
    "everything happens to everything": Played(everything, operations=OPERATIONS, length=500),
    "everything and a cancellation happen": Played(
        everything, operations=(*OPERATIONS, "cancel"), certain=False
    ),
}


@pytest.mark.parametrize("name", SCENARIOS)
@pytest.mark.full("a second proof of what the interleavings show")
def test_the_engine_as_it_is_keeps_every_promise(name: str) -> None:
    assert SCENARIOS[name].troubles() == []


# --- defects -------------------------------------------------------------------------------------

DEFECTS = Defects()


def defect(scenario: str, because: str) -> Callable[[Break], Break]:
    return DEFECTS.seed(SCENARIOS[scenario], because)


@defect("workers die", "is still")
def no_sweeper(_patch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"sweeps": False}


@defect("workers die", "come to rest|twice")
def no_dedup_key(patch: pytest.MonkeyPatch) -> None:
    append = SqlEvents.append

    def keyless(self: Any, run: str, version: int, drafts: Any, now: Any) -> Any:
        return append(self, run, version, [replace(draft, dedup_key=None) for draft in drafts], now)

    patch.setattr(SqlEvents, "append", keyless)


def _unlocked_turn(
    rt: Runtime, *, send_first: bool, checked: bool
) -> tuple[list[str], list[turns.UnservedExecution]]:
    """A turn that reads in one transaction and writes in another."""
    now = rt.clock()
    with rt.store.read() as tx:
        calls = TurnCalls(rt, tx, now)
        rows = [row for run in tx.executions.owing(now, 64) if (row := tx.executions.get(run)) is not None]
        tails = tx.events.tails([row.execution_id for row in rows], 500)
        opened = [deciding._open(rt, tx, row, tails.get(row.execution_id, []), calls) for row in rows]
        for one in opened:
            one.go_on(turn=one.row.execution_id, place=-one.before.version)
        found = [one.close(rt.kinds, now) for one in opened]
    if send_first:
        turns.send(rt, [command for turn in found for command in turn.commands])
    with rt.store.begin() as tx:
        for turn in found:
            head = tx.executions.lock(turn.row.execution_id)
            assert head is not None
            if checked and head.head_version != turn.row.head_version:
                return [""], []
            moved = head.head_version - turn.row.head_version
            before = replace(turn.before, version=turn.before.version + moved)
            writing.write_turn(rt, tx, replace(turn, before=before), now)
    if not send_first:
        turns.send(rt, [command for turn in found for command in turn.commands])
    return [], []


@defect("a healthy loop needs no sweeper", "already recorded")
def no_lock_and_no_expected_version(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(turns, "take_turns", lambda rt, run: _unlocked_turn(rt, send_first=False, checked=False))


@defect("a healthy chain needs no sweeper", "still running")
def messages_sent_before_the_commit(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(turns, "take_turns", lambda rt, run: _unlocked_turn(rt, send_first=True, checked=True))


@defect("iterations that wait keep their slots", "early fan-in")
def fan_in_by_counting_lanes(patch: pytest.MonkeyPatch) -> None:
    original = engine_loops.tend_loop

    def counting(plan: Any, state: Any, inputs: Any, run: Any) -> list[Draft]:
        lanes_left = any(inputs.commands.get(command) is not None for command in run.commands.values())
        if run.loop is None or run.loop.closed or lanes_left:
            return original(plan, state, inputs, run)
        return close_loop(plan.step(run.step), state, inputs, run, run.loop)

    patch.setattr(engine_decide, "tend_loop", counting)


@defect("workers are slow", "not what the log says")
def a_stale_cache(patch: pytest.MonkeyPatch) -> None:
    original = deciding._find_state

    def stale(rt: Any, tx: Any, row: Any) -> Any:
        # What another scheduler appended since is taken for known.
        state = rt.states.get(row.execution_id)
        if state is None:
            return original(rt, tx, row)
        last = max(
            (event.version for event in tx.events.read(row.execution_id) if event.draft.source == "server"),
            default=0,
        )
        return replace(state, version=max(state.version, last))

    patch.setattr(deciding, "_find_state", stale)


@defect("a healthy chain needs no sweeper", "effects without need")
def an_effect_key_for_every_call(patch: pytest.MonkeyPatch) -> None:
    original, numbers = calls.idempotency_key, itertools.count()
    patch.setattr(calls, "idempotency_key", lambda *place: f"{original(*place)}/{next(numbers)}")


@defect("the chord alone completes a loop", "calls of start#1 at once")
def claims_that_are_never_refused(patch: pytest.MonkeyPatch) -> None:
    claimed = dict(store_commands._claim._values)
    anybody = update(command).where(command.c.command_id == bindparam("id")).values(claimed)
    patch.setattr(store_commands, "_claim", anybody.returning(*store_commands.COLUMNS))


@defect("the chord alone completes a loop", "still running")
def a_refused_lane_that_returns(_patch: pytest.MonkeyPatch) -> dict[str, Any]:
    return {"refused_arrive": True}


@defect("everything and a cancellation happen", "after the cancellation|still running")
def cancel_ignored(patch: pytest.MonkeyPatch) -> None:
    rules = tuple(rule for rule in engine_decide._RULES if rule is not engine_decide.cancel)
    patch.setattr(engine_decide, "_RULES", rules)
    patch.setattr(State, "is_halted", property(lambda state: state.pause_requested))


@defect("a healthy loop needs no sweeper", "the result is")
def results_in_order_of_completion(patch: pytest.MonkeyPatch) -> None:
    original = engine_iterations._end_iteration

    def next_free(loop: Any, index: int, fact: Any) -> Any:
        done = original(loop, index, fact)
        return replace(done, results=loop.results.put(loop.ended.bit_count(), done.results[index]))

    patch.setattr(engine_iterations, "_end_iteration", next_free)


@defect("workers die", "the ctx is")
def ctx_patches_lost_between_slices(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shares, "own_patches", lambda tx, command, plan: {})


@defect("workers are slow", "already recorded")
def reports_without_fencing(patch: pytest.MonkeyPatch) -> None:
    def lock_lease(tx: Any, claimed: Any) -> Any:
        rows = tx.commands.lock(claimed.command_id)
        return None if rows is None or rows[1].state == "closed" else rows[0]

    patch.setattr(reports, "lock_lease", lock_lease)


@defect("workers die", "still running")
def leases_that_never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(sweep, "_end_leases", lambda rt, now, until: 0)


@defect("workers are slow", "already recorded")
def second_deliveries_that_begin_at_the_first_task(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SqlEvents, "of_run", lambda self, run, step, iteration: [])


@defect("a healthy loop needs no sweeper", "already recorded")
def indices_handed_out_twice(patch: pytest.MonkeyPatch) -> None:
    original = SqlLoops.take
    back = update(loop_run).where(loop_run.c.run_id == bindparam("run"))
    back = back.values(next_index=loop_run.c.next_index - 1)

    def again(self: Any, run: str, step: str, generation: int, count: int) -> tuple[int, ...]:
        taken = original(self, run, step, generation, count)
        if taken and taken[-1] % 3 == 1:
            self._session.write(back, {"run": step})
        return taken

    patch.setattr(SqlLoops, "take", again)


@defect("iterations that wait keep their slots", "at once, 2 allowed")
def max_in_flight_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_loops, "_width", lambda loop, names, inputs: 16)


@defect("a failing loop ends without a sweeper", "still running")
def lanes_that_let_go_in_silence(patch: pytest.MonkeyPatch) -> None:
    for module in (reports, sweep):
        patch.setattr(module, "ask_for_turn", lambda tx, run, now: None)


@defect("workers die", "the ctx is")
def sequential_lanes_that_forget_what_they_took(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(shares, "_find_unfinished", lambda tx, row: ())


@defect("iterations that wait keep their slots", "at once, 2 allowed")
def suspended_iterations_that_give_up_their_slot(patch: pytest.MonkeyPatch) -> None:
    original = iterations.Iterations._suspend

    def goes_on(self: Any, index: int, move: Any) -> None:
        original(self, index, move)
        self.suspended = None

    patch.setattr(iterations.Iterations, "_suspend", goes_on)


@defect("what executions tell one another comes twice", "heard twice")
def answers_without_dedup(patch: pytest.MonkeyPatch) -> None:
    def notify_again(worker: Worker, command_id: str) -> Delivery:
        rt = worker.rt
        with rt.store.read() as tx:
            command = tx.commands.get(command_id)
        assert command is not None
        told = command.context
        fact = ChildEnded(told["task"], command.execution_id, told["status"], told["result"])
        draft = Draft(fact, step=told["step"], run_id=told["run_id"], iteration=told["iteration"])
        with rt.store.begin() as tx:
            row = tx.executions.lock(command.part)
            if row is not None and row.status not in ENDED:
                tx.events.append(command.part, row.head_version, [draft], rt.clock())
            tx.commands.close([command_id])
        return Delivery(End.DONE)

    answer = replace(purposes.PURPOSES["answer"], handler=notify_again)
    patch.setattr(purposes, "PURPOSES", {**purposes.PURPOSES, "answer": answer})


@defect("those who call die", "never made|is still")
def children_made_behind_the_commit(patch: pytest.MonkeyPatch) -> None:
    """In a transaction of its own, before which the scheduler may die."""
    mine, create, send = threading.local(), writing.create_child, turns.send

    def later(_rt: Runtime, _tx: Any, *child: Any) -> None:
        mine.wanted = [*getattr(mine, "wanted", ()), child]

    def after(rt: Runtime, commands: Any) -> None:
        for child in getattr(mine, "wanted", ()):
            with rt.store.begin() as tx:
                create(rt, tx, *child)
        mine.wanted = []
        send(rt, commands)

    patch.setattr(writing, "create_child", later)
    patch.setattr(turns, "send", after)


@defect("healthy calls need no sweeper", "children of .* at once, 2 allowed|calls of .* at once, 2 allowed")
def slots_given_away_while_an_iteration_waits_for_its_child(patch: pytest.MonkeyPatch) -> None:
    again = engine_loops._reissue

    def wide(plan: Any, state: Any, inputs: Any, run: Any, loop: Any) -> Any:
        lost = engine_loops.find_missing(run, loop, inputs.commands)
        held = replace(loop, calling=()) if lost and loop.generation < 900 else loop
        if held is loop:
            return again(plan, state, inputs, run, loop)
        count = min(loop.max_in_flight, len(lost))
        return engine_lanes.issue_lanes(plan, state, inputs, run, count, loop.generation + 1)

    patch.setattr(engine_loops, "_reissue", wide)


@defect("those who call are cancelled", "outlives its caller|was not told")
def cancellations_that_are_not_handed_on(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_decision, "find_dropped_children", lambda before, after: ())


@defect("everything happens to calls", "waits for child|is still")
def answers_that_nobody_leaves(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_decision, "notifications", lambda before, after, status, given_up: ())


@pytest.mark.full("a test of the tests")
@pytest.mark.parametrize("name", DEFECTS.by_name)
def test_every_seeded_defect_breaks_a_promise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    DEFECTS.check(name, monkeypatch)
