"""How far steps are, and how long they took."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from noetl.history.lines import IterationMark, LoopLine, RunLine, Segment, StepLine
from noetl.net.tasks import Loop
from noetl.ui.charts import say_about, say_rate
from noetl.ui.run.progress import StepTime, TimelineMoment, find_time, say_count

BEGIN = datetime(2026, 1, 31, 12, tzinfo=UTC)
RULES = Loop("{{ items }}", "item")


def _line(*spans: tuple[float, float | None], loop: LoopLine | None = None) -> StepLine:
    """Runs of those milliseconds: the first begins with version 1 and ends with 2, and so on."""
    runs = tuple(
        RunLine(
            f"load#{number}",
            "load",
            "running" if end is None else "done",
            2 * number - 1,
            None if end is None else 2 * number,
            begin,
            end,
            (Segment("running", begin, end, 1, failed=False),),
            loop,
            critical=False,
        )
        for number, (begin, end) in enumerate(spans, 1)
    )
    return StepLine("load", (), runs)


def _as_of(version: int, at_ms: float, *, is_now: bool = False) -> TimelineMoment:
    return TimelineMoment(BEGIN, version, at_ms, is_now)


def test_the_time_of_a_step_is_that_of_its_runs_together() -> None:
    line = _line((0, 1_000), (5_000, 7_000))
    assert find_time(line, _as_of(4, 9_000)) == StepTime(3, None)
    assert find_time(line, _as_of(3, 6_000)) == StepTime(2, None), "as of then it went on"
    assert find_time(line, _as_of(0, 0)) is None


def test_the_time_of_a_step_that_runs_goes_on() -> None:
    since = BEGIN + timedelta(seconds=5)
    assert find_time(_line((0, 1_000), (6_000, None)), _as_of(3, 8_000, is_now=True)) == StepTime(3, since)


def test_a_loop_that_goes_on_says_how_fast_and_when_it_ends() -> None:
    marks = tuple(IterationMark(3, 500.0 * at, at, "done") for at in range(1, 2_001))
    line = _line((0, None), loop=LoopLine(5_000, "parallel", marks))
    now = _as_of(3, 1_000_000, is_now=True)
    assert say_count(line, now, RULES) == "2,000 of 5,000 · 2.0/s · about 25 min left"
    assert say_count(line, _as_of(3, 1_000_000), RULES) == "2,000 of 5,000", "it was so once"


def test_a_step_that_ran_more_than_once_says_how_often() -> None:
    assert say_count(_line((0, 1), (2, 3)), _as_of(9, 9), None) == "2 runs"
    assert say_count(_line((0, 1), (2, 3)), _as_of(2, 9), None) == ""


@pytest.mark.parametrize(
    ("rate", "text"), [(4_100, "4,100/s"), (41.2, "41/s"), (4.12, "4.1/s"), (0.2, "12/min"), (0.001, "4/h")]
)
def test_rates_are_said_in_the_unit_that_fits(rate: float, text: str) -> None:
    assert say_rate(rate) == text


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0.2, "about 1 s"),
        (40, "about 40 s"),
        (100, "about 2 min"),
        (7_300, "about 2 h"),
        (400_000, "about 5 d"),
    ],
)
def test_estimates_are_round(seconds: float, text: str) -> None:
    assert say_about(seconds) == text
