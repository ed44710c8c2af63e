"""Whatever happens to messages and processes, an execution is not lost, not doubled, and comes out the same."""

from __future__ import annotations

from books import Book, books, tangles, tool
from hypothesis import given, note, settings
from hypothesis import strategies as st
from promises import Outcome, broken, undisturbed
from world import OPERATIONS, Schedule, World

TOOLS = {"python": tool}


def schedules(*more: str) -> st.SearchStrategy[Schedule]:
    """Short ones, which are easy to read, and ones long enough for whole executions."""
    operation = st.tuples(st.sampled_from((*OPERATIONS, *more)), st.integers(0, 7))
    return st.lists(operation, max_size=40) | st.lists(operation, min_size=150, max_size=400)


def played(book: Book, schedule: Schedule, expected: Outcome | None = None) -> list[str]:
    """The promises that are broken when `book` runs under `schedule`."""
    world = World(book.text, dict(TOOLS), others=[other.text for other in book.others])
    try:
        world.start()
        world.play(schedule)
        world.settle()
        return broken(world, book, expected)
    finally:
        world.abandon()


@given(book=books(), schedule=schedules())
def test_calm_books_come_out_as_if_nothing_had_happened(book: Book, schedule: Schedule) -> None:
    expected = undisturbed(book, dict(TOOLS))
    note(f"undisturbed: {expected}")
    assert expected.status == "completed"
    assert played(book, schedule, expected) == []


@given(book=books(wild=True), schedule=schedules("cancel"))
def test_wild_books_end_once_and_keep_their_log(book: Book, schedule: Schedule) -> None:
    assert played(book, schedule) == []


@given(book=tangles(), schedule=schedules())
def test_tangles_of_arcs_and_joins_end(book: Book, schedule: Schedule) -> None:
    assert played(book, schedule) == []


@settings(max_examples=max(10, settings().max_examples // 6))
@given(book=books(calls=True), schedule=schedules())
def test_books_that_call_others_come_out_as_if_nothing_had_happened(book: Book, schedule: Schedule) -> None:
    expected = undisturbed(book, dict(TOOLS))
    note(f"undisturbed: {expected}")
    assert expected.status == "completed"
    assert played(book, schedule, expected) == []


@settings(max_examples=max(10, settings().max_examples // 6))
@given(book=books(wild=True, calls=True), schedule=schedules("cancel"))
def test_wild_books_that_call_others_leave_nobody_behind(book: Book, schedule: Schedule) -> None:
    assert played(book, schedule) == []
