"""Whatever failed, and whatever was changed since: a retry comes to what a fresh run of the new
version comes to, and calls nothing again that is equal."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from books import Book, books, tool
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st
from promises import Outcome, broken
from test_interleavings import schedules
from world import PATIENT, Schedule, World

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import catalog, control, fork, inspect, retry
from noetl.usecases.fork import ForkRequest
from noetl.usecases.ports import ENDED
from noetl.usecases.retry import RetryRequest
from tests.budget import examples

Place = tuple[str, int | None, str, str]


def _place(call: Call) -> Place:
    """Which call it is, in every execution."""
    inputs = json.dumps({key: value for key, value in call.args.items() if key != "fails"}, sort_keys=True)
    return call.where.step, call.where.iteration, call.task, inputs


def _goes_on(step: dict[str, Json]) -> bool:
    """Whether a failure of the step, or of an iteration of it, is handled."""
    return str(step["step"]).startswith("fails") or "best_effort" in json.dumps(step.get("loop"))


def _tool(call: Call) -> Json:
    """A number that depends on the call's code as well."""
    return (tool(call) + zlib.crc32(str(call.config["code"]).encode())) % 9973


class Flaky:
    """A tool that fails for some of the calls until it is mended, and counts those that went well.
    Failures that the book goes on after are none to be made good: its steps that do are spared."""

    def __init__(self, salt: int, book: Book | None = None) -> None:
        self.salt = salt
        self.spared = {str(step["step"]) for step in book.steps if _goes_on(step)} if book else set()
        self.mended = book is None
        self.done: Counter[Place] = Counter()

    def __call__(self, call: Call) -> Json:
        place = _place(call)
        spared = self.mended or call.where.step in self.spared
        if not spared and zlib.crc32(f"{self.salt}{place}".encode()) % 4 == 0:
            raise ToolError(("timeout", "client_error")[self.salt % 2], "broken")
        result = _tool(call)
        self.done[place] += 1
        return result


def _that_reads(book: Book) -> Book:
    """The same book, whose code reads all of its inputs, as the tool here does."""
    steps = json.loads(json.dumps(book.steps).replace('"code": "x"', '"code": "args"'))
    return replace(book, steps=steps, others=[_that_reads(other) for other in book.others])


def _books(*, calls: bool = False) -> st.SearchStrategy[Book]:
    return books(calls=calls).map(_that_reads)


def _simulate(book: Book, python: Callable[[Call], Json]) -> Simulation:
    sim = Simulation(book.text, {"python": python})
    for other in book.others:
        catalog.register(sim.rt, other.text)
    return sim


def _finish(sim: Simulation, execution_id: str) -> None:
    """As `Simulation.run` does: delays pass at once."""
    sim.settle()
    for _ in range(100):
        if inspect.execution(sim.rt, execution_id).status != "running":
            return
        sim.pass_time(3600)
        sim.settle()


def _again(sim: Simulation, execution_id: str, **how: Any) -> str:
    row = retry.retry(sim.rt, RetryRequest(execution_id, confirmed=True, **how))
    _finish(sim, row.execution_id)
    return row.execution_id


def _seen(sim: Simulation, execution_id: str) -> Outcome:
    """What is the same whether it ran or stands."""
    report = sim.report(execution_id)
    steps = {
        name: {key: value for key, value in step.items() if key != "reused"}
        for name, step in report.steps.items()
    }
    return Outcome(report.row.status, report.ctx, steps, report.result)


def _undisturbed(book: Book) -> tuple[Outcome, Counter[Place]]:
    """What is seen where nothing goes wrong, and how often each call is made then."""
    python = Flaky(0)
    sim = _simulate(book, python)
    return _seen(sim, sim.run().row.execution_id), python.done


def _edit(book: Book, number: int) -> Book:
    """The book with one of its tasks changed."""
    steps = json.loads(json.dumps(book.steps))
    tasks = [
        task
        for step in steps
        for task in (step["tool"] if isinstance(step["tool"], list) else [])
        if task["kind"] == "python"
    ]
    assume(tasks)
    # On the same line: an error that stands has the line that it had.
    tasks[number % len(tasks)]["code"] = f"args, {number}"
    return replace(book, steps=steps)


def _runs_with_others(book: Book, place: Place) -> bool:
    """Whether the call runs again with another one: an iteration sees what earlier ones wrote, and
    a task behind a pipeline how that has ended."""
    return place[0] in book.all_sequential or place[2].startswith("after")


@settings(max_examples=examples(12))
@given(book=_books())
def test_unchanged_nothing_runs(book: Book) -> None:
    sim = _simulate(book, _tool)
    first = sim.run().row.execution_id
    calls = len(sim.tools.calls)
    assert _seen(sim, _again(sim, first)) == _seen(sim, first)
    assert [_place(call) for call in sim.tools.calls[calls:]] == []


