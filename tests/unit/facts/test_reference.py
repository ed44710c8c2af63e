"""Places of results, and references inside of values."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from noetl.facts.json import Json
from noetl.facts.reference import Retention, find_references


@pytest.mark.parametrize(
    "keep",
    [
        Retention("7"),
        Retention("7", "step"),
        Retention("", "permanent"),
        Retention("", until=datetime(2026, 3, 1, 12, tzinfo=UTC)),
    ],
)
def test_a_place_says_for_whom_it_is(keep: Retention) -> None:
    assert Retention.of_place(keep.place) == keep


@pytest.mark.parametrize(
    "place", ["", "executions/", "running", "until/x", "until/9999999999", "permanent/7", "other/7"]
)
def test_what_is_no_place_is_for_nobody(place: str) -> None:
    assert Retention.of_place(place) is None


def test_references_are_found_however_deep_and_in_manifests() -> None:
    one, two = ({"kind": "result_ref", "ref": f"noetl://results/permanent/{name}"} for name in "ab")
    deep: Json = two
    for _ in range(5000):
        deep = [deep]
    value = {"x": {"kind": "manifest", "parts": [{"count": 1, "ref": one}]}, "y": deep}
    assert sorted(found["ref"] for found in find_references(value)) == [one["ref"], two["ref"]]
    assert list(find_references({"kind": "result_ref", "ref": 7})) == []
