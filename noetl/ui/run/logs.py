"""What the tasks of an execution print, line by line, the last lines first to be seen; and a search
in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, get_args

from flask import Response

from noetl.facts.json import JsonMap
from noetl.facts.logs import LogFilter, LogPosition, Stream
from noetl.ui.json_text import make_visible
from noetl.ui.run.look import RunLook
from noetl.usecases.printed_lines import (
    LEVELS,
    LONGEST_LINE,
    MOST_SEARCHED,
    FoundLines,
    LineFilter,
    LinePosition,
    PrintedLine,
    find_level,
    last_lines,
    make_pattern,
    read_lines,
    search_lines,
)

STREAMS: Final[tuple[Stream, ...]] = get_args(Stream)
#: Lines of one page.
PAGE: Final = 500
#: Characters of what is searched for, and marks in one line.
LONGEST_QUERY: Final = 200
_MOST_MARKS: Final = 50
#: After so many lines of one place it is said again.
_SAID_AGAIN: Final = 25


@dataclass(frozen=True, slots=True)
class TextPart:
    """A piece of a line; `is_found`: it is what is searched for."""

    text: str
    is_found: bool = False


@dataclass(frozen=True, slots=True)
class ShownLine:
    """A line of the page. `begins`: its place is said, since the line before it is of another one.
    `cut`: characters that are not shown."""

    line: PrintedLine
    parts: Sequence[TextPart]
    begins: bool
    cut: int

    @classmethod
    def of(cls, line: PrintedLine, previous: LogPosition | None, pattern: re.Pattern[str] | None) -> Self:
        shown = line.text[:LONGEST_LINE]
        parts = [TextPart(shown)] if pattern is None else _mark(shown, pattern)
        visible = [TextPart(make_visible(one.text), one.is_found) for one in parts if one.text]
        return cls(line, visible, line.place != previous, len(line.text) - len(shown))


def _mark(text: str, pattern: re.Pattern[str]) -> Iterator[TextPart]:
    end = 0
    for number, match in enumerate(pattern.finditer(text)):
        if number == _MOST_MARKS:
            break
        yield TextPart(text[end : match.start()])
        yield TextPart(match[0], is_found=True)
        end = match.end()
    yield TextPart(text[end:])


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/logs.html` shows."""
    query = look.asked.get("q", "")[:LONGEST_QUERY]
    attempt = look.number("attempt")
    pattern = make_pattern(query) if query else None
    before = LinePosition.read(look.asked.get("before", ""))
    wanted = _read_wanted(look, pattern)
    found = _find(look, LogFilter(look.step, look.iteration, attempt, _run_of(look)), wanted, before)
    return {
        "lines": list(_show(found.lines, pattern)),
        "found": found,
        "query": query,
        "wanted": wanted,
        "levels": _find_levels(found, wanted),
        "last_error": _find_failure(look) if before is None and wanted == LineFilter() else None,
        "attempt": attempt,
        "is_end": before is None,
        "most_searched": MOST_SEARCHED,
        "step_names": list(look.report.steps),
        "filtered": wanted != LineFilter()
        or any(look.asked.get(one) for one in ("step", "run", "iteration", "attempt")),
        "earlier": "" if found.before is None else look.here(before=str(found.before)),
        "newest": "" if before is None else look.here(before=None),
    }


def _run_of(look: RunLook) -> str | None:
    return look.run if look.run and "#" in look.run else None


def _read_wanted(look: RunLook, pattern: re.Pattern[str] | None) -> LineFilter:
    stream, level = look.asked.get("stream", ""), look.asked.get("level", "")
    return LineFilter(
        pattern,
        next((one for one in STREAMS if one == stream), None),
        level if level in LEVELS else None,
    )


def _find_levels(found: FoundLines, wanted: LineFilter) -> Sequence[str]:
    """Those that one may choose: none where what was printed has none."""
    has_levels = wanted.level is not None or any(find_level(one.text) for one in found.lines)
    return LEVELS if has_levels else ()


def _find_failure(look: RunLook) -> JsonMap | None:
    """The error with which the step has failed that is looked at, or all of it."""
    if look.step is None:
        return look.report.error
    error: JsonMap | None = look.report.steps.get(look.step, {}).get("error")
    return error


def _find(look: RunLook, where: LogFilter, wanted: LineFilter, before: LinePosition | None) -> FoundLines:
    rt, execution_id = look.visitor.rt, look.execution_id
    if wanted == LineFilter():
        return last_lines(rt, execution_id, where, PAGE, before)
    return search_lines(rt, execution_id, where, wanted, PAGE, before, MOST_SEARCHED)


def send_text(look: RunLook) -> Response:
    """What the page shows, as text, and all of it: each line with its time, its stream and its
    place."""
    query = look.asked.get("q", "")[:LONGEST_QUERY]
    wanted = _read_wanted(look, make_pattern(query) if query else None)
    where = LogFilter(look.step, look.iteration, look.number("attempt"), _run_of(look))
    lines = read_lines(look.visitor.rt, look.execution_id, where, wanted)
    sent = Response((_write(line) for line in lines), mimetype="text/plain")
    sent.headers.set("Content-Disposition", "attachment", filename=f"{look.execution_id}.log")
    return sent


def _write(line: PrintedLine) -> str:
    place = line.place
    iteration = "" if place.iteration is None else f"[{place.iteration}]"
    return f"{line.at.isoformat()} {line.stream} {place.step}{iteration} {line.text}\n"


def _show(lines: Sequence[PrintedLine], pattern: re.Pattern[str] | None) -> Iterator[ShownLine]:
    previous: LogPosition | None = None
    for number, line in enumerate(lines):
        yield ShownLine.of(line, previous if number % _SAID_AGAIN else None, pattern)
        previous = line.place