@settings(max_examples=examples(6))
@given(book=_books(calls=True))
def test_unchanged_no_playbook_is_called(book: Book) -> None:
    sim = _simulate(book, _tool)
    first = sim.run().row.execution_id
    calls = len(sim.tools.calls)
    assert _seen(sim, _again(sim, first)) == _seen(sim, first)
    assert [_place(call) for call in sim.tools.calls[calls:]] == []


@settings(max_examples=examples(16))
@given(book=_books() | _books(calls=True), salt=st.integers(0, 999))
def test_what_failed_is_made_good_and_nothing_else(book: Book, salt: int) -> None:
    expected, needed = _undisturbed(book)
    python = Flaky(salt, book)
    sim = _simulate(book, python)
    first = sim.run().row.execution_id
    once, python.done, python.mended = python.done, Counter(), True
    note(f"first: {sim.report(first).row.status}")
    second = _again(sim, first)
    assert _seen(sim, second) == expected
    for place, count in python.done.items():
        if not _runs_with_others(book, place):
            assert once[place] + count <= needed[place], place


@pytest.mark.full("3 s: cuts of whole books")
@settings(max_examples=examples(12))
@given(
    book=_books() | _books(calls=True),
    salt=st.integers(0, 999),
    cuts=st.lists(st.integers(0, 12), min_size=1, max_size=3),
)
def test_nothing_is_done_twice_however_often_it_was_begun_anew_and_cut_short(
    book: Book, salt: int, cuts: list[int]
) -> None:
    expected, needed = _undisturbed(book)
    python = Flaky(salt, book)
    sim = _simulate(book, python)
    last = sim.run().row.execution_id
    for cut in cuts:
        row = retry.retry(sim.rt, RetryRequest(last, confirmed=True))
        last = row.execution_id
        _cut_short(sim, last, cut)
    python.mended = True
    last = _again(sim, last)
    assert _seen(sim, last) == expected
    # What a failed one told its last step is no call of one that goes well.
    for place, count in needed.items():
        if not _runs_with_others(book, place):
            assert python.done[place] <= count, place


def _cut_short(sim: Simulation, execution_id: str, delivered: int) -> None:
    """Cancels it after so many messages, if it has not ended by then."""
    for _ in range(delivered):
        if sim.mailbox.messages:
            sim.deliver()
    if inspect.execution(sim.rt, execution_id).status in ENDED:
        return
    control.cancel(sim.rt, execution_id, grace_s=0)
    sim.settle()
    sim.pass_time(60)
    _finish(sim, execution_id)


@given(book=_books(), salt=st.integers(0, 999), number=st.integers(0, 99), flaky=st.booleans())
def test_a_new_version_comes_to_what_a_fresh_run_of_it_comes_to(
    book: Book, salt: int, number: int, flaky: bool
) -> None:
    changed = _edit(book, number)
    python = Flaky(salt, book)
    python.mended = not flaky
    sim = _simulate(book, python)
    first = sim.run().row.execution_id
    python.mended = True
    version = catalog.register(sim.rt, changed.text, "test.yaml").version
    assert _seen(sim, _again(sim, first, version=version)) == _undisturbed(changed)[0]


@pytest.mark.full("3 s: schedules of whole books")
@settings(max_examples=examples(8))
@given(book=_books() | _books(calls=True), salt=st.integers(0, 999), schedule=schedules())
def test_whatever_happens_to_messages_and_processes(book: Book, salt: int, schedule: Schedule) -> None:
    expected, _ = _undisturbed(book)
    python = Flaky(salt, book)
    limits = replace(PATIENT, turn_copies=5)
    world = World(book.text, {"python": python}, limits=limits, others=[other.text for other in book.others])
    try:
        first = world.sim.start()
        _finish(world.sim, first)
        python.mended = True
        row = retry.retry(world.sim.rt, RetryRequest(first, confirmed=True))
        world.started.append(row.execution_id)
        world.play(schedule)
        world.settle()
        assert broken(world, book) == []
        assert _seen(world.sim, row.execution_id) == expected
    finally:
        world.abandon()


@settings(max_examples=examples(12))
@given(book=_books(), part=st.floats(0, 1, exclude_max=True))
def test_a_fork_of_any_moment_comes_to_the_same_end(book: Book, part: float) -> None:
    sim = _simulate(book, _tool)
    report = sim.run()
    at = 1 + int(part * (report.events - 2))
    row = fork.fork(sim.rt, ForkRequest(report.row.execution_id, at=at))
    _finish(sim, row.execution_id)
    assert _seen(sim, row.execution_id) == _seen(sim, report.row.execution_id)
