"""What user code printed, line by line from its end: the last lines, and those that hold a text."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Self

from noetl.facts.logs import LogChunk, LogFilter, LogPosition, LogRow, Stream
from noetl.usecases.logs import merge, page
from noetl.usecases.runtime import Runtime

#: Characters that one question looks through.
MOST_SEARCHED: Final = 20_000_000
#: Characters of the lines of one answer, about; what one line counts at most.
PAGE_CHARS: Final = 150_000
LONGEST_LINE: Final = 2_000
#: Levels of logs, the least grave first, and what they are called as well.
LEVELS: Final = ("DEBUG", "INFO", "WARNING", "ERROR", "CRITICAL")
_LEVEL_NAMES: Final = {"WARN": "WARNING", "FATAL": "CRITICAL"}
_LEVEL: Final = re.compile(rf"\b({'|'.join((*LEVELS, *_LEVEL_NAMES))})\b")
#: Characters of a line within which its level stands.
_LEVEL_WITHIN: Final = 120
#: Rows that are read at once, and how many of them may be blocks, which are large.
_ROWS: Final = 200
_BLOCKS: Final = 4
#: What terminals take for an instruction: colours, titles of windows, moves of the cursor.
_ESCAPE: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]?|\][^\x07\x1b\n]*(?:\x07|\x1b\\)?|[ -/]*[0-Z\\^-~]?)"
)


@dataclass(frozen=True, slots=True, order=True)
class LinePosition:
    """Where a line ends: in the chunk of that number, behind so many others that end there."""

    seq: int
    number: int

    def __str__(self) -> str:
        return f"{self.seq}.{self.number}"

    @classmethod
    def read(cls, text: str) -> Self | None:
        """The position that a text stands for; None where it is none."""
        found = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", text, re.ASCII)
        return None if found is None else cls(int(found[1]), int(found[2]))


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A line without its end and without instructions for terminals, and when its end came."""

    position: LinePosition
    place: LogPosition
    stream: Stream
    at: datetime
    text: str


@dataclass(frozen=True, slots=True)
class LineFilter:
    """Which lines are wanted: of that stream, of that level or a graver one, and with that text in
    them; None: all."""

    pattern: re.Pattern[str] | None = None
    stream: Stream | None = None
    level: str | None = None

    def admits(self, line: PrintedLine) -> bool:
        return (
            self.stream in (None, line.stream)
            and (self.level is None or _weigh(find_level(line.text)) >= _weigh(self.level))
            and (self.pattern is None or self.pattern.search(line.text) is not None)
        )


def find_level(text: str) -> str | None:
    """The level that a line of a log names near its beginning; None where it names none."""
    found = _LEVEL.search(text, 0, _LEVEL_WITHIN)
    return None if found is None else _LEVEL_NAMES.get(found[0], found[0])


def _weigh(level: str | None) -> int:
    return -1 if level is None else LEVELS.index(level)


@dataclass(frozen=True, slots=True)
class FoundLines:
    """`lines` in order. `before`: where to read on towards the beginning; None where nothing is.
    Of a search: how many lines it has looked at, how many of them hold the text, and whether these
    are all, or it came to its limit."""

    lines: Sequence[PrintedLine]
    before: LinePosition | None
    searched: int = 0
    matched: int = 0
    is_whole: bool = True


def last_lines(
    rt: Runtime, execution_id: str, where: LogFilter, limit: int, before: LinePosition | None = None
) -> FoundLines:
    """The last `limit` lines, or fewer where they are long; with `before`, of those before it."""
    shown = _Page(limit)
    for lines in _read_back(rt, execution_id, where, before):
        for line in reversed(lines):
            if shown.is_full:
                return FoundLines(shown.lines, shown.lines[0].position)
            shown.add(line)
    return FoundLines(shown.lines, None)


def search_lines(
    rt: Runtime,
    execution_id: str,
    where: LogFilter,
    wanted: LineFilter,
    limit: int,
    before: LinePosition | None = None,
    most: int = MOST_SEARCHED,
) -> FoundLines:
    """The last `limit` lines that are `wanted`. All are counted, of the last `most` characters."""
    shown, chars, searched, matched = _Page(limit), 0, 0, 0
    for lines in _read_back(rt, execution_id, where, before):
        searched += len(lines)
        for line in reversed(lines):
            chars += len(line.text)
            if wanted.admits(line):
                matched += 1
                shown.add(line)
        if chars >= most and lines:
            return FoundLines(
                shown.lines, _read_on(shown, matched, lines[0]), searched, matched, is_whole=False
            )
    return FoundLines(shown.lines, _read_on(shown, matched, None), searched, matched)


