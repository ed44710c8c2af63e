"""What user code prints, on its way to the store: no commit for each line, and nothing where
nothing is printed.

What waits when a worker reports goes into the transaction of the report (`for_report`), so that
a reader who sees the end of a task sees what it printed. What a task prints while it runs is
written by a thread, at most twice a second or when there is much of it, in one transaction for all
attempts of the process. That waits for the disk: what follows a chunk that a crash of the database
has taken would be the edge of a hole.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Final

from noetl.errors import NoetlError
from noetl.facts.logs import LogPosition, LogRow, Stream, pack
from noetl.facts.reference import Retention
from noetl.pipeline.model import Call
from noetl.usecases.log_batches import Key, LogBatch
from noetl.usecases.log_bounds import MOST, CommandLog, PrintedAttempt, Stored
from noetl.usecases.ports import Clock, CommandRow, Results, Store

log = logging.getLogger(__name__)

#: Seconds between two transactions of the thread, and that it waits for more before the first one.
PAUSE_S: Final = 0.5
GATHER_S: Final = 0.05
#: Bytes of one command that are written at once, without waiting.
MUCH: Final = 512 * 1024
#: Bytes of one command that wait at most. Who prints faster waits, and for so many seconds at most.
ROOM: Final = 4 * 1024 * 1024
PATIENCE_S: Final = 5.0


class LogWriter:
    """One for each process that runs tools. Thread-safe. `most` bytes of an attempt are kept by
    reference."""

    def __init__(self, store: Store, results: Results, clock: Clock, most: int = MOST) -> None:
        self._store = store
        self._results = results
        self._clock = clock
        self._most = most
        self._outputs: dict[Key, CommandLog] = {}
        #: Commands of which something is on its way to the store.
        self._busy: set[Key] = set()
        self._changed = threading.Condition()
        self._hurry = threading.Event()
        self._thread: threading.Thread | None = None
        self._stopping = False

    # --- what prints ------------------------------------------------------------------------------

    def begin(self, command: CommandRow, call: Call) -> PrintedAttempt:
        """The first text of a call is about to come."""
        where, key = call.where, (command.command_id, command.attempt)
        place = LogPosition(
            where.execution_id,
            where.step,
            where.run_id,
            where.iteration,
            call.task,
            call.attempt,
            command.attempt,
        )
        attempt = PrintedAttempt(place, self._most)
        with self._changed:
            output = self._outputs.setdefault(key, CommandLog(command))
            output.attempts.append(attempt)
        return attempt

    def write(self, command: CommandRow, attempt: PrintedAttempt, stream: Stream, text: str) -> None:
        """Takes a text. Waits where the store is slower than who prints, and drops what it does not
        take."""
        key = (command.command_id, command.attempt)
        with self._changed:
            output = self._outputs.setdefault(key, CommandLog(command))
            output.add(attempt, stream, text, self._clock())
            self._awake()
            if output.pending >= MUCH:
                self._hurry.set()
            if output.pending > ROOM and not self._changed.wait_for(
                lambda: output.pending <= ROOM, PATIENCE_S
            ):
                output.drop(ROOM // 2)

    def end(self, command: CommandRow, attempt: PrintedAttempt) -> None:
        """The call has ended."""
        with self._changed:
            attempt.ended = True
            self._forget((command.command_id, command.attempt))
            if attempt.rows:
                self._awake()

    # --- reports ----------------------------------------------------------------------------------

    @contextmanager
    def for_report(self, command: CommandRow) -> Iterator[LogBatch | None]:
        """What the command has printed, to be written in a transaction inside of the block. What is
        not written there, or not committed, is written later by the thread."""
        key = (command.command_id, command.attempt)
        if key not in self._outputs:
            yield None
            return
        with self._changed:
            # What was taken before is committed before, or the order would not be that of the
            # texts.
            self._changed.wait_for(lambda: key not in self._busy, PATIENCE_S)
            batch = None if key in self._busy else self._take_of(key)
        if batch is None:
            yield None
            return
        committed = False
        try:
            yield batch
            committed = batch.is_written
        finally:
            self._settle(batch, committed)

    def _take_of(self, key: Key) -> LogBatch | None:
        """What waits of the command. Under the lock."""
        output = self._outputs.get(key)
        if output is None or not output.pieces:
            return None
        self._busy.add(key)
        return LogBatch(key, output, output.take())

    def _settle(self, batch: LogBatch, committed: bool) -> None:
        with self._changed:
            if committed:
                batch.output.keep(batch.pieces, batch.seqs)
            else:
                batch.output.give_back(batch.pieces)
                self._awake()
            self._busy.discard(batch.key)
            self._forget(batch.key)
            self._changed.notify_all()

    def _forget(self, key: Key) -> None:
        """Keeps nothing of commands that are done with. Under the lock."""
        output = self._outputs.get(key)
        if output is not None and key not in self._busy and output.settle():
            del self._outputs[key]

    # --- the thread -------------------------------------------------------------------------------

    def _awake(self) -> None:
        """Starts the thread where there is none. Under the lock."""
        if (self._thread is None or not self._thread.is_alive()) and not self._stopping:
            self._thread = threading.Thread(target=self._work, name="noetl-logs", daemon=True)
            self._thread.start()
        self._changed.notify_all()

    def _work(self) -> None:
        ended = 0.0
        while not self._stopping:
            with self._changed:
                self._changed.wait_for(lambda: self._stopping or self._is_due())
            # Much of it does not wait; a little waits for more, and for the end of the pause.
            self._hurry.wait(max(GATHER_S, ended + PAUSE_S - time.monotonic()))
            self._hurry.clear()
            went_well = self.flush()
            ended = time.monotonic() + (0.0 if went_well else PATIENCE_S)

    def _is_due(self) -> bool:
        return any(
            output.pieces or any(one.excess() for one in output.attempts) for output in self._outputs.values()
        )

    def flush(self) -> bool:
        """Writes what waits, and moves what is too much. False where the store does not take it."""
        batches = self._take()
        written = False
        try:
            if batches:
                with self._store.begin() as tx:
                    for batch in batches:
                        batch.write(tx)
            written = True
        except NoetlError as error:
            log.warning("What user code printed waits: %s", error)
        finally:
            for batch in batches:
                self._settle(batch, written)
        return written and self._move_excess()

    def _take(self) -> list[LogBatch]:
        with self._changed:
            free = [key for key in self._outputs if key not in self._busy]
            batches = [batch for key in free if (batch := self._take_of(key)) is not None]
        # Locks are taken in one order everywhere.
        return sorted(batches, key=lambda batch: int(batch.output.execution_id))

    def _move_excess(self) -> bool:
        with self._changed:
            found = [
                (key, output, attempt)
                for key, output in self._outputs.items()
                for attempt in output.attempts
                if attempt.excess()
            ]
        try:
            for key, output, attempt in found:
                while rows := attempt.excess():
                    self._move(output, attempt, rows)
                with self._changed:
                    self._forget(key)
        except NoetlError as error:
            log.warning("What user code printed stays where it is: %s", error)
            return False
        return True

    def _move(self, output: CommandLog, attempt: PrintedAttempt, rows: Sequence[Stored]) -> None:
        """From the rows of the store to the result store, or nowhere."""
        execution_id, seqs = output.execution_id, [row.chunk.seq for row in rows]
        note = attempt.note(rows) if attempt.full else None
        row = LogRow(note.chunk, note.last_seq) if note else self._block(execution_id, rows)
        with self._store.begin_async_commit() as tx:
            tx.executions.lock(execution_id)
            tx.logs.fold(execution_id, seqs, row)
        with self._changed:
            attempt.forget_rows(rows)
            if note is not None:
                attempt.rows.appendleft(note)
            else:
                attempt.kept += sum(one.size for one in rows)

    def _block(self, execution_id: str, rows: Sequence[Stored]) -> LogRow:
        ref = self._results.put([pack(row.chunk) for row in rows], Retention(execution_id))
        first = rows[0].chunk
        # The preview of the reference would show the beginning once more.
        short = {"kind": ref["kind"], "ref": ref["ref"]}
        chunk = type(first)(first.place, first.stream, first.offset, "", first.recorded_at, first.seq)
        return LogRow(chunk, rows[-1].last_seq, short)

    def close(self) -> None:
        """Writes what waits. Nothing is taken after that."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        self._hurry.set()
        if self._thread is not None:
            self._thread.join(PATIENCE_S)
        self.flush()
