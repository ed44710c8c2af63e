"""What was printed is read from its end, line by line, and searched up to a limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from noetl.facts.logs import LogChunk, LogFilter, LogPosition, LogRow, pack
from noetl.facts.reference import Retention
from noetl.testing import Simulation
from noetl.usecases import printed_lines
from noetl.usecases.printed_lines import (
    FoundLines,
    LineFilter,
    LinePosition,
    last_lines,
    make_pattern,
    search_lines,
)

NOW = datetime(2026, 3, 1, 12, 0, tzinfo=UTC)
ALL = LogFilter()
PLAYBOOK = """\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {name: prints, path: tests/prints}
workflow:
  - step: start
"""


@pytest.fixture
def sim() -> Simulation:
    return Simulation(PLAYBOOK)


@pytest.fixture
def run(sim: Simulation) -> str:
    return sim.start()


def chunk(run: str, text: str, stream: Any = "stdout", **place: Any) -> LogChunk:
    where = replace(LogPosition(run, "s", "s#1", None, "t", 1, 1), **place)
    return LogChunk(where, stream, 0, text, NOW)


def add(sim: Simulation, *chunks: LogChunk) -> None:
    run = chunks[0].place.execution_id
    with sim.rt.store.begin() as tx:
        tx.executions.lock(run)
        tx.logs.add(run, chunks)


def texts(found: FoundLines) -> list[str]:
    return [line.text for line in found.lines]


def read_all(sim: Simulation, run: str, limit: int) -> list[str]:
    """Page by page, from the end to the beginning."""
    found = last_lines(sim.rt, run, ALL, limit)
    read = texts(found)
    while found.before is not None:
        found = last_lines(sim.rt, run, ALL, limit, found.before)
        assert 0 < len(found.lines) <= limit
        read = texts(found) + read
    return read


def number_of_lines(count: int) -> Sequence[str]:
    return [f"line {number}" for number in range(count)]


def test_the_last_lines_come_first_and_pages_lead_to_the_beginning(sim: Simulation, run: str) -> None:
    lines = number_of_lines(23)
    add(sim, *(chunk(run, "".join(f"{one}\n" for one in lines[at : at + 5])) for at in range(0, 23, 5)))
    found = last_lines(sim.rt, run, ALL, 4)
    assert texts(found) == lines[-4:]
    assert found.before == LinePosition(4, 4)
    for limit in (1, 4, 5, 23, 100):
        assert read_all(sim, run, limit) == lines


def test_lines_that_come_in_pieces_are_one(sim: Simulation, run: str) -> None:
    add(
        sim,
        chunk(run, "one, "),
        chunk(run, "error\nno end", "stderr"),
        chunk(run, "first\n", iteration=0),
        chunk(run, "two\nthree"),
        chunk(run, "\n\nfour\r\n"),
    )
    found = last_lines(sim.rt, run, ALL, 10)
    assert texts(found) == ["error", "first", "one, two", "three", "", "four", "no end"]
    assert [line.stream for line in found.lines][::6] == ["stderr", "stderr"]
    assert found.lines[1].place.iteration == 0


def test_what_tells_terminals_something_is_no_text(sim: Simulation, run: str) -> None:
    add(sim, chunk(run, "\x1b[1;31mred\x1b[0m \x1b]0;title\x07shown \x1b(Bend\x1b\n\x1b[2K\n"))
    assert texts(last_lines(sim.rt, run, ALL, 10)) == ["red shown end", ""]


def test_lines_are_narrowed_by_place(sim: Simulation, run: str) -> None:
    add(
        sim,
        chunk(run, "a\n", iteration=0),
        chunk(run, "b\n", step="z", run_id="z#1"),
        chunk(run, "c\n", attempt=2),
    )
    assert texts(last_lines(sim.rt, run, LogFilter("z"), 9)) == ["b"]
    assert texts(last_lines(sim.rt, run, LogFilter(iteration=0), 9)) == ["a"]
    assert texts(last_lines(sim.rt, run, LogFilter("s", attempt=2), 9)) == ["c"]
    assert texts(last_lines(sim.rt, run, LogFilter(run_id="s#1"), 9)) == ["a", "c"]


def test_blocks_are_read_among_the_rows_around_them(
    sim: Simulation, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printed_lines, "_ROWS", 5)
    lines = number_of_lines(40)
    add(sim, *(chunk(run, f"{one}\n", iteration=at % 2) for at, one in enumerate(lines)))
    for first in (2, 10, 18, 26, 3, 11):
        seqs = list(range(first, first + 8, 2))
        held = [replace(chunk(run, f"{lines[seq - 1]}\n", iteration=(seq - 1) % 2), seq=seq) for seq in seqs]
        short = sim.rt.results.put([pack(one) for one in held], Retention(run))
        with sim.rt.store.begin() as tx:
            tx.executions.lock(run)
            tx.logs.fold(run, seqs, LogRow(replace(held[0], text=""), seqs[-1], short))
    for limit in (3, 7, 100):
        assert read_all(sim, run, limit) == lines


def test_long_lines_fill_a_page(sim: Simulation, run: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(printed_lines, "PAGE_CHARS", 250)
    add(sim, *(chunk(run, f"{'x' * 100}\n") for _ in range(9)))
    assert len(last_lines(sim.rt, run, ALL, 9).lines) == 3
    assert len(read_all(sim, run, 9)) == 9


# --- searching ------------------------------------------------------------------------------------


def test_lines_are_found_in_capitals_or_not_and_counted(sim: Simulation, run: str) -> None:
    add(sim, chunk(run, "It Timed\x1b[0m Out.\nall is well\ntimed out*\nStraße\n"))
    found = search_lines(sim.rt, run, ALL, LineFilter(make_pattern("TIMED OUT")), 10)
    assert texts(found) == ["It Timed Out.", "timed out*"]
    assert (found.matched, found.searched, found.is_whole, found.before) == (2, 4, True, None)
    assert texts(search_lines(sim.rt, run, ALL, LineFilter(make_pattern("out*")), 10)) == ["timed out*"]
    assert texts(search_lines(sim.rt, run, ALL, LineFilter(make_pattern(".*")), 10)) == []


def test_more_matches_than_a_page_takes_are_paged(sim: Simulation, run: str) -> None:
    add(sim, *(chunk(run, f"odd {at}\n" if at % 2 else f"even {at}\n") for at in range(20)))
    found = search_lines(sim.rt, run, ALL, LineFilter(make_pattern("odd")), 4)
    assert texts(found) == ["odd 13", "odd 15", "odd 17", "odd 19"]
    assert (found.matched, found.searched) == (10, 20)
    assert found.before is not None
    found = search_lines(sim.rt, run, ALL, LineFilter(make_pattern("odd")), 4, found.before)
    assert texts(found) == ["odd 5", "odd 7", "odd 9", "odd 11"]


def test_a_search_ends_at_its_limit_and_goes_on_from_there(
    sim: Simulation, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(printed_lines, "_ROWS", 3)
    add(sim, chunk(run, "here\n"), *(chunk(run, f"{'x' * 100}\n") for _ in range(30)))
    found = search_lines(sim.rt, run, ALL, LineFilter(make_pattern("here")), 10, most=1000)
    assert (texts(found), found.matched, found.searched, found.is_whole) == ([], 0, 12, False)
    searched = found.searched
    while not found.is_whole:
        found = search_lines(sim.rt, run, ALL, LineFilter(make_pattern("here")), 10, found.before, 1000)
        searched += found.searched
    assert (texts(found), searched) == (["here"], 31)


@pytest.mark.parametrize("text", ["", "7", "7.", "a.b", "-1.2", "1.2.3", "9" * 20 + ".1"])
def test_what_is_no_position_is_none(text: str) -> None:
    assert LinePosition.read(text) is None


def test_a_position_is_read_as_it_is_written() -> None:
    assert LinePosition.read(str(LinePosition(7, 12))) == LinePosition(7, 12)
