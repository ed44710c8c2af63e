"""The end of what a run of a step, or an iteration of it, has printed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from noetl.facts.logs import LogChunk, LogFilter, Stream
from noetl.facts.task_names import find_task_name
from noetl.ui.run.look import RunLook
from noetl.usecases import logs


@dataclass(frozen=True, slots=True)
class PrintedPart:
    """Lines that one task printed one behind the other to one stream."""

    stream: Stream
    task: str
    iteration: int | None
    delivery: int
    text: str

    @property
    def place(self) -> str:
        """Who printed it."""
        parts = [
            find_task_name(self.task),
            f"iteration {self.iteration}" if self.iteration is not None else "",
            f"delivery {self.delivery}" if self.delivery > 1 else "",
        ]
        return ", ".join(filter(None, parts))


@dataclass(frozen=True, slots=True)
class PrintedEnd:
    """The last lines, and whether there were more."""

    parts: Sequence[PrintedPart]
    is_cut: bool


def read_end(look: RunLook, run: str, lines: int) -> PrintedEnd:
    """The last `lines` lines of the run, as they are now: what was printed has no versions."""
    where = LogFilter(step=look.step, iteration=look.iteration, run_id=run)
    chunks = logs.end(look.visitor.rt, look.execution_id, where, lines).chunks
    every = list(_lines(chunks))
    return PrintedEnd(list(_join(every[-lines:])), len(every) > lines)


def _lines(chunks: Sequence[LogChunk]) -> Iterator[tuple[LogChunk, str]]:
    for chunk in chunks:
        yield from ((chunk, line) for line in chunk.text.splitlines(keepends=True))


def _join(lines: Sequence[tuple[LogChunk, str]]) -> Iterator[PrintedPart]:
    text, last = "", None
    for chunk, line in lines:
        key = (chunk.stream, chunk.place.task, chunk.place.iteration, chunk.place.delivery)
        if last is not None and key != last:
            yield PrintedPart(*last, text)
            text = ""
        text, last = text + line, key
    if last is not None:
        yield PrintedPart(*last, text)
