"""Limits of quantum tasks: how much of a sweep may run."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from noetl.errors import ToolError
from noetl.quantum.config import Limits
from noetl.quantum.limits import Need, Room, check_told, free_memory_mb, room
from noetl.quantum.model import Estimate


@given(
    costs=st.lists(st.integers(1, 20), min_size=1, max_size=30),
    shots=st.integers(0, 100),
    fixed=st.integers(0, 50),
    limits=st.fixed_dictionaries(
        {},
        optional={
            "max_cost": st.integers(20, 400).map(float),
            "max_shots": st.integers(150, 3000),
            "max_points": st.integers(1, 40),
        },
    ),
)
def test_as_many_points_run_as_every_limit_allows(
    costs: list[int], shots: int, fixed: int, limits: dict[str, Any]
) -> None:
    need = Need(len(costs), shots, fixed, lambda some: float(sum(costs[:some])))
    found = room(Limits.model_validate(limits), need)

    def fits(points: int) -> bool:
        return (
            points <= limits.get("max_points", points)
            and fixed + points * shots <= limits.get("max_shots", 1 << 60)
            and sum(costs[:points]) <= limits.get("max_cost", 1 << 60)
        )

    assert found.points == max(points for points in range(1, len(costs) + 1) if fits(points))
    assert (found.stopped is None) == (found.points == len(costs))


def test_a_price_is_asked_for_only_where_there_is_a_limit_on_it() -> None:
    def refuse(_: int) -> float:
        raise AssertionError("nobody wants to know")

    assert room(Limits(max_points=3), Need(5, 10, 0, refuse)) == Room(
        3, {"limit": "max_points", "at": 3, "of": 5}
    )


@pytest.mark.parametrize(
    ("limits", "type_"),
    [({"max_shots": 5}, "OverShots"), ({"max_cost": 0.5}, "OverCost"), ({"max_shots": 7}, "OverShots")],
)
def test_not_even_one_point_is_an_error_with_figures(limits: dict[str, Any], type_: str) -> None:
    with pytest.raises(ToolError) as caught:
        room(Limits.model_validate(limits), Need(2, 6, 3, lambda some: 1.5 * some))
    assert (caught.value.kind, caught.value.type) == ("limit", type_)
    assert f"{next(iter(limits.values())):g}" in caught.value.message


def test_a_limit_on_what_a_vendor_does_not_tell_is_no_limit_and_so_an_error() -> None:
    with pytest.raises(ToolError, match="cannot be kept: aqt does not tell") as caught:
        check_told(Limits(max_cost=1), Estimate(), "aqt")
    assert caught.value.type == "NotTold"


@pytest.mark.parametrize(
    ("most", "fits", "waits"),
    [
        (3, Estimate(queue=3), Estimate(queue=4)),
        ("2h", Estimate(queue_s=7200.0), Estimate(queue_s=7201.0)),
    ],
)
def test_a_long_queue_is_an_error_that_passes(most: Any, fits: Estimate, waits: Estimate) -> None:
    check_told(Limits(max_queue=most), fits, "ionq")
    with pytest.raises(ToolError, match=f"more than `limits.max_queue` of {most}") as caught:
        check_told(Limits(max_queue=most), waits, "ionq")
    assert (caught.value.type, caught.value.retryable) == ("OverQueue", True)


@pytest.mark.parametrize(
    ("most", "told", "instead"),
    [(3, Estimate(queue_s=5.0), "give a duration"), ("2h", Estimate(queue=5), "give a number of jobs")],
)
def test_a_queue_is_bounded_as_the_vendor_tells_it(most: Any, told: Estimate, instead: str) -> None:
    with pytest.raises(ToolError, match=instead) as caught:
        check_told(Limits(max_queue=most), told, "ionq")
    assert caught.value.type == "NotTold"


@pytest.mark.parametrize("most", ["soon", "-1h", -1])
def test_a_queue_is_bounded_by_jobs_or_by_time(most: Any) -> None:
    with pytest.raises(ValidationError):
        Limits(max_queue=most)


def test_the_memory_of_this_machine_is_known() -> None:
    assert free_memory_mb() > 16
