"""Where a character of a text's value stands in the document: behind indentation, folds and
escapes."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable
from functools import lru_cache
from itertools import accumulate

from noetl.dsl.read.compose import Mark
from noetl.dsl.read.line_ends import split_lines

#: Characters of a folded or escaped text that are followed one by one; of what lies behind only the
#: text is named.
_MAX_FOLLOWED = 10_000
# Anchor and tag before a scalar.
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")
_ESCAPE = re.compile(r"\\(?:x..|u.{4}|U.{8}|\r\n[ \t]*|[\r\n][ \t]*|.)", re.DOTALL)
_BLANKS = " \t\r\n"


def position(document: str, mark: Mark, value: str, offset: int) -> tuple[int, int] | None:
    """Line and column (from 1) of the character `offset` of the scalar `value` at `mark`; None
    where it cannot be found."""
    if not mark.scalar or not 0 <= offset <= len(value):
        return None
    if mark.content_line > mark.line and (found := _in_block(document, mark, value, offset)) is not None:
        return found
    starts = _line_starts(document)
    begin = starts[mark.line - 1] + mark.column - 1
    end = _index(starts, *mark.end, len(document))
    begin = _PROPERTIES.match(document, begin, end).end()  # type: ignore[union-attr]  # matches nothing at least
    index = _follow(document[begin:end], value, offset)
    if index is None:
        return None
    line = bisect_right(starts, begin + index)
    return line, begin + index - starts[line - 1] + 1


def mask(document: str, marks: Iterable[Mark]) -> str:
    """The document with `*` in the place of what stands in the scalars at `marks`; lines and
    columns stay."""
    starts = _line_starts(document)
    characters = list(document)
    for mark in marks:
        begin = starts[mark.line - 1] + mark.column - 1
        for index in range(begin, _index(starts, *mark.end, len(document))):
            if not characters[index].isspace():
                characters[index] = "*"
    return "".join(characters)


def _in_block(document: str, mark: Mark, value: str, offset: int) -> tuple[int, int] | None:
    """In a block whose lines are kept (`|`) it is the same line, behind the indentation."""
    starts = _line_starts(document)
    before = value.count("\n", 0, offset)
    begin = value.rfind("\n", 0, offset) + 1
    text = value[begin:].partition("\n")[0]
    line = mark.content_line + before
    if line > len(starts):
        return None
    written = document[starts[line - 1] : _index(starts, line + 1, 1, len(document))].rstrip("\r\n")
    if not written.endswith(text) or written[: len(written) - len(text)].strip(" "):
        return None
    return line, len(written) - len(text) + offset - begin + 1


def _follow(written: str, value: str, offset: int) -> int | None:
    if written == value:
        return offset
    if written[1:-1] == value:
        return offset + 1
    if offset >= min(_MAX_FOLLOWED, len(value)):
        return None
    places = _places(written[: 4 * _MAX_FOLLOWED], value[:_MAX_FOLLOWED])
    return places[offset] if offset < len(places) else None


@lru_cache(maxsize=64)
def _places(written: str, value: str) -> tuple[int, ...]:
    """For each character of `value` where it is in `written`, as far as both can be followed."""
    quote = written[:1] if written[:1] in ("'", '"') else ""
    at = len(quote)
    found: list[int] = []
    for wanted in value:
        place = _next(written, at, wanted, escapes=quote == '"')
        if place is None:
            break
        found.append(place[0])
        at = place[1] + (wanted == quote == "'")
    return tuple(found)


def _next(written: str, at: int, wanted: str, *, escapes: bool) -> tuple[int, int] | None:
    """From `at` on, where `wanted` is, and where what follows it begins."""
    while at < len(written):
        escape = _ESCAPE.match(written, at) if escapes else None
        if escape is not None:
            if escape[0][1] not in "\r\n":
                return at, escape.end()
            at = escape.end()  # an escaped line break stands for nothing
        elif written[at] == wanted or (wanted == " " and written[at] in _BLANKS):
            return at, at + 1
        else:
            at += 1
    return None


@lru_cache(maxsize=8)
def _line_starts(document: str) -> tuple[int, ...]:
    return (0, *accumulate(map(len, split_lines(document))))


def _index(starts: tuple[int, ...], line: int, column: int, size: int) -> int:
    return min(starts[line - 1] + column - 1, size) if line <= len(starts) else size
