"""Did you mean …? One reading of what a mistyped name was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

#: Longer names are not compared, nor are names with more letters of others: it would cost more than the hint is worth.
LONGEST: Final = 200
MOST_LETTERS: Final = 50_000


#: How alike names are, from 0 to 1: enough for a hint at what was meant, and enough to say that something is wrong.
ALIKE: Final = 0.6
NEARLY_THE_SAME: Final = 0.75


def nearest(name: str, known: Iterable[str], likeness: float = ALIKE) -> str | None:
    """The one of `known` that `name` may be meant for, whatever the case of its letters; None where none is near."""
    if len(name) > LONGEST:
        return None
    lowered = {candidate.lower(): candidate for candidate in known}
    if sum(map(len, lowered)) > MOST_LETTERS:
        return None
    close = difflib.get_close_matches(name.lower(), lowered, n=1, cutoff=likeness)
    return lowered[close[0]] if close else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` to end a message with, or an empty string."""
    near = nearest(name, known)
    return f" Did you mean {near!r}?" if near else ""
