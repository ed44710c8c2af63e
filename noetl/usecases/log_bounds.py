"""How much of what an attempt prints is kept, and where: no I/O, only what is counted.

The first and the last `INLINE` bytes of an attempt are rows of the store. What lies between them
goes to the result store in blocks, up to `MOST` bytes; then it is dropped, and a note says how
much.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from typing import Final

from noetl.facts.logs import LogChunk, LogPosition, Stream
from noetl.usecases.ports import CommandRow

#: Bytes at the beginning, and at the end, of an attempt that stay rows of the store.
INLINE: Final = 256 * 1024
#: Bytes beyond those that are gathered before they leave it together.
BLOCK: Final = 1024 * 1024
#: Bytes of an attempt that are kept by reference.
MOST: Final = 64 * 1024 * 1024
#: Bytes of one chunk, about: more begin another one.
CHUNK: Final = 64 * 1024
#: What is said in the place of what is missing.
NOTE: Final = "[{:,} bytes are missing here: of what an attempt prints, at most {:,} bytes are kept]\n"


@dataclass(slots=True, eq=False)
class Piece:
    """Text on its way to the store. `lost` bytes are missing in its place."""

    attempt: PrintedAttempt
    stream: Stream
    offset: int
    at: datetime
    size: int = 0
    parts: list[str] = field(default_factory=list)
    lost: int = 0
    #: It may be in the store as it is.
    sealed: bool = False

    def goes_on(self, attempt: PrintedAttempt, stream: Stream, size: int) -> bool:
        """Whether `size` bytes more of that stream belong to it."""
        fits = self.size + size <= CHUNK and not self.sealed
        return self.attempt is attempt and self.stream == stream and fits

    def chunk(self) -> LogChunk:
        text = "".join(self.parts) if self.stream != "note" else NOTE.format(self.lost, self.attempt.most)
        return LogChunk(self.attempt.place, self.stream, self.offset, text, self.at)


@dataclass(frozen=True, slots=True)
class Stored:
    """A row of the store that may leave it."""

    chunk: LogChunk
    last_seq: int
    size: int
    lost: int = 0


@dataclass(slots=True, eq=False)
class PrintedAttempt:
    """What one call has printed so far. `rows` are those of the store behind its first `INLINE`
    bytes."""

    place: LogPosition
    most: int = MOST
    offsets: dict[Stream, int] = field(default_factory=dict)
    first: int = 0
    kept: int = 0
    ended: bool = False
    rows: deque[Stored] = field(default_factory=deque)
    inline: int = 0

    def add_row(self, piece: Piece, seq: int) -> None:
        """The piece has become row `seq`."""
        if self.first < INLINE and not piece.lost:
            self.first += piece.size
            return
        self.rows.append(Stored(replace(piece.chunk(), seq=seq), seq, piece.size, piece.lost))
        self.inline += piece.size

    @property
    def is_stored(self) -> bool:
        """Whether something of it is known to be in the store."""
        return bool(self.first or self.rows or self.kept)

    @property
    def full(self) -> bool:
        """Whether no more of it is kept by reference."""
        return self.kept >= self.most

    def excess(self) -> Sequence[Stored]:
        """The oldest rows that should leave the store now; the last one never does."""
        over = self.inline - INLINE
        if over <= 0 or not (over >= BLOCK or self.ended or self.full):
            return ()
        found = list[Stored]()
        for row in islice(self.rows, len(self.rows) - 1):
            if over < row.size or sum(one.size for one in found) >= BLOCK:
                break
            found.append(row)
            over -= row.size
        # A note by itself stands where it should.
        return found if any(row.size for row in found) else ()

    def forget_rows(self, rows: Sequence[Stored]) -> None:
        """They have left the store."""
        for _ in rows:
            self.inline -= self.rows.popleft().size

    def note(self, rows: Sequence[Stored]) -> Stored:
        """What stands in the place of rows that are dropped."""
        lost = sum(row.lost or row.size for row in rows)
        chunk = replace(rows[0].chunk, stream="note", text=NOTE.format(lost, self.most))
        return Stored(chunk, rows[-1].last_seq, 0, lost)


@dataclass(slots=True)
class CommandLog:
    """What one delivery of a `command` has printed, and the store does not have yet. One call
    prints at a time. `unsure`: pieces may be in the store, in rows behind `last_seq`."""

    command: CommandRow
    pieces: deque[Piece] = field(default_factory=deque)
    pending: int = 0
    attempts: list[PrintedAttempt] = field(default_factory=list)
    unsure: bool = False
    last_seq: int = 0

    @property
    def execution_id(self) -> str:
        return self.command.execution_id

    def add(self, attempt: PrintedAttempt, stream: Stream, text: str, at: datetime) -> int:
        """Takes a text of `attempt`; its bytes."""
        size = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
        offset = attempt.offsets.get(stream, 0)
        attempt.offsets[stream] = offset + size
        last = self.pieces[-1] if self.pieces else None
        if last is None or not last.goes_on(attempt, stream, size):
            last = Piece(attempt, stream, offset, at)
            self.pieces.append(last)
        last.parts.append(text)
        last.size += size
        self.pending += size
        if attempt.full:
            self.drop(INLINE)
        return size

    def drop(self, room: int) -> None:
        """Drops the oldest of what waits, but for about `room` bytes; a note stays in its place."""
        if self.pending <= room:
            return
        lost, first = 0, self.pieces[0]
        while self.pending > room and len(self.pieces) > 1:
            piece = self.pieces.popleft()
            self.pending -= piece.size
            lost += piece.lost or piece.size
        if lost:
            self.pieces.appendleft(Piece(first.attempt, "note", first.offset, first.at, lost=lost))

    def take(self) -> list[Piece]:
        """All that waits."""
        found, self.pieces, self.pending = list(self.pieces), deque(), 0
        return found

    def keep(self, pieces: Sequence[Piece], seqs: Sequence[int]) -> None:
        """They are the rows `seqs` of the store."""
        for piece, seq in zip(pieces, seqs, strict=True):
            piece.attempt.add_row(piece, seq)
        self.unsure, self.last_seq = False, max(seqs, default=self.last_seq)

    def give_back(self, pieces: Sequence[Piece]) -> None:
        """They have not been stored after all, as far as is known."""
        self.unsure = True
        for piece in pieces:
            piece.sealed = True
        self.pieces.extendleft(reversed(pieces))
        self.pending += sum(piece.size for piece in pieces)

    def settle(self) -> bool:
        """Forgets attempts that are done with. Whether nothing is left of the command's output."""
        waiting = {id(piece.attempt) for piece in self.pieces}
        self.attempts = [one for one in self.attempts if not one.ended or id(one) in waiting or one.excess()]
        return not self.pieces and not self.attempts
