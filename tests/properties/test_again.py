"""Whatever failed, and whatever was changed since: a retry comes to what a fresh run of the new
version comes to, and calls nothing again that is equal."""

from __future__ import annotations

import json
import zlib
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from books import Book, books, tool
from hypothesis import assume, given, note, settings
from hypothesis import strategies as st
from promises import Outcome, broken, undisturbed
from test_interleavings import TOOLS, schedules
from world import PATIENT, Schedule, World

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import catalog, fork, inspect, retry
from noetl.usecases.fork import ForkRequest
from noetl.usecases.retry import RetryRequest

Place = tuple[str, int | None, str, str]


def _place(call: Call) -> Place:
    """Which call it is, in every execution."""
    inputs = json.dumps({key: value for key, value in call.args.items() if key != "fails"}, sort_keys=True)
    return call.where.step, call.where.iteration, call.task, inputs


class Flaky:
    """A tool that fails for some of the calls until it is mended, and counts those that went
    well."""

    def __init__(self, salt: int) -> None:
        self.salt = salt
        self.mended = False
        self.done: Counter[Place] = Counter()

    def __call__(self, call: Call) -> Json:
        place = _place(call)
        if not self.mended and zlib.crc32(f"{self.salt}{place}".encode()) % 4 == 0:
            raise ToolError(("timeout", "client_error")[self.salt % 2], "broken")
        result = tool(call)
        self.done[place] += 1
        return result


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
    report = sim.report(execution_id)
    return Outcome(report.row.status, report.ctx, report.steps, report.result)


def _without_effects(outcome: Outcome) -> Outcome:
    return replace(outcome, effects=frozenset())


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
    tasks[number % len(tasks)].setdefault("input", {})["edited"] = number
    return replace(book, steps=steps)


def _is_ordered(book: Book, step: str) -> bool:
    """Whether iterations of that step see what earlier ones wrote: those behind one that runs again
    run again."""
    return step in book.all_sequential


@given(book=books())
def test_unchanged_nothing_runs(book: Book) -> None:
    sim = _simulate(book, tool)
    first = sim.run().row.execution_id
    calls = len(sim.tools.calls)
    assert _seen(sim, _again(sim, first)) == _seen(sim, first)
    assert [_place(call) for call in sim.tools.calls[calls:]] == []


@settings(max_examples=max(10, settings().max_examples // 6))
@given(book=books(calls=True))
def test_unchanged_no_playbook_is_called(book: Book) -> None:
    sim = _simulate(book, tool)
    first = sim.run().row.execution_id
    calls = len(sim.tools.calls)
    assert _seen(sim, _again(sim, first)) == _seen(sim, first)
    assert [_place(call) for call in sim.tools.calls[calls:]] == []


@given(book=books() | books(calls=True), salt=st.integers(0, 999))
def test_what_failed_is_made_good_and_nothing_else(book: Book, salt: int) -> None:
    expected = undisturbed(book, dict(TOOLS))
    python = Flaky(salt)
    sim = _simulate(book, python)
    first = sim.run().row.execution_id
    once, python.done, python.mended = python.done, Counter(), True
    note(f"first: {sim.report(first).row.status}")
    second = _again(sim, first)
    assert _seen(sim, second) == _without_effects(expected)
    for place, count in python.done.items():
        if not _is_ordered(book, place[0]):
            fresh = Flaky(0)
            fresh.mended = True
            assert once[place] + count <= _counts(book)[place], place


def _counts(book: Book) -> Counter[Place]:
    """How often each call is made where nothing goes wrong."""
    fresh = Flaky(0)
    fresh.mended = True
    _simulate(book, fresh).run()
    return fresh.done


@given(book=books(), salt=st.integers(0, 999), number=st.integers(0, 99), flaky=st.booleans())
def test_a_new_version_comes_to_what_a_fresh_run_of_it_comes_to(
    book: Book, salt: int, number: int, flaky: bool
) -> None:
    changed = _edit(book, number)
    python = Flaky(salt)
    python.mended = not flaky
    sim = _simulate(book, python)
    first = sim.run().row.execution_id
    python.mended = True
    version = catalog.register(sim.rt, changed.text, "test.yaml").version
    assert _seen(sim, _again(sim, first, version=version)) == _without_effects(
        undisturbed(changed, dict(TOOLS))
    )


@settings(max_examples=max(10, settings().max_examples // 3))
@given(book=books() | books(calls=True), salt=st.integers(0, 999), schedule=schedules())
def test_whatever_happens_to_messages_and_processes(book: Book, salt: int, schedule: Schedule) -> None:
    expected = undisturbed(book, dict(TOOLS))
    python = Flaky(salt)
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
        assert _seen(world.sim, row.execution_id) == _without_effects(expected)
    finally:
        world.abandon()


@given(book=books(), part=st.floats(0, 1, exclude_max=True))
def test_a_fork_of_any_moment_comes_to_the_same_end(book: Book, part: float) -> None:
    sim = _simulate(book, tool)
    report = sim.run()
    at = 1 + int(part * (report.events - 2))
    row = fork.fork(sim.rt, ForkRequest(report.row.execution_id, at=at))
    _finish(sim, row.execution_id)
    assert _seen(sim, row.execution_id) == _seen(sim, report.row.execution_id)
