"""How much waits: starts from outside are refused where that is too much.

Who refuses early keeps what is there moving: a start that waits for hours behind others helps
nobody, and the tables grow.
"""

from __future__ import annotations

import threading
from datetime import datetime, timedelta
from typing import Final

from noetl.errors import TooManyRequests
from noetl.usecases.ports import Store

#: For how long a count is good. What this process starts meanwhile is added to it.
KEEP: Final = timedelta(seconds=1)
#: Seconds after which who was refused may try again.
AGAIN_S: Final = 5


class Backlog:
    """Counts executions that owe a turn and commands that nobody has claimed, at most once a second
    in a process, and as far as it matters. Thread-safe."""

    def __init__(self) -> None:
        self._count = 0
        self._counted_at: datetime | None = None
        self._lock = threading.Lock()

    def admit(self, store: Store, now: datetime, most: int, starts: int = 1) -> None:
        """Lets so many starts pass. Raises TooManyRequests where more than `most` wait already; 0
        is no bound."""
        if not most:
            return
        with self._lock:
            if self._counted_at is None or not timedelta(0) <= now - self._counted_at < KEEP:
                self._count = _count(store, now, most)
                self._counted_at = now
            waiting = self._count
            if waiting <= most:
                self._count += starts
        if waiting > most:
            raise TooManyRequests(
                f"More than {most} executions and commands wait already (NOETL_BACKLOG); try again in "
                f"{AGAIN_S} s, or let more workers run.",
                AGAIN_S,
            )


def _count(store: Store, now: datetime, most: int) -> int:
    with store.read() as tx:
        return tx.commands.backlog(now, most + 1)
