"""The queue of dead letters: a background thread writes them, so that no worker waits for the
database."""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from noetl.dispatch.fork_guard import ForkGuard
from noetl.errors import NoetlError

log = logging.getLogger(__name__)

#: Letters that wait for the database, at most.
ROOM: Final = 500

#: Letters that one process keeps in an hour: a flood must not fill the database. The log has them
#: all.
HOURLY: Final = 1000


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """Something that was on a broker and is no message: where, why not, and (the beginning of) what
    it is."""

    source: str
    reason: str
    body: str
    recorded_at: datetime


class DeadLetterQueue:
    """Writes letters in the background. `write` may raise NoetlError."""

    def __init__(self, write: Callable[[Sequence[DeadLetter]], None]) -> None:
        self._write = write
        self._hour, self._kept = 0, 0
        self._writing = ForkGuard(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._waiting: deque[DeadLetter] = deque()
        self._writer: threading.Thread | None = None

    def keep(self, letter: DeadLetter) -> None:
        """Never waits for the database and never raises."""
        with self._lock:
            if not self._admits():
                log.warning("A dead letter from %s was not kept: there are too many", letter.source)
                return
            self._waiting.append(letter)
            if self._writer is None or not self._writer.is_alive():
                self._writer = threading.Thread(target=self._work, name="dead letters", daemon=True)
                self._writer.start()

    def _admits(self) -> bool:
        hour = int(time.monotonic() // 3600)
        if hour != self._hour:
            self._hour, self._kept = hour, 0
        self._kept += 1
        return self._kept <= HOURLY and len(self._waiting) < ROOM

    def flush(self, seconds: float) -> None:
        """Waits for what is being written, for so long at most."""
        writer = self._writer
        if writer is not None and writer is not threading.current_thread():
            writer.join(seconds)

    def _work(self) -> None:
        while letters := self._next():
            try:
                with self._writing:
                    self._write(letters)
            except NoetlError as error:
                # What they are stands in the log since they were refused.
                log.error("%d dead letters could not be kept: %s", len(letters), error)  # noqa: TRY400

    def _next(self) -> list[DeadLetter]:
        """What waits. Nothing ends the thread."""
        with self._lock:
            letters = list(self._waiting)
            self._waiting.clear()
            if not letters:
                self._writer = None
            return letters
