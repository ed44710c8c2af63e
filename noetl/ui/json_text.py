"""Text of values as pages show it: bounded, and with everything visible that it holds."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Final

from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.reference import Lazy
from noetl.facts.secret import MARK, is_secret

#: What stands in a text for a secret that is named there.
_NAMED: Final = "(a secret)"
_MARKER: Final = re.compile(re.escape(MARK) + r"[a-z.]*[A-Za-z0-9_-]*(?:\.~)?")
_INDENT: Final = "  "
#: Bits of the longest whole number that is written out.
_LONGEST_INTEGER: Final = 4_000
#: Halves of characters, which are no text.
_SURROGATES: Final = range(0xD800, 0xE000)
#: Turn round the direction of what is beside them, or end that; lines and paragraphs end as well.
_TURNS: Final = (0x061C, 0x200E, 0x200F, *range(0x2028, 0x202F), *range(0x2066, 0x206A))


def _name(code: int) -> str:
    return f"[U+{code:04X}]"


_VISIBLE: Final = {
    **{code: chr(0x2400 + code) for code in range(0x20) if chr(code) not in "\n\t"},
    0x7F: "\u2421",
    **{code: _name(code) for code in (*range(0x80, 0xA0), *_TURNS)},
    **dict.fromkeys(_SURROGATES, "\ufffd"),
}


def make_visible(text: str) -> str:
    """The text with signs in the place of what cannot be seen: control characters, and characters
    that turn its direction round. Line breaks and tabs stay. What stands for a secret is told in
    words."""
    named = _name_secrets(text)
    # Nearly every text is as it should be, and pages show thousands.
    return named if named.isprintable() else named.translate(_VISIBLE)


def _name_secrets(text: str) -> str:
    return _MARKER.sub(_NAMED, text) if MARK in text else text


#: Categories of characters that take no place, or break the line.
_PLACELESS: Final = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def make_visible_in_columns(text: str) -> str:
    """As `make_visible`, for text whose lines stand below each other: what cannot be seen, tabs
    too, is one sign that all fonts of one width have, so that what follows stays in its column.
    Line breaks stay."""
    named = _name_secrets(text)
    unseen = {one for one in set(named) - {"\n"} if unicodedata.category(one) in _PLACELESS}
    return named.translate({ord(one): "\ufffd" for one in unseen})


@dataclass(frozen=True, slots=True)
class JsonText:
    """The JSON of a value, or, where it is not whole, the beginning of it."""

    text: str
    is_whole: bool


def write_json(value: Json, most: int, *, indent: bool = True) -> JsonText:
    """The JSON of `value` up to `most` characters: what lies behind them is not looked at, however
    deep and long it is. Secrets that it names do not stand in it. Without `indent` it is one line.
    """
    parts: list[str] = []
    left = most
    for piece in _write(value, most, indent):
        parts.append(piece[:left])
        left -= len(piece)
        if left < 0:
            return JsonText(make_visible("".join(parts)), is_whole=False)
    return JsonText(make_visible("".join(parts)), is_whole=True)


class _Open:
    """A list or mapping of which some items are written."""

    __slots__ = ("close", "is_first", "items")

    def __init__(self, value: Mapping[str, Json] | Sequence[Json]) -> None:
        self.is_first = True
        if isinstance(value, Mapping):
            self.close = "}"
            self.items: Iterator[tuple[str | None, Json]] = iter(value.items())
        else:
            self.close = "]"
            self.items = ((None, item) for item in value)


def _write(value: Json, most: int, indent: bool) -> Iterator[str]:
    # Without recursion: values nest as deeply as they like.
    stack: list[_Open] = []
    while True:
        if is_open(value):
            stack.append(_Open(value))
            yield "{" if isinstance(value, Mapping) else "["
        else:
            yield _write_scalar(value, most)
        while stack and (item := next(stack[-1].items, None)) is None:
            closed = stack.pop()
            yield (_break(len(stack)) if indent else "") + closed.close
        if not stack or item is None:
            return
        top = stack[-1]
        yield _separate(is_first=top.is_first, depth=len(stack) if indent else None)
        top.is_first = False
        key, value = item
        if key is not None:
            yield f"{json.dumps(str(key)[:most], ensure_ascii=False)}: "


def is_open(value: Json) -> bool:
    """Whether it is a list or mapping that holds something that may be shown."""
    return isinstance(value, Mapping | list | tuple | Lazy) and len(value) > 0 and not is_secret(value)


def _break(depth: int) -> str:
    return "\n" + _INDENT * depth


def _separate(*, is_first: bool, depth: int | None) -> str:
    if depth is None:
        return "" if is_first else ", "
    return ("" if is_first else ",") + _break(depth)


def _write_scalar(value: Json, most: int) -> str:
    match value:
        case str():
            return json.dumps(value[:most], ensure_ascii=False)
        case bool() | None | float():
            return json.dumps(value)
        case int():
            is_long = value.bit_length() > _LONGEST_INTEGER
            return f'"(a number of {value.bit_length()} bits)"' if is_long else str(value)
        case _ if is_secret(value):
            return json.dumps(_NAMED)
        case Mapping():
            return "{}"
        case list() | tuple() | Lazy():
            return "[]"
        case Decimal():
            return json.dumps(value)
        case _:
            return json.dumps(str(value)[:most], ensure_ascii=False)
