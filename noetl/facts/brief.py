"""Values in a few words, for messages: without secrets, and never long."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any, Final

from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.reference import is_reference
from noetl.facts.secret import MARK, describe_secret, is_secret, is_secret_name

#: Characters of a value that messages show, of each text in it, and the parts and levels of it that
#: are looked at.
MOST: Final = 80
_PARTS: Final = 12
_LEVELS: Final = 4
MASK: Final = "***"


def brief(value: Json, most: int = MOST) -> str:
    """`value` as compact JSON (a text as it is) of at most `most` characters. Secrets, and what
    stands under a name that secrets have (`password`), are hidden."""
    part = _shorten(value, most) if isinstance(value, str) else _part(value, _LEVELS)
    text = part if isinstance(part, str) else json.dumps(part, ensure_ascii=False)
    line = " ".join(text.split())
    return line if len(line) <= most else f"{line[: most - 1]}…"


def _shorten(text: str, most: int) -> str:
    """At most one character more than `most`: enough to see that there are more."""
    return MASK if MARK in text else text[: most + 1]


def _part(value: Any, levels: int) -> Json:
    match value:
        case str():
            return _shorten(value, MOST)
        case bool() | int() | float() | None:
            return value
        case Mapping() if is_secret(value):
            return f"<{describe_secret(value)}>"
        case Mapping() if is_reference(value):
            return "<a large result>"
        case Mapping():
            return _mapping(value, levels) if levels else "{…}"
        case list() | tuple():
            return [_part(one, levels - 1) for one in value[:_PARTS]] if levels else "[…]"
        case _:
            return f"<{type(value).__name__}>"


def _mapping(value: Mapping[Any, Any], levels: int) -> dict[str, Json]:
    return {
        str(key)[:MOST]: MASK if is_secret_name(str(key)) and inner is not None else _part(inner, levels - 1)
        for key, inner in islice(value.items(), _PARTS)
    }
