"""Many requests for one thing become one call, made a moment after the first of them."""

from __future__ import annotations

import threading
from collections.abc import Callable

from noetl.dispatch.fork_guard import ForkGuard


class Debouncer:
    """Calls `answer` once for all requests of `pause_s` seconds, in a thread that lives only until
    then.

    Every request is followed by a call that begins after it. `answer` must not raise.
    """

    def __init__(self, answer: Callable[[], None], pause_s: float) -> None:
        self._answer, self._pause_s = answer, pause_s
        self._answering = ForkGuard(self._begin)

    def _begin(self) -> None:
        self._lock = threading.Lock()
        self._due = False

    def request(self) -> None:
        """Never waits for the answer."""
        with self._lock:
            if self._due:
                return
            self._due = True
        timer = threading.Timer(self._pause_s, self._call)
        timer.daemon = True
        timer.start()

    def _call(self) -> None:
        with self._answering:
            # First: a request that comes while we answer may be about what the answer did not see.
            with self._lock:
                self._due = False
            self._answer()
