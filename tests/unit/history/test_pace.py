"""How fast loops go, and how long the rest takes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from noetl.history.lines import IterationMark, LoopLine, RunLine, Segment
from noetl.history.pace import LoopPace, find_pace
from noetl.net.tasks import Loop

RULES = Loop("{{ items }}", "item")


def _run(total: int, *ends_ms: float) -> RunLine:
    """A loop whose iterations ended at those milliseconds; it waited a second for its worker."""
    marks = tuple(IterationMark(3 + at, end, at, "done") for at, end in enumerate(ends_ms))
    segments = (
        Segment("queued", 0, 1_000, None, failed=False),
        Segment("running", 1_000, None, 1, failed=False),
    )
    loop = LoopLine(total, "parallel", marks)
    return RunLine("each#1", "each", "running", 1, None, 0, None, segments, loop, critical=False)


def test_the_rest_takes_as_long_as_the_rate_says() -> None:
    run = _run(50, *(1_000 + 100.0 * count for count in range(1, 11)))
    assert find_pace(run, RULES, 2_000) == LoopPace(10, 4)


def test_what_ended_long_ago_says_nothing_of_the_rate() -> None:
    slow = [1_000 + 10_000.0 * count for count in range(1, 101)]
    fast = [slow[-1] + 10.0 * count for count in range(1, 201)]
    found = find_pace(_run(1_300, *slow, *fast), RULES, fast[-1])
    assert found == LoopPace(100, 10)


def test_a_loop_in_which_nothing_ends_any_more_slows_down() -> None:
    paces = [find_pace(_run(10, 1_500, 2_000), RULES, now) for now in (2_000, 21_000)]
    assert [pace and pace.per_second for pace in paces] == [2, 0.1]


@pytest.mark.parametrize("rules", [replace(RULES, grow="{{ more }}"), replace(RULES, close="{{ ctx.over }}")])
def test_nobody_knows_when_a_loop_ends_to_which_more_may_be_added(rules: Loop) -> None:
    found = find_pace(_run(10, 1_500, 2_000), rules, 2_000)
    assert found == LoopPace(2, None)


def test_nothing_is_told_before_iterations_have_ended_or_behind_the_end() -> None:
    assert find_pace(_run(10, 1_500), RULES, 2_000) is None
    assert find_pace(replace(_run(2, 1_500, 2_000), status="done"), RULES, 2_000) is None
    assert find_pace(replace(_run(2), loop=None), RULES, 2_000) is None
