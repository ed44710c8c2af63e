"""What user code prints, in chunks: the data that its writers, tables and readers share."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias

from noetl.facts.json import Json, JsonMap

#: `note` is a line of NoETL's own among the others: how much is missing there.
Stream: TypeAlias = Literal["stdout", "stderr", "note"]
#: Takes what a call prints, without secrets, as it comes.
Log: TypeAlias = Callable[[Stream, str], None]


@dataclass(frozen=True, slots=True)
class LogPosition:
    """Who printed: an attempt of a task. `delivery` counts the workers that were given its command,
    from 1."""

    execution_id: str
    step: str
    run_id: str
    iteration: int | None
    task: str
    attempt: int
    delivery: int


@dataclass(frozen=True, slots=True)
class LogChunk:
    """A piece of text. `offset` is how many bytes its attempt had printed to that stream before;
    `seq` counts the chunks of the execution, from 1, once it is stored."""

    place: LogPosition
    stream: Stream
    offset: int
    text: str
    recorded_at: datetime
    seq: int = 0


@dataclass(frozen=True, slots=True)
class LogRow:
    """A row of the table: one chunk, or the chunks `seq` to `last_seq` of one attempt, which `ref`
    stands for."""

    chunk: LogChunk
    last_seq: int
    ref: JsonMap | None = None

    @property
    def seq(self) -> int:
        return self.chunk.seq


@dataclass(frozen=True, slots=True)
class LogFilter:
    """Which chunks of an execution are wanted; None: all."""

    step: str | None = None
    iteration: int | None = None
    attempt: int | None = None
    run_id: str | None = None

    def admits(self, place: LogPosition) -> bool:
        return (
            self.step in (None, place.step)
            and self.iteration in (None, place.iteration)
            and self.attempt in (None, place.attempt)
            and self.run_id in (None, place.run_id)
        )


def pack(chunk: LogChunk) -> Json:
    """A chunk in the list that a reference stands for: all such chunks have the same place."""
    return [chunk.seq, chunk.stream, chunk.offset, chunk.recorded_at.isoformat(), chunk.text]


def unpack(place: LogPosition, item: Json) -> LogChunk:
    seq, stream, offset, at, text = item
    return LogChunk(place, stream, offset, text, datetime.fromisoformat(at), seq)
