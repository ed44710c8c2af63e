"""The control-flow patterns that the language expresses: each holds in every order in which
messages can come, and does not without its key."""

from __future__ import annotations

from pathlib import Path

import pytest

from noetl.dsl import compile_playbook
from noetl.testing import KINDS
from tests.budget import budget

from .pattern_runs import FOLDER, ControlFlowPattern, Variant, in_order, orders, patterns, play

ALL = patterns()
THERE = [one for one in ALL if one.file]
#: Orders of deliveries that are tried of a pattern that has more.
MOST = budget("NOETL_TEST_PATTERN_ORDERS", quick=8, full=16, long=2_000)


def _named(pattern: ControlFlowPattern) -> str:
    return f"{pattern.number:02}-{pattern.name}"


def test_the_index_has_every_pattern_once_and_every_playbook_belongs_to_one() -> None:
    assert [one.number for one in ALL] == list(range(1, 44))
    assert sorted(one.file for one in THERE) == sorted(
        file.name for file in FOLDER.glob("*.yaml") if file != FOLDER / "index.yaml"
    )
    for one in ALL:
        assert bool(one.file) is not bool(one.waits_for)
        assert bool(one.file) is bool(one.key and one.absent and one.expected)


@pytest.mark.parametrize("pattern", THERE, ids=_named)
def test_a_playbook_names_its_pattern_and_has_no_problem_but_what_the_index_says(
    pattern: ControlFlowPattern,
) -> None:
    text = pattern.text
    assert text.splitlines()[0] == f"# WCP-{pattern.number} {pattern.name}: `{pattern.key}`"
    found = compile_playbook(text, file=pattern.file, kinds=KINDS)
    assert [one.code.value for one in found.problems] == list(pattern.problems)
    assert Path(pattern.file).stem.startswith(f"{pattern.number:02}-")


@pytest.mark.parametrize("pattern", THERE, ids=_named)
def test_the_pattern_holds_in_every_order_in_which_messages_come(pattern: ControlFlowPattern) -> None:
    whole = Variant(pattern, pattern.text, pattern.actions)
    for number, pick in enumerate(orders(MOST, pattern.number)):
        assert not (faults := play(whole, pick)), f"order {number}: {faults}"


@pytest.mark.parametrize("pattern", THERE, ids=_named)
def test_the_pattern_does_not_hold_without_its_key(pattern: ControlFlowPattern) -> None:
    for variant in pattern.without_key():
        assert play(variant, in_order), variant.text
