"""Values as an author gives them: what they are, and how messages show them."""

from __future__ import annotations

import sys
from typing import Final, TypeGuard

from noetl.facts.json import Json

#: Characters that messages repeat of a value.
_LONGEST: Final = 80
#: Characters that they repeat of what a library says.
_LONGEST_REASON: Final = 200


def is_number(value: Json) -> TypeGuard[float]:
    """Whether this is a finite number that fits into a float; true and false are not numbers."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def is_count(value: Json, least: int = 1) -> TypeGuard[int]:
    """Whether this is a whole number from `least` on."""
    return isinstance(value, int) and not isinstance(value, bool) and value >= least


def is_probability(value: Json) -> TypeGuard[float]:
    return is_number(value) and 0 <= value <= 1


def reason(error: Exception) -> str:
    """What an error of a library says, on one line and without its last dot."""
    lines = str(error).strip().splitlines() or [type(error).__name__]
    return lines[0][:_LONGEST_REASON].rstrip(".")


def show(value: Json) -> str:
    """A value as messages show it."""
    return shorten(repr(value))


def shorten(text: str) -> str:
    """A text as messages show it."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
