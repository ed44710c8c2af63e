"""Two texts, line by line."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from noetl.ui.playbook.source import split_lines
from noetl.ui.playbook.versions import AROUND, compare_texts

TEXTS = st.lists(st.sampled_from(["a", "b", "c", "", "  a"]), max_size=40)


@given(TEXTS, TEXTS)
def test_a_diff_says_what_was_taken_away_and_what_was_added(left: list[str], right: list[str]) -> None:
    lines = list(compare_texts(left, right))
    for number, one in enumerate(lines):
        if one.left is not None:
            assert left[one.left - 1] == one.text
        if one.right is not None:
            assert right[one.right - 1] == one.text
        shape = {
            "same": (True, True),
            "added": (False, True),
            "removed": (True, False),
            "gap": (False, False),
        }
        assert (one.left is not None, one.right is not None) == shape[one.kind], number
    assert (lines == []) == (left == right)
    # What is not shown is the same in both texts.
    hidden_left = [text for at, text in enumerate(left, 1) if at not in {one.left for one in lines}]
    hidden_right = [text for at, text in enumerate(right, 1) if at not in {one.right for one in lines}]
    assert hidden_left == hidden_right or left == right


def test_lines_around_a_change_are_shown_and_others_are_a_gap() -> None:
    left = [str(number) for number in range(20)]
    lines = list(compare_texts(left, [*left[:10], "new", *left[10:]]))
    kinds = [one.kind for one in lines]
    assert kinds == ["gap", *["same"] * AROUND, "added", *["same"] * AROUND, "gap"]
    assert (lines[1].left, lines[1].right) == (8, 8)
    assert (lines[-2].left, lines[-2].right) == (13, 14)


def test_lines_are_those_of_an_editor() -> None:
    assert split_lines("a\r\nb\n\nc\x0bd\u2028e\n") == ["a", "b", "", "c\x0bd\u2028e"]
    assert split_lines("a") == ["a"]
    assert split_lines("") == []
