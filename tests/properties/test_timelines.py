"""Whatever happens to an execution, its timeline says at every version what its state says."""

from __future__ import annotations

from books import Book, books, tangles, tool
from hypothesis import given
from hypothesis import strategies as st
from test_interleavings import schedules
from world import Schedule, World

from noetl.usecases import inspect
from noetl.usecases.timeline import timeline
from tests.timelines import check_timeline, fold


def _check(book: Book, schedule: Schedule, data: st.DataObject) -> None:
    world = World(book.text, {"python": tool}, others=[other.text for other in book.others])
    try:
        world.start()
        half = len(schedule) // 2
        world.play(schedule[:half])
        for run in world.everybody():
            timeline(world.sim.rt, run)
        world.play(schedule[half:])
        for run in world.everybody():
            events = world.sim.events(run)
            net = inspect.net_of(world.sim.rt, run)
            check_timeline(net, events, data.draw(st.integers(1, len(events))))
            assert timeline(world.sim.rt, run) == fold(net, events), "the walk goes on where it stood"
    finally:
        world.abandon()


@given(book=books(wild=True, calls=True), schedule=schedules("cancel"), data=st.data())
def test_a_timeline_is_that_of_the_states(book: Book, schedule: Schedule, data: st.DataObject) -> None:
    _check(book, schedule, data)


@given(book=tangles(), schedule=schedules("cancel"), data=st.data())
def test_a_timeline_of_a_tangle_is_that_of_the_states(
    book: Book, schedule: Schedule, data: st.DataObject
) -> None:
    _check(book, schedule, data)
