"""The commands that one process has at hand: in the queue of its workers, at work, or waiting for
another try."""

from __future__ import annotations

import itertools
import queue
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable

from noetl.usecases.ports import CommandRow


class WorkQueue:
    """Those with the lowest number as priority are taken first. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._queue: queue.PriorityQueue[tuple[int, int, CommandRow | None]] = queue.PriorityQueue()
        self._numbers = itertools.count()
        self._later: list[tuple[float, CommandRow]] = []
        self._at_hand = Counter[str]()
        self._lock = threading.Lock()

    def put(self, row: CommandRow) -> None:
        self._count(row, 1)
        self._enqueue(row)

    def put_later(self, row: CommandRow, delay_s: float) -> None:
        """Has `put_due` put it, once so many seconds have passed."""
        self._count(row, 1)
        with self._lock:
            self._later.append((self._clock() + delay_s, row))

    def put_due(self) -> None:
        """Puts what has waited for its time."""
        now = self._clock()
        with self._lock:
            due = [row for at, row in self._later if at <= now]
            self._later = [(at, row) for at, row in self._later if at > now]
        for row in due:
            self._enqueue(row)

    def take(self) -> CommandRow | None:
        """Waits for the next one, which is at hand until it is `done`; None: there will be no
        more."""
        return self._queue.get()[2]

    def done(self, row: CommandRow) -> None:
        """The work on what was taken has ended, however it did."""
        self._count(row, -1)

    def close(self, takers: int) -> None:
        """Lets so many takers go, before anything else that waits."""
        for _ in range(takers):
            self._queue.put((-1, next(self._numbers), None))

    def waiting(self) -> int:
        """How many wait to be taken."""
        return self._queue.qsize()

    def missing(self, rows: Iterable[CommandRow]) -> list[CommandRow]:
        """Those of `rows` that are not at hand."""
        with self._lock:
            return [row for row in rows if row.command_id not in self._at_hand]

    def _enqueue(self, row: CommandRow) -> None:
        self._queue.put((row.priority, next(self._numbers), row))

    def _count(self, row: CommandRow, change: int) -> None:
        with self._lock:
            self._at_hand[row.command_id] += change
            if not self._at_hand[row.command_id]:
                del self._at_hand[row.command_id]
