"""The promises about undoing and slots are worth something, too: each of these seeded defects
breaks one of them under fixed schedules."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from books import Book, call_of_kid, tool
from promises import broken
from test_undoing import check, task
from test_waits import STEPS, Visited, check_waits
from world import OPERATIONS, Schedule, World

from noetl.engine import children as engine_children
from noetl.engine import scopes as engine_scopes
from noetl.engine import slot_table as engine_slot_table
from noetl.usecases.turn import writing

#: Seeds of schedules that are tried.
SEEDS = range(4)

Trouble = Callable[[Schedule], list[str]]


def undone_calls(schedule: Schedule) -> list[str]:
    """A loop of calls that do things, then a step that fails."""
    kid = Book(path="tests/kid")
    kid.add("a", tool=[task()], compensate="undo", next="b")
    kid.add("b", tool=[task()], compensate="undo")
    kid.add("undo", tool=[task()])
    book = Book(widths={"loop": 2}, others=[kid])
    spec = {"mode": "parallel", "max_in_flight": 2}
    book.add(
        "loop", loop={"in": [1, 2, 3], "iterator": "item", "spec": spec}, tool=[call_of_kid()], next="mine"
    )
    book.add("mine", tool=[task()], compensate="undo", next="bad")
    book.add("bad", tool=[{**task(broken=True), "spec": {}}])
    book.add("undo", tool=[task()])
    world = World(book.text, {"python": tool}, others=[kid.text])
    try:
        run = world.start()
        world.play(schedule)
        world.settle()
        found = broken(world, book)
        if not found:
            check(world, run)
        return found
    except AssertionError as error:
        return [f"not undone once each: {error!s:.200}"]
    finally:
        world.abandon()


def waits_that_race(schedule: Schedule) -> list[str]:
    """All that waits, side by side; two of them want one slot."""
    book = Book(wild=True, best_effort=True)
    names = ["race", "both", "items", "bounded", "waiting"]
    book.add("start", next=list(names))
    for name in names:
        body = dict(STEPS[name])
        config = body.pop("tool")
        assert isinstance(config, dict)
        book.add(name, tool=[{"name": "w", "kind": "wait", **config}], **body)
    return _visited(book, schedule)


def _visited(book: Book, schedule: Schedule) -> list[str]:
    world = Visited(book.text)
    try:
        run = world.start()
        world.play(schedule)
        for _ in range(4):
            world.settle()
            world.give()
        world.settle()
        return [*broken(world, book), *check_waits(world.sim.events(run))]
    finally:
        world.abandon()


CALLS = (*OPERATIONS, "duplicate")
VISITS = (*OPERATIONS, "signal", "signal", "signal", "due", "due", "stop", "leave")


def schedules(operations: tuple[str, ...]) -> Iterator[Schedule]:
    for seed in SEEDS:
        draw = random.Random(seed)
        yield [(draw.choice(operations), draw.randrange(8)) for _ in range(100)]


SCENARIOS: dict[Trouble, tuple[str, ...]] = {
    undone_calls: CALLS,
    waits_that_race: VISITS,
}


@pytest.mark.full("a second proof of what random schedules show")
@pytest.mark.parametrize("trouble", SCENARIOS)
def test_the_engine_as_it_is_keeps_every_promise(trouble: Trouble) -> None:
    assert [said for one in schedules(SCENARIOS[trouble]) for said in trouble(one)] == []


# --- defects -------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Defect:
    """What is broken, where that is noticed, and what is said then."""

    apply: Callable[[pytest.MonkeyPatch], None]
    trouble: Trouble
    because: str


DEFECTS: dict[str, Defect] = {}


def defect(trouble: Trouble, because: str) -> Callable[[Callable[[pytest.MonkeyPatch], None]], Any]:
    def seeded(function: Callable[[pytest.MonkeyPatch], None]) -> Any:
        DEFECTS[function.__name__] = Defect(function, trouble, because)
        return function

    return seeded


@defect(undone_calls, "not undone once each")
def calls_that_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(engine_children, "remember_call", lambda state, child, fact: state)


@defect(undone_calls, "was undone behind")
def undone_in_the_order_of_what_was_done(patch: pytest.MonkeyPatch) -> None:
    def first(state: Any, region: Any = None) -> Any:
        return min(state.undoable, key=lambda one: one.latest, default=None)

    patch.setattr(engine_scopes, "next_undoable", first)


@defect(undone_calls, "is still|recorded twice|never made")
def executions_that_undo_and_are_not_written(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writing, "write_copy", lambda tx, copy, now: copy.row)


@defect(waits_that_race, "have one slot")
def one_slot_more_than_there_is(patch: pytest.MonkeyPatch) -> None:
    original = engine_slot_table.SlotTable.counting

    def fewer(self: Any, key: str) -> Any:
        return list(original(self, key))[1:]

    patch.setattr(engine_slot_table.SlotTable, "counting", fewer)


@defect(waits_that_race, "slots are held|is still")
def slots_that_nobody_gives_back(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(writing, "free_ended", lambda tx, states, after: None)


def first_trouble(name: str) -> str:
    """What the first schedule that notices makes it say."""
    seeded = DEFECTS[name]
    for schedule in schedules(SCENARIOS[seeded.trouble]):
        try:
            said = seeded.trouble(schedule)
        except Exception as error:  # noqa: BLE001 - a defect may show in any way
            said = [repr(error)]
        if said:
            return "; ".join(said)
    return ""


@pytest.mark.full("a test of the tests")
@pytest.mark.parametrize("name", DEFECTS)
def test_every_seeded_defect_breaks_a_promise(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    DEFECTS[name].apply(monkeypatch)
    said = first_trouble(name)
    assert re.search(DEFECTS[name].because, said), f"nobody notices {name}: {said[:500]}"
