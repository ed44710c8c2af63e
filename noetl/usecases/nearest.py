"""Did you mean …?"""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """` Did you mean 'x'?` for the name nearest to `name`, or an empty string."""
    near = nearest(name, known)
    return f" Did you mean {near!r}?" if near else ""


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The name of `known` that is nearest to `name`, if one is near."""
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.6)
    return near[0] if near else None
