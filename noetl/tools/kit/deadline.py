"""A timer that ends a blocking call from outside: drivers that cannot be interrupted otherwise."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from types import TracebackType

#: Longest time that a timer can be set to (a year), in seconds.
_LONGEST = 31_536_000.0


class Watchdog:
    """Calls `bark` once, from its own thread, unless the block is left within `seconds`.

    `fired` tells afterwards. Once the block is left, `bark` neither runs nor will run. It must not raise.
    """

    def __init__(self, seconds: float, bark: Callable[[], None]) -> None:
        self.seconds = min(max(seconds, 0.0), _LONGEST)
        self.fired = False
        self._bark = bark
        self._lock = threading.Lock()
        self._over = False
        self._ends = time.monotonic() + self.seconds
        self._timer = threading.Timer(self.seconds, self._fire)
        self._timer.daemon = True

    def left(self) -> float:
        """Seconds until it fires; not below zero."""
        return max(self._ends - time.monotonic(), 0.0)

    def __enter__(self) -> Watchdog:
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._lock:
            self._over = True
        self._timer.cancel()

    def _fire(self) -> None:
        with self._lock:
            if not self._over:
                self.fired = True
                self._bark()