def make_pattern(text: str) -> re.Pattern[str]:
    """What finds `text` as it stands there, in capitals or not."""
    return re.compile(re.escape(text), re.IGNORECASE)


def read_lines(rt: Runtime, execution_id: str, where: LogFilter, wanted: LineFilter) -> Iterator[PrintedLine]:
    """All lines that are `wanted`, from the first one on, in the order in which pages have them:
    as of now."""
    return (line for line in _split(_read_on_chunks(rt, execution_id, where)) if wanted.admits(line))


def _read_on_chunks(rt: Runtime, execution_id: str, where: LogFilter) -> Iterator[LogChunk]:
    after: int | None = 0
    while after is not None:
        found = page(rt, execution_id, where, after)
        yield from found.chunks
        after = found.next


class _Page:
    """The last lines, as they come from the end."""

    def __init__(self, limit: int) -> None:
        self.lines = deque[PrintedLine]()
        self._limit = limit
        self._chars = 0

    @property
    def is_full(self) -> bool:
        return len(self.lines) >= self._limit or self._chars >= PAGE_CHARS

    def add(self, line: PrintedLine) -> None:
        """Takes one more in front of the others, unless it is full."""
        if not self.is_full:
            self.lines.appendleft(line)
            self._chars += min(len(line.text), LONGEST_LINE)


def _read_on(page: _Page, matched: int, reached: PrintedLine | None) -> LinePosition | None:
    """Behind a search: before the lines that are shown, where others match, else before those that
    were looked at."""
    if matched > len(page.lines):
        return page.lines[0].position
    return None if reached is None else reached.position


# --- reading --------------------------------------------------------------------------------------


def _read_back(
    rt: Runtime, execution_id: str, where: LogFilter, before: LinePosition | None
) -> Iterator[list[PrintedLine]]:
    """Lines in order, the last ones first: as many at a time as some rows have."""
    seq = None if before is None else before.seq + 1
    while True:
        with rt.store.read() as tx:
            tail = _keep_few_blocks(tx.logs.tail(execution_id, where, _ROWS, seq))
            if not tail:
                return
            first = tail[0].seq
            # Those around come with them: blocks that begin earlier and go on here.
            rows = tx.logs.read(execution_id, where, first - 1, len(tail))
        chunks = (one for one in merge(rows, rt.load, first - 1) if seq is None or one.seq < seq)
        yield [one for one in _split(chunks) if before is None or one.position < before]
        seq = first


def _keep_few_blocks(rows: Sequence[LogRow]) -> Sequence[LogRow]:
    blocks = [at for at, row in enumerate(rows) if row.ref is not None]
    return rows[blocks[-_BLOCKS] :] if len(blocks) > _BLOCKS else rows


def _split(chunks: Iterator[LogChunk]) -> Iterator[PrintedLine]:
    """The lines of chunks, each where it ends: many tasks may print at once. What nothing has ended
    comes last."""
    open_lines: dict[tuple[LogPosition, Stream], tuple[str, PrintedLine]] = {}
    for chunk in chunks:
        key = (chunk.place, chunk.stream)
        before, _ = open_lines.pop(key, ("", None))
        *whole, rest = chunk.text.split("\n")
        for number, text in enumerate(whole):
            yield _make_line(chunk, number, before + text)
            before = ""
        if before or rest:
            open_lines[key] = (before + rest, _make_line(chunk, len(whole), before + rest))
    yield from sorted((line for _, line in open_lines.values()), key=lambda line: line.position)


def _make_line(chunk: LogChunk, number: int, text: str) -> PrintedLine:
    shown = _ESCAPE.sub("", text) if "\x1b" in text else text
    position = LinePosition(chunk.seq, number)
    return PrintedLine(position, chunk.place, chunk.stream, chunk.recorded_at, shown.removesuffix("\r"))
