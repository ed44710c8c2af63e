"""Whatever happens to lanes and messages: every row that a cursor claims is run, and recorded
once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from books import Book, tool
from hypothesis import given
from hypothesis import strategies as st
from promises import broken
from test_interleavings import schedules
from world import PATIENT, Schedule, World

from noetl.facts.events import LoopClaimed
from noetl.facts.json import Json
from noetl.facts.reference import load_value
from noetl.pipeline.model import Call


@dataclass
class Table:
    """Rows that claims take. With a `ledger` the same call gets the same answer, as `exactly_once`
    does; a row below 100 adds another one when it has been worked on."""

    rows: int
    ledger: bool
    free: list[int] = field(default_factory=list)
    known: set[int] = field(default_factory=set)
    answers: dict[str, Json] = field(default_factory=dict)
    worked: Counter[int] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        for row in range(self.rows):
            self.add(row)

    def add(self, row: int) -> None:
        if row not in self.known:
            self.known.add(row)
            self.free.append(row)

    def claim(self, call: Call) -> Json:
        if self.ledger and call.idempotency_key in self.answers:
            return self.answers[call.idempotency_key]
        params: Any = call.config["params"]
        taken = self.free[: params["max_rows"]]
        del self.free[: len(taken)]
        rows: list[Json] = [{"id": row} for row in taken]
        answer: Json = {"rows": rows, "row_count": len(rows), "columns": ["id"]}
        self.answers[call.idempotency_key] = answer
        return answer

    def work(self, call: Call) -> Json:
        found = tool(call)
        row: Any = call.args["item"]
        self.worked[row["id"]] += 1
        if row["id"] < 100:
            self.add(row["id"] + 100)
        return found


@st.composite
def cursors(draw: st.DrawFn) -> Book:
    """A book with a loop over a cursor."""
    mode = draw(st.sampled_from(["parallel", "parallel", "sequential"]))
    width, frame = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    book = Book(widths={"drain": width if mode == "parallel" else 1})
    task = {"name": "t0", "kind": "python", "code": "x", "input": {"item": "{{ row }}", "fails": 0}}
    if draw(st.booleans()):
        retry = {
            "when": "{{ outcome.status == 'error' }}",
            "then": {"do": "retry", "attempts": 4, "delay": 5},
        }
        task["input"] = {"item": "{{ row }}", "fails": "{{ row.id % 2 }}"}
        task["spec"] = {"policy": {"rules": [retry, {"else": {"then": {"do": "continue"}}}]}}
    spec = {"mode": mode, "max_in_flight": width, "frame": {"max_rows": frame}}
    claim = "UPDATE jobs SET taken = true WHERE id IN (SELECT id FROM jobs LIMIT :max_rows) RETURNING id"
    loop = {"cursor": {"kind": "postgres", "claim": claim}, "iterator": "row", "spec": spec}
    book.add("drain", loop=loop, tool=[task])
    return book


def played(book: Book, table: Table, schedule: Schedule) -> tuple[World, list[int], list[str]]:
    """The rows that the log holds, and the promises that are broken."""
    world = World(book.text, {"python": table.work, "postgres": table.claim})
    try:
        run = world.start()
        world.play(schedule)
        world.settle()
        claims = [event.fact for event in world.sim.events(run) if isinstance(event.fact, LoopClaimed)]
        items: list[Any] = [
            item for claim in claims for item in load_value(claim.items, world.sim.rt.load) or []
        ]
        return world, [item["id"] for item in items], broken(world, book)
    finally:
        world.abandon()


@given(book=cursors(), rows=st.integers(0, 7), schedule=schedules())
def test_no_row_is_lost_where_a_claim_can_be_repeated(book: Book, rows: int, schedule: Schedule) -> None:
    table = Table(rows, ledger=True)
    world, recorded, problems = played(book, table, schedule)
    assert problems == []
    assert sorted(recorded) == sorted(table.known), "each row is recorded once, those that came later as well"
    assert sorted(table.worked) == sorted(table.known)
    report = world.sim.report(world.started[0])
    assert report.row.status == "completed"
    assert report.steps["drain"]["result"]["stats"] == {
        "total": len(recorded),
        "completed": len(recorded),
        "failed": 0,
    }


@given(book=cursors(), rows=st.integers(0, 7), schedule=schedules())
def test_every_row_that_is_recorded_is_worked_on(book: Book, rows: int, schedule: Schedule) -> None:
    table = Table(rows, ledger=False)
    world, recorded, problems = played(book, table, schedule)
    assert problems == []
    assert max(Counter(recorded).values(), default=1) == 1
    assert set(recorded) <= set(table.worked)
    report = world.sim.report(world.started[0])
    assert (report.row.status, len(report.result["results"])) == ("completed", len(recorded))
    if not world.expired and all(operation != "crash" for operation, _ in schedule):
        assert sorted(recorded) == sorted(table.known)


@pytest.mark.parametrize("wakes", [True, False])
def test_a_healthy_cursor_needs_no_sweeper_and_its_chords_bodies_are_enough(wakes: bool) -> None:
    table = Table(7, ledger=False)
    spec = {"mode": "parallel", "max_in_flight": 3, "frame": {"max_rows": 2}}
    claim = "DELETE FROM jobs WHERE id IN (SELECT id FROM jobs LIMIT :max_rows) RETURNING id"
    book = Book(widths={"drain": 3})
    task = {"name": "t0", "kind": "python", "code": "x", "input": {"item": "{{ row }}"}}
    book.add(
        "drain",
        loop={"cursor": {"kind": "postgres", "claim": claim}, "iterator": "row", "spec": spec},
        tool=[task],
    )
    limits = replace(PATIENT, report_wake=wakes)
    tools = {"python": table.work, "postgres": table.claim}
    world = World(book.text, tools, limits=limits, sweeps=False, wakes=wakes)
    try:
        run = world.start()
        if not wakes:
            world.mailbox.wake()
        assert world.settle()
        assert broken(world, book) == []
        assert world.sim.report(run).row.status == "completed"
        assert sorted(table.worked) == sorted(table.known)
    finally:
        world.abandon()


@given(book=cursors(), rows=st.integers(0, 7), schedule=schedules("cancel"))
def test_a_cursor_that_is_cancelled_ends(book: Book, rows: int, schedule: Schedule) -> None:
    assert played(book, Table(rows, ledger=False), schedule)[2] == []
