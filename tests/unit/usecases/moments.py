"""Moments at which the log of an execution is cut."""

from __future__ import annotations

from collections.abc import Sequence

from tests.budget import profile


def some(moments: Sequence[int]) -> Sequence[int]:
    """One in three of them with the first and the last; all at night."""
    if profile() == "long":
        return moments
    return sorted({*moments[::3], *moments[-1:]})
