"""Labels: what people tell executions apart by. Names and texts, few and short."""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import Decimal
from typing import Final

from noetl.facts import json
from noetl.facts.json import Json, JsonMap

#: Labels that one execution has at most.
MOST: Final = 50
#: Characters of a name, as many as PostgreSQL's parser, which reads filters, keeps of one; and of a
#: value.
LONGEST_NAME: Final = 63
LONGEST: Final = 200
_NAME: Final = re.compile(r"[A-Za-z0-9._/-]+")


def read_labels(given: JsonMap) -> dict[str, str]:
    """Labels as they are kept: numbers, true and false become texts. Raises ValueError, which
    completes a sentence that begins with what they are of."""
    return check_count({name: read_label(name, value) for name, value in given.items()})


def check_count(labels: Mapping[str, str]) -> dict[str, str]:
    """Raises ValueError as `read_labels` does."""
    if len(labels) > MOST:
        raise ValueError(f"are {len(labels)}, more than {MOST}")
    return dict(labels)


def read_label(name: str, value: Json) -> str:
    """The value of the label of that name. Raises ValueError as `read_labels` does."""
    if len(name) > LONGEST_NAME:
        raise ValueError(
            f"have the name {name[:40] + '…'!r} of {len(name)} characters, more than {LONGEST_NAME}"
        )
    if not _NAME.fullmatch(name):
        raise ValueError(
            f"have the name {name!r}, and names are made of letters, digits, '.', '_', '/' and '-'"
        )
    text = text_of(value)
    if text is None:
        raise ValueError(f"have no text as {name!r}, but {_describe(value)}")
    if len(text) > LONGEST:
        raise ValueError(f"have {len(text)} characters as {name!r}, more than {LONGEST}")
    odd = next((char for char in text if not char.isprintable()), None)
    if odd is not None:
        raise ValueError(f"have a character as {name!r} that cannot be printed (U+{ord(odd):04X})")
    return text


def text_of(value: Json) -> str | None:
    """The text that a text, a number, true or false is; None for all else."""
    if isinstance(value, str):
        return value
    if not isinstance(value, bool | int | float | Decimal):
        return None
    try:
        return json.dumps(value)
    except ValueError:  # Python writes out no more than some thousand digits
        return None


def _describe(value: Json) -> str:
    match value:
        case None:
            return "null"
        case Mapping():
            return "a mapping"
        case list() | tuple():
            return "a list"
        case _:
            return "what is none"
