"""What a worker remembers."""

from __future__ import annotations

import pytest

from noetl.quantum.experiments.reading import RecentCache


def test_what_was_made_is_not_made_again_until_others_have_taken_its_place() -> None:
    made: list[str] = []
    recent = RecentCache[str](2)

    def get(key: str) -> str:
        return recent.get(key, lambda: made.append(key) or key.upper())  # type: ignore[func-returns-value]

    assert [get(key) for key in "abab"] == ["A", "B", "A", "B"]
    get("a")
    get("c")
    get("a")
    get("b")
    assert made == ["a", "b", "c", "b"]


def test_what_could_not_be_made_is_tried_again() -> None:
    recent = RecentCache[int](2)

    with pytest.raises(ZeroDivisionError):
        recent.get("k", lambda: 1 // 0)
    assert recent.get("k", lambda: 1) == 1
