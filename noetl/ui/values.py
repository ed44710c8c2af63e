"""Values of executions as pages show them."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Final

from noetl.facts.json import Json

#: Characters that are shown of a value.
LONGEST: Final = 100_000


@dataclass(frozen=True, slots=True)
class ShownValue:
    """A value for `show_value` of values.html."""

    text: str


def show_value(value: Json) -> ShownValue:
    """A value as a page shows it."""
    return ShownValue(as_text(value))


def as_text(value: Json) -> str:
    """A value as text, up to `LONGEST` characters; empty for null."""
    if value is None:
        return ""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, indent=2)
    return text if len(text) <= LONGEST else f"{text[:LONGEST]}\n…"
