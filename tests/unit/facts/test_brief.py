"""Values in a few words."""

from __future__ import annotations

import pytest

from noetl.facts.brief import MOST, brief


@pytest.mark.parametrize("most", [MOST, 200])
def test_what_is_cut_off_is_seen_to_be(most: int) -> None:
    text = "x" * most
    assert brief(text, most) == text
    assert brief(text + "y", most) == "x" * (most - 1) + "…"
