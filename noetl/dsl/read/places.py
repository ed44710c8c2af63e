"""Where a text stands in a document, for those who know about where it does."""

from __future__ import annotations

from noetl.dsl.problems import Path
from noetl.dsl.read.origins import value_at
from noetl.dsl.read.source import read


def find_text(document: str, text: str, *, line: int = 0, below: Path = ()) -> tuple[int, int] | None:
    """Line and column of the first value that is the `text`, at that line or behind it, within the
    part at `below`; None where there is none."""
    source = read(document, "")
    marks = (
        mark
        for path, mark in source.marks.items()
        if mark.scalar
        and mark.content_line >= line
        and path[: len(below)] == below
        and value_at(source.data, path) == text
    )
    first = min(marks, default=None)
    return None if first is None else (first.line, first.column)
