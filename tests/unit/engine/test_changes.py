"""Copies of states and runs, with a few fields changed."""

from __future__ import annotations

import dataclasses

import pytest

from noetl.engine.changes import replace
from noetl.engine.run_state import Run, SparseValues
from noetl.engine.state import State, initial_state


@pytest.mark.parametrize("one", [initial_state("1"), Run("a#1", "a", {}, 3), SparseValues(3)])
def test_a_copy_is_what_the_standard_library_makes(one: State | Run | SparseValues) -> None:
    (first, *_) = dataclasses.fields(one)
    changed = replace(one, **{first.name: 7})  # type: ignore[arg-type, type-var]
    assert changed == dataclasses.replace(one, **{first.name: 7})  # type: ignore[arg-type, type-var]
    assert changed != one
    assert getattr(one, first.name) != 7


def test_what_it_does_not_have_is_refused() -> None:
    with pytest.raises(TypeError, match="State has no stutus"):
        replace(initial_state("1"), stutus="x")  # type: ignore[call-arg]
