"""Pieces of output on their way into a transaction. What became of an earlier one may not be known:
the connection may have been lost behind a commit; and a crash of the database takes with it what
was committed without waiting for the disk, claims among it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

from noetl.facts.logs import LogFilter, LogPosition, Stream
from noetl.usecases.log_bounds import CommandLog, Piece
from noetl.usecases.ports import CommandRow, Transaction

#: A command and its delivery.
Key: TypeAlias = tuple[str, int]
#: The first byte of a chunk.
_Start: TypeAlias = tuple[LogPosition, Stream, int]
#: Rows among which those are looked for that are there already.
_LOOKED_AT: Final = 10_000


@dataclass(slots=True)
class LogBatch:
    """What of a command's output is written in one transaction: the pieces, and the numbers of
    their rows."""

    key: Key
    output: CommandLog
    pieces: list[Piece]
    seqs: Sequence[int] = ()

    @property
    def is_written(self) -> bool:
        return len(self.seqs) == len(self.pieces)

    def write(self, tx: Transaction) -> None:
        """Locks the execution, and writes it."""
        if all(piece.attempt.is_stored for piece in self.pieces):
            tx.executions.lock(self.output.execution_id)
        elif not _lock_claim(tx, self.output.command):
            self.pieces = []
        self.into(tx)

    def into(self, tx: Transaction) -> None:
        """Writes what is not there yet. Needs the lock of the execution."""
        known = self._find_rows(tx) if self.output.unsure else {}
        new = [piece for piece in self.pieces if _start_of(piece) not in known]
        chunks = [piece.chunk() for piece in new]
        added = tx.logs.add(self.output.execution_id, chunks) if chunks else []
        known |= zip(map(_start_of, new), added, strict=True)
        self.seqs = [known[_start_of(piece)] for piece in self.pieces]

    def _find_rows(self, tx: Transaction) -> dict[_Start, int]:
        """Those behind the last one that is known to be there."""
        command, after = self.output.command, self.output.last_seq
        rows = tx.logs.read(command.execution_id, LogFilter(run_id=command.run_id), after, _LOOKED_AT)
        return {(row.chunk.place, row.chunk.stream, row.chunk.offset): row.seq for row in rows}


def _start_of(piece: Piece) -> _Start:
    return piece.attempt.place, piece.stream, piece.offset


def _lock_claim(tx: Transaction, claimed: CommandRow) -> bool:
    """Locks the execution. Whether the claim stands, or did: of one that a crash has taken nothing
    is kept, as the next delivery has its number and its place in the log."""
    rows = tx.commands.lock(claimed.command_id)
    if rows is None:
        tx.executions.lock(claimed.execution_id)
        return True
    _, command = rows
    if command.attempt == claimed.attempt:
        return command.owner in (None, claimed.owner)
    return command.attempt > claimed.attempt
