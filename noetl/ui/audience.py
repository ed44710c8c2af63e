"""How many listen to news at once: the more, the more rarely all of them are told to look again."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class NewsAudience:
    """The streams of one application that are open."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.count = 0

    @contextmanager
    def joined(self) -> Iterator[None]:
        """One more, for as long as the block runs."""
        with self._lock:
            self.count += 1
        try:
            yield
        finally:
            with self._lock:
                self.count -= 1
