"""Patches: assignments in any order of storage add up to the same."""

from __future__ import annotations

from noetl.pipeline.patches import apply_patch, assign, extend


def test_a_name_takes_in_what_is_assigned_below_it() -> None:
    assert assign({"a": {"x": 1}}, "a.b.c", 2) == {"a": {"x": 1, "b": {"c": 2}}}
    assert assign({"a": 5}, "a.b", 2) == {"a": {"b": 2}}


def test_assigning_a_name_forgets_what_was_assigned_below_it() -> None:
    assert assign({"a.b": 1, "a.c.d": 2, "ab": 3}, "a", None) == {"a": None, "ab": 3}


def test_a_patch_reads_the_same_whatever_order_its_keys_come_back_in() -> None:
    patch = extend({}, {"a.b": 1, "c": 2})
    patch = extend(patch, {"a.b.d": 3, "c.e": 4, "a.f": 5})
    backwards = dict(reversed(patch.items()))
    base = {"a": {"z": 0, "b": 9}, "c": {"y": 8}}
    assert apply_patch(base, patch) == apply_patch(base, backwards)
    assert apply_patch(base, patch) == {"a": {"z": 0, "b": {"d": 3}, "f": 5}, "c": {"e": 4}}
    assert base == {"a": {"z": 0, "b": 9}, "c": {"y": 8}}


def test_nothing_to_apply_is_the_base_itself() -> None:
    base = {"a": 1}
    assert apply_patch(base, {}) is base
