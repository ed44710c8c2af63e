"""Lines of a plan: how they look, how they wrap, and values on one of them."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from noetl.cli.tables import aligned
from noetl.facts.json import Json

#: Indent of what stands in a section.
IN: Final = "  "
#: Characters of a value or a template that are told.
_SHOWN: Final = 100


@dataclass(frozen=True, slots=True)
class Line:
    """`mood` says how it looks where there are colours."""

    text: str
    mood: str = "plain"


MOODS: Final[Mapping[str, Mapping[str, Any]]] = {
    "plain": {},
    "title": {"bold": True},
    "quiet": {"dim": True},
    "warning": {"fg": "yellow"},
    "bad": {"fg": "red"},
}


def wrapped(text: str, width: int) -> list[str]:
    """`text` on lines of at most `width` characters; 0 leaves it whole."""
    if not width or len(text) <= width:
        return [text]
    indent = " " * (len(text) - len(text.lstrip()) + 2)
    return textwrap.wrap(
        text, max(width, 40), subsequent_indent=indent, drop_whitespace=True, replace_whitespace=False
    )


def columns(rows: list[tuple[list[str], str]]) -> Iterator[Line]:
    """Rows of cells with their moods, aligned."""
    if rows:
        texts = aligned([cells for cells, _ in rows], 10_000)
        yield from (Line(text, mood) for text, (_, mood) in zip(texts, rows, strict=True))


def names(found: Iterable[str]) -> str:
    return ", ".join(found)


def reads(needs: tuple[str, ...]) -> str:
    return f" (reads {names(needs)})" if needs else ""


def short(value: Json) -> str:
    """A value on one line."""
    return cut(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def cut(text: str) -> str:
    """`text` without line ends, and not too long."""
    line = " ".join(text[: 8 * _SHOWN].split())
    return line if len(line) <= _SHOWN else f"{line[: _SHOWN - 1]}…"
