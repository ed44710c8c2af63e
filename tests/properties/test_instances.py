"""Whatever happens to messages and workers: a loop that does not wait for all of its iterations is
done once, with what had ended by then, and leaves nothing behind."""

from __future__ import annotations

from collections import Counter
from typing import Any

from books import Book, tool
from hypothesis import given
from hypothesis import strategies as st
from promises import broken
from slot_watch import SlotWatch
from test_interleavings import schedules
from world import Schedule, World

from noetl.facts import events as e

TOOLS = {"python": tool}
RETRY = {
    "when": "{{ outcome.status == 'error' }}",
    "then": {"do": "retry", "attempts": 4, "delay": 5},
}


def looping(
    loop: dict[str, Any], width: int, mode: str, fails: int, items: int, *, broken: bool = False, **body: Any
) -> Book:
    """A book of a loop, and a step behind it that reads what came of it, and may be `broken`.
    `body` is what else the step of the loop says."""
    book = Book(widths={"loop": width if mode == "parallel" else 1})
    task = {
        "name": "t0",
        "kind": "python",
        "code": "x",
        "input": {"item": "{{ item }}", "fails": "{{ item % 2 * " + str(fails) + " }}"},
        "spec": {"policy": {"rules": [RETRY, {"else": {"then": {"do": "continue"}}}]}},
    }
    spec = {"mode": mode, "max_in_flight": width, **loop.pop("spec", {})}
    book.add(
        "loop",
        loop={"in": list(range(items)), "iterator": "item", "spec": spec, **loop},
        tool=[task],
        next="behind",
        **body,
    )
    seen = {"seen": "{{ loop.stats }}", "broken": broken}
    book.add("behind", tool=[{"name": "t0", "kind": "python", "code": "x", "input": seen}])
    return book


@st.composite
def shapes(draw: st.DrawFn) -> tuple[int, str, int, int]:
    mode = draw(st.sampled_from(["parallel", "parallel", "sequential"]))
    return draw(st.integers(1, 3)), mode, draw(st.integers(0, 1)), draw(st.integers(0, 6))


def played(book: Book, schedule: Schedule) -> tuple[World, list[str]]:
    """The world, and the promises that are broken in it."""
    watch = SlotWatch()
    world = World(book.text, dict(TOOLS), wrap=watch.over)
    try:
        world.start()
        world.play(schedule)
        world.settle()
        return world, [*broken(world, book), *watch.broken]
    finally:
        world.abandon()


def facts(world: World, kind: Any) -> list[Any]:
    events = world.sim.events(world.started[0])
    return [event.fact for event in events if isinstance(event.fact, kind) and event.draft.step == "loop"]


@given(
    shape=shapes(), enough=st.integers(0, 7), rest=st.sampled_from(["cancel", "run"]), schedule=schedules()
)
def test_a_loop_is_done_with_enough_of_its_iterations(
    shape: tuple[int, str, int, int], enough: int, rest: str, schedule: Schedule
) -> None:
    guard = {"when": f"{{{{ completed >= {enough} }}}}", "rest": rest}
    world, problems = played(looping({"enough": guard}, *shape), schedule)
    assert problems == []
    check_enough(world, enough, rest, shape[-1])


def check_enough(world: World, enough: int, rest: str, items: int) -> None:
    """That the loop over so many `items` was done with `enough` of them, and the `rest` ended as it
    had to."""
    report = world.sim.report(world.started[0])
    assert report.row.status == "completed"
    result = report.steps["loop"]["result"]
    stats = result["stats"]
    assert stats["completed"] >= min(max(enough, 1), items), "it was closed too early"
    assert sum(one is not None for one in result["results"]) == stats["completed"]
    [done] = facts(world, e.LoopDone)
    assert done.completed + done.cancelled == items
    assert stats.get("cancelled", 0) == done.cancelled
    assert rest == "cancel" or done.completed == items, "those that run on come to their end"
    assert rest == "run" or not any(one.released for one in facts(world, e.StepDone)), "nothing runs on"
    ends = facts(world, e.IterationDone)
    assert len(ends) == done.completed


@given(shape=shapes(), schedule=schedules())
def test_a_step_that_waits_for_no_iteration_is_done_once_and_they_all_end(
    shape: tuple[int, str, int, int], schedule: Schedule
) -> None:
    world, problems = played(looping({"spec": {"sync": False}}, *shape), schedule)
    assert problems == []
    report = world.sim.report(world.started[0])
    assert report.row.status == "completed"
    assert report.steps["loop"]["result"] == {"results": None, "stats": {"total": shape[-1]}}
    assert report.steps["behind"]["runs"] == 1
    [done] = facts(world, e.LoopDone)
    assert done.completed == shape[-1] == len(facts(world, e.IterationDone))


