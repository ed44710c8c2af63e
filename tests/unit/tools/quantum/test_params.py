"""Sweeps: what points `params` stand for."""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from noetl.errors import ToolError
from noetl.quantum.circuits import params


def values(given: Any, most: int | None = None) -> list[dict[str, float]]:
    found = params.points(given, most)
    assert [point.index for point in found] == list(range(len(found)))
    return [dict(point.params) for point in found]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (None, [{}]),
        ({}, [{}]),
        ({"a": 1, "b": "pi/4"}, [{"a": 1.0, "b": math.pi / 4}]),
        ({"product": {"a": [0, 1], "b": [2, 3]}}, [{"a": a, "b": b} for a in (0, 1) for b in (2, 3)]),
        ({"product": {"a": {"linspace": [0, "2*pi", 3]}}}, [{"a": 0}, {"a": math.pi}, {"a": 2 * math.pi}]),
        ({"zip": {"a": [0, 1], "b": {"linspace": [2, 3, 2]}}}, [{"a": 0, "b": 2}, {"a": 1, "b": 3}]),
        ({"list": [{"a": 1}, {"a": "-2*pi"}]}, [{"a": 1}, {"a": -2 * math.pi}]),
        ({"list": 0.5}, [{"list": 0.5}]),
        ({"a": Decimal("0.50"), "b": 2**60}, [{"a": 0.5, "b": 2.0**60}]),
        ({"product": {"a": {"linspace": [5, 9, 1]}}}, [{"a": 5}]),
    ],
)
def test_points_are_what_is_written(given: Any, expected: list[dict[str, float]]) -> None:
    assert values(given) == expected


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("pi/4", math.pi / 4),
        ("-2*pi", -2 * math.pi),
        ("0.5*pi", math.pi / 2),
        ("2 * pi / 3 - 1e-3", 2 * math.pi / 3 - 1e-3),
        ("π", math.pi),
        ("(1+2)*3", 9),
        ("+.5", 0.5),
    ],
)
def test_numbers_may_be_texts(text: str, value: float) -> None:
    assert values({"a": text}) == [{"a": value}]


@given(start=st.floats(-1e6, 1e6), stop=st.floats(-1e6, 1e6), count=st.integers(2, 50))
def test_linspace_is_that_of_numpy_with_both_ends(start: float, stop: float, count: int) -> None:
    found = [point["a"] for point in values({"product": {"a": {"linspace": [start, stop, count]}}})]

    assert (found[0], found[-1]) == (start, stop)
    assert np.allclose(found, np.linspace(start, stop, count), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"a": [1]}, "params.a is no number; a sweep over it is `params: {product"),
        ({"a": {"linspace": [0, 1, 2]}}, "params.a is no number; a sweep over it"),
        ({"a": True}, "params.a is no number but True"),
        ({"a": None}, "params.a is no number but None"),
        ({"a": float("nan")}, "params.a is no finite number"),
        ({"a": float("inf")}, "params.a is no finite number"),
        ({"a": 10**400}, "params.a is no finite number"),
        ({"a": "1e400"}, "params.a is no finite number"),
        ({"a": "x"}, "nothing like `pi/4`"),
        ({"a": ""}, "nothing like `pi/4`"),
        ({"a": "2**9"}, "nothing like `pi/4`"),
        ({"a": "pi/0"}, "nothing like `pi/4`"),
        ({"a": "__import__('os')"}, "nothing like `pi/4`"),
        ({"a": "True"}, "nothing like `pi/4`"),
        ({"a": "(" * 99}, "nothing like `pi/4`"),
        ({"a": "1" * 101}, "nothing like `pi/4`"),
        ({"a": "\0"}, "nothing like `pi/4`"),
        ({"product": {"a": [1]}, "b": 3}, "params has `product` and also 'b'"),
        ({"product": {}}, "params.product must be a mapping"),
        ({"product": [1]}, "params.product must be a mapping"),
        ({"product": {"a": 1}}, "params.product.a must be a list"),
        ({"product": {"a": []}}, "params.product.a must be a list"),
        ({"product": {"a": [1, "x"]}}, "params.product.a[1] is 'x'"),
        ({"product": {"a": {"linspace": [0, 1]}}}, "params.product.a.linspace must be [start, stop, count]"),
        ({"product": {"a": {"linspace": [0, 1, 0]}}}, "linspace[2] is the count"),
        ({"product": {"a": {"linspace": [0, 1, True]}}}, "linspace[2] is the count"),
        ({"product": {"a": {"linspace": [0, 1, 2.5]}}}, "linspace[2] is the count"),
        ({"zip": {"a": [1], "b": [1, 2]}}, "axes of one length, and they have a 1, b 2"),
        ({"list": []}, "params.list must be a list of mappings"),
        ({"list": [{"a": 1}, 3]}, "params.list[1] must be a mapping"),
    ],
)
def test_anything_but_a_sweep_is_refused_by_its_place(given: Any, said: str) -> None:
    with pytest.raises(ToolError) as caught:
        params.points(given, 10)

    assert caught.value.kind == "client_error"
    assert said in caught.value.message


@pytest.mark.parametrize(
    "given",
    [
        {"product": {"a": [0] * 4, "b": [0] * 3}},
        {"product": {name: [0] * 10 for name in map(str, range(10))}},
        {"product": {"a": {"linspace": [0, 1, 10**12]}}},
        {"zip": {"a": [0] * 11}},
        {"list": [{"a": 0}] * 11},
    ],
)
def test_too_many_points_are_refused_before_they_are_made(given: Any) -> None:
    with pytest.raises(ToolError) as caught:
        params.points(given, 10)

    assert (caught.value.kind, caught.value.type) == ("limit", "TooManyPoints")


def test_a_sweep_may_have_as_many_points_as_are_allowed() -> None:
    assert len(params.points({"product": {"a": [0] * 5, "b": [0, 1]}}, 10)) == 10
