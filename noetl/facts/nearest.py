"""Did you mean …? One reading of what a mistyped name was meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from typing import Final

#: Longer names are not compared, nor are names with more letters of others: it would cost more than
#: the hint is worth.
LONGEST: Final = 200
MOST_LETTERS: Final = 50_000

#: How alike names are, from 0 to 1: enough for a hint at what was meant, and enough to say that
#: something is wrong.
ALIKE: Final = 0.6
NEARLY_THE_SAME: Final = 0.75
#: What is more alike is a slip, and no abbreviation of something else.
_A_SLIP: Final = 0.8
#: Letters of the shortest abbreviation.
_LETTERS: Final = 3


def nearest(name: str, known: Iterable[str], likeness: float = ALIKE) -> str | None:
    """The one of `known` that `name` may be meant for, whatever the case of its letters: what it is
    likely a slip for, or short for (`cmd`, `msg`). None where none is near."""
    if len(name) > LONGEST:
        return None
    lowered = {candidate.lower(): candidate for candidate in known if candidate != name}
    if sum(map(len, lowered)) > MOST_LETTERS:
        return None
    word = name.lower()
    longer = [one for one in lowered if likeness <= ALIKE and is_short_for(word, one)]
    cutoff = _A_SLIP if longer else likeness
    close = difflib.get_close_matches(word, lowered, n=1, cutoff=cutoff) or sorted(longer, key=len)
    return lowered[close[0]] if close else None


def is_short_for(word: str, name: str) -> bool:
    """Whether `word` has the first letter of `name` and some of the others, in their order."""
    letters = iter(name)
    return _LETTERS <= len(word) < len(name) and word[0] == name[0] and all(one in letters for one in word)


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` to end a message with, or an empty string."""
    near = nearest(name, known)
    return f" Did you mean {near!r}?" if near else ""
