"""Whatever happens to messages and workers: what called playbooks have done is undone once each
where their caller fails or is cancelled, and never else."""

from __future__ import annotations

from collections import Counter

from books import Book, call_of_kid, tool
from hypothesis import given
from hypothesis import strategies as st
from promises import broken
from test_interleavings import schedules
from world import Schedule, World

from noetl.facts import events as e
from noetl.facts.events import Event

RETRY = {
    "when": "{{ outcome.status == 'error' }}",
    "then": {"do": "retry", "attempts": 4, "delay": 5},
}


def task(**inputs: object) -> dict[str, object]:
    policy = {"rules": [RETRY, {"else": {"then": {"do": "continue"}}}]}
    return {"name": "t0", "kind": "python", "code": "x", "input": inputs, "spec": {"policy": policy}}


@st.composite
def trips(draw: st.DrawFn) -> Book:
    """A loop that calls `kid`, which does two things that can be undone; then a step that may be
    broken."""
    kid = Book(path="tests/kid")
    kid.add("a", tool=[task(fails=draw(st.integers(0, 1)))], compensate="undo", next="b")
    kid.add("b", tool=[task()], compensate="undo")
    kid.add("undo", tool=[task(fails=draw(st.integers(0, 1)))])
    width = draw(st.integers(1, 2))
    book = Book(widths={"loop": width}, others=[kid])
    spec = {"mode": "parallel", "max_in_flight": width}
    items = list(range(draw(st.integers(1, 3))))
    book.add(
        "loop", loop={"in": items, "iterator": "item", "spec": spec}, tool=[call_of_kid()], next="behind"
    )
    book.add("behind", tool=[{**task(broken=draw(st.booleans())), "spec": {}}])
    if draw(st.booleans()):
        book.regions = {"part": {"steps": ["loop", "behind"], "compensate": True}}
    return book


@given(book=trips(), schedule=schedules("cancel"))
def test_what_called_playbooks_have_done_is_undone_once_each(book: Book, schedule: Schedule) -> None:
    world = World(book.text, {"python": tool}, others=[other.text for other in book.others])
    try:
        run = world.start()
        world.play(schedule)
        world.settle()
        assert broken(world, book) == []
        check(world, run)
    finally:
        world.abandon()


def check(world: World, run: str) -> None:
    events = world.sim.events(run)
    completed = {
        one.fact.child_id for one in events if isinstance(one.fact, e.ChildEnded) and one.fact.undoable
    }
    asked = [one.fact for one in events if isinstance(one.fact, e.ChildUndoRequested)]
    done = [one.fact for one in events if isinstance(one.fact, e.ChildUndone)]
    status = world.sim.report(run).row.status
    undone = set() if status == "completed" else completed
    assert Counter(one.undoes for one in asked) == Counter(undone)
    assert {(one.child_id, one.undoes, one.error) for one in done} == {
        (one.child_id, one.undoes, None) for one in asked
    }
    # Whether its caller had heard of its end or not.
    rows = [world.sim.report(one).row for one in world.everybody()]
    ended_well = [
        row.execution_id for row in rows if row.parent_id and row.status == "completed" and not row.source_id
    ]
    by = Counter(row.source_id for row in rows if row.descent == "undo")
    assert by == Counter([] if status == "completed" else ended_well), "each is undone once, and only then"
    for one in asked:
        assert world.sim.report(one.child_id).row.status == "completed"
        assert handled(world.sim.events(one.child_id)) == [("a#1", 1), ("b#1", 1)]


def handled(events: list[Event]) -> list[tuple[str, int]]:
    """How often each run was undone, but for handlers that were withdrawn."""
    withdrawn = {event.draft.run_id for event in events if isinstance(event.fact, e.StepCancelled)}
    found = Counter(
        event.fact.handling.run_id
        for event in events
        if isinstance(event.fact, e.StepScheduled) and event.fact.handling is not None
        if event.draft.run_id not in withdrawn
    )
    return sorted(found.items())
