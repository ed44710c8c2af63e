"""Whatever happens to messages and processes, an execution is not lost, not doubled, and comes out
the same."""

from __future__ import annotations

import pytest
from books import Book, books, tangles, tool
from hypothesis import given, note, settings
from hypothesis import strategies as st
from promises import Outcome, broken, undisturbed
from world import OPERATIONS, Schedule, World

from noetl.facts.json import Json
from tests.budget import examples

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


@pytest.mark.parametrize("loop", [None, {"in": [1], "iterator": "item"}], ids=["pipeline", "loop"])
def test_a_worker_that_waits_for_longer_than_a_lease_before_it_claims_works_alone_all_the_same(
    loop: Json,
) -> None:
    book = Book()
    book.add(
        "start", tool=[{"name": "t0", "kind": "python", "code": "x"}], **({"loop": loop} if loop else {})
    )
    expected = undisturbed(book, dict(TOOLS))
    world = World(book.text, dict(TOOLS))
    try:
        world.start()
        world.play([("deliver", 0), ("finish", 0), ("duplicate", 0)])
        world.play([("deliver", 0), ("step", 0), ("expire", 0), *[("step", 0)] * 4])
        assert world.measured.running.total() == 1, "the first delivery claimed late, and stands in its call"
        world.play([("deliver", 0), ("finish", 1)])
        world.settle()
        assert broken(world, book, expected) == []
    finally:
        world.abandon()


@given(book=books(wild=True), schedule=schedules("cancel"))
def test_wild_books_end_once_and_keep_their_log(book: Book, schedule: Schedule) -> None:
    assert played(book, schedule) == []


@given(book=tangles(), schedule=schedules())
def test_tangles_of_arcs_and_joins_end(book: Book, schedule: Schedule) -> None:
    assert played(book, schedule) == []


@pytest.mark.full("5 s: those that call nobody are quick")
@settings(max_examples=examples(8))
@given(book=books(calls=True), schedule=schedules())
def test_books_that_call_others_come_out_as_if_nothing_had_happened(book: Book, schedule: Schedule) -> None:
    expected = undisturbed(book, dict(TOOLS))
    note(f"undisturbed: {expected}")
    assert expected.status == "completed"
    assert played(book, schedule, expected) == []


@settings(max_examples=examples(8))
@given(book=books(wild=True, calls=True), schedule=schedules("cancel"))
def test_wild_books_that_call_others_leave_nobody_behind(book: Book, schedule: Schedule) -> None:
    assert played(book, schedule) == []
