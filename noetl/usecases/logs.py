"""Reading what user code printed: pages of it, and its end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

from noetl.errors import BadRequest, NotFound
from noetl.facts.logs import LogChunk, LogFilter, LogRow, unpack
from noetl.facts.reference import Load, load_value
from noetl.usecases import moment
from noetl.usecases.ports import ExecutionRow
from noetl.usecases.runtime import Runtime

#: Characters of text in one page, about.
PAGE_CHARS: Final = 1024 * 1024
#: What stands in the place of chunks whose object is gone.
GONE: Final = "[a part of this is gone from the result store]\n"


@dataclass(frozen=True, slots=True)
class PrintedPage:
    """Chunks of an execution in order, as of the moment at which it stood as `row` says. `next` is
    the number to read on behind; None where there were no more."""

    row: ExecutionRow
    chunks: Sequence[LogChunk]
    next: int | None

    @property
    def is_last(self) -> bool:
        """Whether nothing will come any more."""
        return self.next is None and self.row.is_over


def page(rt: Runtime, execution_id: str, where: LogFilter, after: int = 0, limit: int = 1000) -> PrintedPage:
    """Chunks behind number `after`. Raises NotFound."""
    with rt.store.read() as tx:
        row = moment.find(tx, execution_id)
        rows = tx.logs.read(execution_id, where, after, limit + 1)
    complete = len([one for one in rows if one.seq > after]) <= limit
    found, chars = list[LogChunk](), 0
    for chunk in merge(rows, rt.load, after):
        if len(found) >= limit or chars >= PAGE_CHARS or not (complete or chunk.seq <= rows[-1].seq):
            complete = False
            break
        found.append(chunk)
        chars += len(chunk.text)
    return PrintedPage(row, found, None if complete else found[-1].seq)


def merge(rows: Sequence[LogRow], load: Load, after: int) -> Iterator[LogChunk]:
    """The chunks that rows stand for, in order. An object is loaded when its first chunk is due."""
    waiting: list[tuple[int, LogChunk]] = []
    for row in rows:
        while waiting and waiting[0][0] < row.seq:
            yield heappop(waiting)[1]
        for chunk in _chunks(row, load):
            if chunk.seq > after:
                heappush(waiting, (chunk.seq, chunk))
    while waiting:
        yield heappop(waiting)[1]


def _chunks(row: LogRow, load: Load) -> list[LogChunk]:
    if row.ref is None:
        return [row.chunk]
    place = row.chunk.place
    try:
        return [unpack(place, item) for item in load_value(row.ref, load)]
    except (NotFound, BadRequest):
        return [LogChunk(place, "note", row.chunk.offset, GONE, row.chunk.recorded_at, row.last_seq)]


def end(rt: Runtime, execution_id: str, where: LogFilter, lines: int) -> PrintedPage:
    """The chunks that hold the last `lines` lines, or more. Raises NotFound."""
    with rt.store.read() as tx:
        row = moment.find(tx, execution_id)
        rows = tx.logs.tail(execution_id, where, 2 * lines)
    return PrintedPage(row, [one.chunk for one in rows if one.ref is None], None)


def last_lines(rt: Runtime, execution_id: str, where: LogFilter, lines: int) -> list[str]:
    """The last lines that were printed, whatever the stream; none where nothing was. Raises
    NotFound."""
    chunks = end(rt, execution_id, where, lines).chunks
    return "".join(chunk.text for chunk in chunks).splitlines()[-lines:]
