"""Runs as bars over time, in per cent of the width."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.history.lines import IterationMark, LoopLine, RunLine, Segment, StepChange, StepLine
from noetl.ui.run.bars import HEIGHT, TOP, TimeBar, TimeScale, draw_bars, say_tick, status_at

SCALE = TimeScale(1000.0)


def _run(begin: float, end: float | None, *segments: Segment, **more: Any) -> RunLine:
    known = {"run_id": "load#1", "step": "load", "status": "done", "loop": None, "critical": False}
    whole = segments or (Segment("running", begin, end, 1, failed=False),)
    return RunLine(
        **{**known, **more},
        begin_version=1,
        end_version=None if end is None else 2,
        begin_ms=begin,
        end_ms=end,
        segments=whole,
    )


def _bars(*runs: RunLine) -> list[TimeBar]:
    return draw_bars(StepLine("load", (), runs), SCALE)


def _looks(bars: Sequence[TimeBar]) -> list[tuple[str, float, float]]:
    return [(bar.look, bar.x, bar.width) for bar in bars]


def test_a_run_waits_for_a_worker_runs_waits_and_runs_again() -> None:
    run = _run(
        100,
        900,
        Segment("queued", 100, 200, None, failed=False),
        Segment("running", 200, 400, 1, failed=False),
        Segment("waiting", 400, 800, 1, failed=False),
        Segment("running", 800, 900, 1, failed=False),
    )
    found = [("queued", 10, 10), ("done", 20, 20), ("waiting", 40, 40), ("done", 80, 10)]
    assert _looks(_bars(run)) == found


def test_attempts_that_failed_are_pieces_of_their_own() -> None:
    run = _run(
        0,
        300,
        Segment("running", 0, 100, 1, failed=True),
        Segment("running", 100, 300, 2, failed=False),
        status="done",
    )
    assert _looks(_bars(run)) == [("failed", 0, 10), ("done", 10, 20)]
    assert [bar.title for bar in _bars(run)] == [
        "load#1: attempt 1 failed after 100 ms",
        "load#1: attempt 2 ran for 200 ms",
    ]


@pytest.mark.parametrize("status", ["failed", "cancelled"])
def test_the_last_piece_has_the_colour_of_the_end(status: str) -> None:
    segments = [Segment("running", 0, 100, 1, failed=False), Segment("running", 100, 300, 1, failed=False)]
    assert [bar.look for bar in _bars(_run(0, 300, *segments, status=status))] == ["done", status]


def test_what_still_runs_reaches_to_the_end_of_the_picture() -> None:
    assert _looks(_bars(_run(600, None, status="running"))) == [("running", 60, 40)]


def test_what_was_short_can_be_seen_and_stays_inside() -> None:
    (bar,) = _bars(_run(1000, 1000))
    assert bar.width > 0
    assert bar.x + bar.width <= 100


def test_runs_at_the_same_time_stand_below_one_another() -> None:
    first, second, third = _bars(_run(0, 500), _run(100, 400), _run(600, 700))
    assert (first.y, third.y) == (TOP, TOP)
    assert second.y >= first.y + first.height
    assert second.y + second.height <= TOP + HEIGHT


def test_many_runs_are_shown_by_how_many_there_were_and_where_some_failed() -> None:
    runs = [_run(at, at + 100) for at in range(0, 500, 5)]
    bars = _bars(*runs, _run(900, 950, status="failed"))
    assert len(bars) <= 80
    assert {bar.look for bar in bars} == {"done", "failed"}
    # Most of them at once between 100 and 500 ms.
    assert {bar.shade for bar in bars if 11 < bar.x < 45} == {4}
    assert {bar.shade for bar in bars if bar.x > 88} == {1}


def test_iterations_are_a_strip_in_which_those_that_failed_stand_at_the_foot() -> None:
    marks = [IterationMark(at, 10.0 * at, at, "done") for at in range(99)]
    marks.append(IterationMark(99, 985.0, 99, "failed"))
    base, *cells = _bars(_run(0, 1000, loop=LoopLine(100, "parallel", marks)))
    assert (base.x, base.width) == (0, 100)
    (failed,) = [bar for bar in cells if bar.look == "failed"]
    assert failed.x > 97
    assert failed.y + failed.height == TOP + HEIGHT
    assert failed.height < HEIGHT
    assert failed.title == "load#1: 1 of 2 iterations failed"


def test_the_way_that_the_end_waited_for_is_marked() -> None:
    assert [bar.critical for bar in _bars(_run(0, 10, critical=True), _run(20, 30))] == [True, False]


@given(st.floats(min_value=0.1, max_value=1e11))
def test_the_axis_has_a_few_round_times(total: float) -> None:
    ticks = TimeScale(total).ticks()
    assert 1 <= len(ticks) <= 8
    assert ticks[0].text == "0"
    assert len({tick.text for tick in ticks}) == len(ticks), "no two say the same"
    assert all(0 <= tick.x <= 85 for tick in ticks), "their texts begin there, and stay inside"


@pytest.mark.parametrize(
    ("ms", "text"),
    [(0, "0"), (250, "250 ms"), (1500, "1.5 s"), (200_000, "3 m 20 s"), (7_200_000, "2 h 00 m")],
)
def test_times_of_the_axis_are_short(ms: float, text: str) -> None:
    assert say_tick(ms) == text


def test_a_step_is_what_it_was_at_that_version() -> None:
    line = StepLine("load", (StepChange(3, "running"), StepChange(7, "done")), ())
    assert [status_at(line, version) for version in (2, 3, 6, 7, 9)] == [
        "not_run",
        "running",
        "running",
        "done",
        "done",
    ]


@given(
    st.lists(
        st.tuples(st.floats(0, 1000), st.floats(0, 1000), st.sampled_from(["done", "failed", "cancelled"])),
        max_size=90,
    )
)
def test_bars_are_inside_of_the_picture(spans: list[tuple[float, float, str]]) -> None:
    runs = [_run(min(a, b), max(a, b), status=status) for a, b, status in sorted(spans)]
    for bar in _bars(*runs):
        assert 0 <= bar.x <= bar.x + bar.width <= 100.001
        assert TOP <= bar.y <= bar.y + bar.height <= TOP + HEIGHT + 0.01
