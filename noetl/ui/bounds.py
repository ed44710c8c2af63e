"""What is asked of the value of an input beside its type, in words."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from noetl.facts.json import Json
from noetl.net.input_values import quote_json
from noetl.net.inputs import Input

#: Characters of a list of values, and of a pattern.
_LONGEST: Final = 60


def find_bounds(one: Input, *, enum: bool = True) -> Iterator[str]:
    """One for each bound. `enum`: the values that it may have are said as well."""
    if enum and one.enum:
        yield cut("one of " + ", ".join(map(quote_json, one.enum)))
    if one.minimum is not None or one.maximum is not None:
        yield _say_range(one.minimum, one.maximum)
    if one.min_length is not None or one.max_length is not None:
        unit = "items" if one.type == "list" else "characters"
        yield f"{_say_range(one.min_length, one.max_length)} {unit}"
    if one.pattern:
        yield cut(f"like {one.pattern}")


def _say_range(lower: Json, upper: Json) -> str:
    if lower is None:
        return f"at most {upper}"
    return f"at least {lower}" if upper is None else f"{lower} to {upper}"


def cut(text: str) -> str:
    """The beginning of what is too long for a line."""
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
