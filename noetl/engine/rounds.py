"""Rounds of joins, followed through the moves of what lived when they fired."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from noetl.engine.state import State


def inherit(state: State, gone: Iterable[str], heirs: Iterable[str]) -> State:
    """Rounds follow what lived when they fired: `heirs` take the place of what is `gone`."""
    if not state.rounds:
        return state
    lost, new = frozenset(gone), frozenset(heirs)
    rounds = {
        step: replace(r, outstanding=(r.outstanding - lost) | new) if r.outstanding & lost else r
        for step, r in state.rounds.items()
    }
    return replace(state, rounds=rounds)