@given(shape=shapes(), rest=st.sampled_from(["cancel", "run"]), schedule=schedules("cancel"))
def test_a_cancelled_execution_ends_whatever_runs_on(
    shape: tuple[int, str, int, int], rest: str, schedule: Schedule
) -> None:
    guard = {"when": "{{ completed >= 1 }}", "rest": rest}
    _, problems = played(looping({"enough": guard}, *shape), schedule)
    assert problems == []


@given(
    shape=shapes(),
    closes=st.booleans(),
    sync=st.booleans(),
    schedule=schedules(),
)
def test_what_iterations_bring_is_run_once_each(
    shape: tuple[int, str, int, int], closes: bool, sync: bool, schedule: Schedule
) -> None:
    """Each item below 20 brings another one, 20 higher."""
    loop: dict[str, Any] = {"grow": "{{ [item + 20, item + 40] if item < 20 else none }}"}
    if closes:
        loop["close"] = "{{ completed == total }}"
    if not sync:
        loop["spec"] = {"sync": False}
    world, problems = played(looping(loop, *shape), schedule)
    assert problems == []
    report, items = world.sim.report(world.started[0]), shape[-1]
    assert report.row.status == "completed"
    [done] = facts(world, e.LoopDone)
    assert (done.total, done.completed) == (3 * items, 3 * items)
    assert len(facts(world, e.LoopGrown)) == 3 * items, "each iteration was asked once"
    result = report.steps["loop"]["result"]
    assert result["stats"]["total"] == (3 * items if sync else items)
    assert not sync or None not in result["results"]


LOOPS: dict[str, dict[str, Any]] = {
    "apart": {"spec": {"sync": False}},
    "rest runs": {"enough": {"when": "{{ completed >= 1 }}", "rest": "run"}},
    "rest ends": {"enough": {"when": "{{ completed >= 1 }}"}},
    "growing": {"grow": "{{ [item + 20] if item < 20 else none }}", "spec": {"sync": False}},
}


@st.composite
def scopes(draw: st.DrawFn) -> Book:
    """A loop of any of those kinds that is cleaned up and undone, maybe in a region, with slots."""
    loop = {key: dict(one) if isinstance(one, dict) else one for key, one in draw(kinds()).items()}
    if draw(st.booleans()):
        loop["spec"] = {**loop.get("spec", {}), "concurrency": {"limit": 1, "key": "lanes"}}
    body: dict[str, Any] = {"compensate": "undo", "finally": "swept"}
    if draw(st.booleans()):
        body["spec"] = {"concurrency": {"limit": 1, "key": "loops"}}
    book = looping(loop, *draw(shapes()), broken=draw(st.booleans()), **body)
    for name in ("undo", "swept", "closed"):
        book.add(name, tool=[{"name": "t0", "kind": "python", "code": "x"}])
    if draw(st.booleans()):
        book.regions = {"part": {"steps": ["loop"], "compensate": True, "finally": "closed"}}
    else:
        book.steps.pop()
    return book


def kinds() -> st.SearchStrategy[dict[str, Any]]:
    return st.sampled_from(list(LOOPS.values()))


@given(book=scopes(), schedule=schedules("cancel"))
def test_what_iterations_have_done_is_undone_once_each_and_their_step_cleaned_up_once(
    book: Book, schedule: Schedule
) -> None:
    world, problems = played(book, schedule)
    assert problems == []
    run = world.started[0]
    events = world.sim.events(run)
    # A handler that a cancellation has withdrawn runs again.
    withdrawn = {event.draft.run_id for event in events if isinstance(event.fact, e.StepCancelled)}
    handled = Counter(
        (event.draft.step, event.fact.handling.iteration)
        for event in events
        if isinstance(event.fact, e.StepScheduled) and event.fact.handling is not None
        if event.draft.run_id not in withdrawn
    )
    assert set(handled.values()) <= {1}
    began = any(isinstance(event.fact, e.StepScheduled) and event.draft.step == "loop" for event in events)
    assert handled["swept", None] == began
    done = {
        event.draft.iteration
        for event in events
        if isinstance(event.fact, e.IterationDone) and event.draft.step == "loop"
    }
    status = world.sim.report(run).row.status
    undone = {index for step, index in handled if step == "undo"}
    assert undone == (set() if status == "completed" else done)
    with world.store.read() as tx:
        assert tx.slots.of_key(None) == []
