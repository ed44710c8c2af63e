"""What is expected, held against what came."""

from __future__ import annotations

from typing import Any

import pytest

from noetl.trial.matching import Mismatch, mismatches, renew


@pytest.mark.parametrize(
    ("expected", "got"),
    [
        (1, 1.0),
        ({}, {"a": 1}),
        ({"a": 1}, {"a": 1, "b": 2}),
        ({"a": None}, {}),
        ([{"a": 1}], [{"a": 1, "b": 2}]),
        ("~ ^b.*y", "busy"),
        ({"a": ["~ x"]}, {"a": ["axe"]}),
        ("plain", "plain"),
        (None, None),
        ([], []),
    ],
)
def test_it_holds(expected: Any, got: Any) -> None:
    assert list(mismatches(expected, got)) == []
    assert renew(expected, got) == expected


@pytest.mark.parametrize(
    ("expected", "got", "path"),
    [
        (1, True, ()),
        (False, 0, ()),
        (1, "1", ()),
        ("~ b", "a", ()),
        ("~ 1", 1, ()),
        ({"a": 1}, None, ()),
        ({"a": {"b": [1, 2]}}, {"a": {"b": [1, 3]}}, ("a", "b", 1)),
        ([1], [1, 2], ()),
        ({"a": 1}, {}, ("a",)),
        ({}, [], ()),
    ],
)
def test_it_does_not_hold_there(expected: Any, got: Any, path: tuple[Any, ...]) -> None:
    (found,) = mismatches(expected, got)
    assert found.path == path
    assert list(mismatches(renew(expected, got), got)) == []


def test_a_difference_says_both_sides_and_what_holds_stays_as_it_was() -> None:
    expected = {"text": "~ ^a", "rows": [{"id": 1}, {"id": 2}]}
    got = {"text": "abc", "rows": [{"id": 1, "x": 0}, {"id": 3}], "more": True}
    assert list(mismatches(expected, got)) == [Mismatch(("rows", 1, "id"), 2, 3)]
    assert renew(expected, got) == {"text": "~ ^a", "rows": [{"id": 1}, {"id": 3}]}
