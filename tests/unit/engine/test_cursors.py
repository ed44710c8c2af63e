"""Loops over a cursor: which lanes there are, and when nothing is left."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from nets import plan, step, task
from test_decide import ERROR, Play, iteration

from noetl.engine.inputs import Inputs
from noetl.engine.run_state import SparseValues
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import Failure, Loop
from noetl.testing import START, Given

REFUSED = ErrorInfo("connection", "nobody answers")


def over_rows(width: int = 3, mode: Any = "parallel", **more: Any) -> Play:
    inputs = {key: more.pop(key) for key in ("max_items", "max_generations") if key in more}
    loop = Loop(None, "row", mode=mode, max_in_flight=width, cursor=task("claim", "postgres"), **more)
    return Play(plan(step("each", "end", loop=loop), step("end")), **inputs)


def claimed(count: int, first: int = 0, waiting: int = 0, error: ErrorInfo | None = None) -> Draft:
    rows: list[Any] = [{"id": index} for index in range(first, first + count)]
    fact = e.LoopClaimed("l0", count, rows, waiting, error)
    return Draft(fact, step="each", run_id="each#1", iteration=first if count else None)


def ended(play: Play, *parts: str) -> None:
    """Commands that are closed."""
    gone = {f"1/each#1/{part}" for part in parts}
    play.inputs = replace(
        play.inputs, commands={key: held for key, held in play.inputs.commands.items() if key not in gone}
    )


def lanes(play: Play) -> list[tuple[str, int]]:
    return [(fact.part, fact.generation) for fact in play.facts(e.CommandIssued)]


def test_the_first_lane_looks_whether_there_is_anything() -> None:
    play = over_rows()
    assert lanes(play) == [("l0", 1)]
    started = next(play.facts(e.LoopStarted))
    assert (started.count, started.items, started.cursor) == (0, [], True)


@pytest.mark.parametrize(
    ("rows", "waiting", "more"),
    [(1, 0, ["l1"]), (3, 1, ["l1"]), (5, 4, ["l1", "l2"]), (0, 0, [])],
)
def test_rows_bring_a_lane_for_each_that_waits_and_at_least_one_that_looks_for_more(
    rows: int, waiting: int, more: list[str]
) -> None:
    play = over_rows()
    play.happens(claimed(rows, waiting=waiting))
    assert [part for part, _ in lanes(play)] == ["l0", *more]


def test_lanes_never_are_more_than_may_be_in_flight() -> None:
    play = over_rows(width=2)
    play.happens(claimed(5, waiting=4))
    play.happens(claimed(5, first=5, waiting=8))
    assert lanes(play) == [("l0", 1), ("l1", 1)]
    ended(play, "l1/1")
    play.happens()
    assert lanes(play) == [("l0", 1), ("l1", 1), ("l2", 1)], "the rows that wait are still wanted"


def test_a_sequential_loop_has_one_lane() -> None:
    play = over_rows(mode="sequential", width=9)
    play.happens(claimed(5, waiting=4))
    assert lanes(play) == [("l0", 1)]


def test_a_cursor_without_rows_is_an_empty_loop() -> None:
    play = over_rows()
    play.happens(claimed(0))
    assert play.running == ["each"], "the lane has not let go yet"
    ended(play, "l0/1")
    assert play.happens()[:2] == ["loop.done", "step.done"]
    assert play.state.steps["each"].result == {
        "results": [],
        "stats": {"total": 0, "completed": 0, "failed": 0},
    }


def test_results_stand_in_the_order_in_which_rows_were_claimed() -> None:
    play = over_rows(width=1)
    play.happens(claimed(2))
    play.happens(*iteration(1, "b"), *iteration(0, "a"))
    play.happens(claimed(1, first=2))
    play.happens(*iteration(2, "c"))
    ended(play, "l0/1")
    play.happens(claimed(0))
    assert play.state.steps["each"].result == {
        "results": ["a", "b", "c"],
        "stats": {"total": 3, "completed": 3, "failed": 0},
    }


def test_a_lane_that_is_at_work_may_have_rows_that_nobody_knows_of_yet() -> None:
    play = over_rows(width=2)
    play.happens(claimed(1))
    play.happens(*iteration(0, "a"), claimed(0))
    ended(play, "l0/1")
    assert play.happens() == [], "l1 may be claiming"
    play.happens(claimed(1, first=1))
    assert play.running == ["each"]


def test_who_ends_an_iteration_may_have_added_rows() -> None:
    play = over_rows(width=2)
    play.happens(claimed(1))
    play.happens(claimed(0))
    play.happens(*iteration(0, "a"))
    ended(play, "l0/1", "l1/1")
    play.happens()
    assert lanes(play)[-1] == ("l0", 2), "the lane that ended it never came back"


def test_rows_of_lanes_that_are_gone_are_left_to_a_new_generation() -> None:
    play = over_rows(width=2)
    play.happens(claimed(3, waiting=2))
    play.happens(*iteration(1, "b"))
    fresh = Given(play.plan, play.state, Inputs(now=START, commands={})).when()
    issued = [fact for fact in fresh.facts if isinstance(fact, e.CommandIssued)]
    assert [(fact.part, fact.generation) for fact in issued] == [("l0", 2), ("l1", 2)]


def test_a_lane_that_was_lost_is_replaced_although_no_row_is_missing() -> None:
    play = over_rows(width=1)
    lost = Draft(e.CommandLost("1/each#1/l0/1", 3, "killed"), step="each", run_id="each#1")
    play.happens(claimed(0))
    ended(play, "l0/1")
    play.happens(lost)
    assert lanes(play)[-1] == ("l0", 2)


def test_lanes_that_are_lost_again_and_again_fail_the_loop() -> None:
    play = over_rows(width=1, max_generations=1)
    ended(play, "l0/1")
    assert play.happens()[:3] == ["loop.claimed", "loop.done", "step.failed"]
    assert play.state.error is not None
    assert (play.state.error.kind, play.state.error.type) == ("internal", "WorkerLost")


@pytest.mark.parametrize("failure", [Failure(), Failure("best_effort")])
def test_a_claim_that_fails_fails_the_loop_whatever_iterations_may_do(failure: Failure) -> None:
    play = over_rows(failure=failure)
    play.happens(claimed(2, waiting=1))
    assert play.happens(claimed(0, error=REFUSED)) == []
    play.happens(*iteration(0, "a"))
    ended(play, "l0/1", "l1/1")
    assert play.happens()[:2] == ["loop.done", "step.failed"]
    assert play.state.error is not None
    assert play.state.error.message == "nobody answers"
    assert play.state.error.stats == {"total": 2, "completed": 1, "failed": 0}


def test_a_failed_iteration_brings_no_further_lanes() -> None:
    play = over_rows(width=3)
    assert play.happens(claimed(3, waiting=2), *iteration(0, error=ERROR)) == []
    assert lanes(play) == [("l0", 1)]


def test_best_effort_keeps_errors_beside_the_results_of_rows() -> None:
    play = over_rows(width=1, failure=Failure("best_effort"))
    play.happens(claimed(2))
    play.happens(*iteration(0, error=ERROR), *iteration(1, "b"))
    ended(play, "l0/1")
    play.happens(claimed(0))
    result = play.state.steps["each"].result
    assert result["results"] == [None, "b"]
    assert (result["errors"][0]["message"], result["errors"][1]) == ("it broke", None)


def test_nothing_is_claimed_by_new_lanes_while_a_pause_is_asked_for() -> None:
    play = over_rows(width=3)
    play.happens(e.PauseRequested(), claimed(3, waiting=2))
    assert lanes(play) == [("l0", 1)]
    play.happens(e.Resumed())
    assert [part for part, _ in lanes(play)] == ["l0", "l1", "l2"]


@pytest.mark.parametrize("length", [0, 1, 63, 64, 65, 200])
@pytest.mark.parametrize("more", [0, 1, 63, 64, 130])
def test_slots_that_grow_keep_what_they_hold(length: int, more: int) -> None:
    slots = SparseValues(length)
    for index in range(length):
        slots = slots.put(index, index)
    grown = SparseValues(length + more, slots.chunks)
    assert list(grown) == [*range(length), *[None] * more]
    assert len(grown) == length + more
    with pytest.raises(IndexError):
        grown.put(length + more, 0)
    for index in range(length, length + more):
        grown = grown.put(index, index)
    assert list(grown) == list(range(length + more))
