"""Ends calls that run in this process from outside, at their deadline or at a cancellation: drivers
that cannot be interrupted otherwise."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from types import TracebackType

from noetl.errors import ToolError
from noetl.facts.durations import compact
from noetl.pipeline.model import Call

#: Seconds until a call that was ended and still runs is ended again.
AGAIN_S = 0.5
#: Longest time that a timer can be set to (a year), in seconds.
_LONGEST = 31_536_000.0


class Watchdog:
    """Calls `bark` once, from its own thread, unless the block is left within `seconds`.

    `fired` tells afterwards. Once the block is left, `bark` neither runs nor will run. It must not
    raise."""

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


class RunningCalls:
    """Every call that runs, so that `interrupt` finds it. Safe for threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stops: dict[int, StopSignal] = {}

    @contextlib.contextmanager
    def enter(self, call: Call) -> Iterator[StopSignal]:
        """For as long as the block runs `interrupt(call)` reaches the Stop."""
        stop = StopSignal()
        with self._lock:
            self._stops[id(call)] = stop
        try:
            yield stop
        finally:
            with self._lock:
                del self._stops[id(call)]

    def interrupt(self, call: Call) -> None:
        """Ends `call`, the very object, if it runs."""
        with self._lock:
            stop = self._stops.get(id(call))
        if stop is not None:
            stop.cancel()


class StopSignal:
    """How one call is ended from outside. `cancelled` and `late` tell why it was."""

    def __init__(self) -> None:
        self.cancelled = False
        self._dog: Watchdog | None = None
        self._bark: Callable[[], None] | None = None
        self._lock = threading.Lock()

    @property
    def late(self) -> bool:
        return self._dog is not None and self._dog.fired

    @property
    def pulled(self) -> bool:
        """Whether anything ended the call."""
        return self.cancelled or self.late

    @contextlib.contextmanager
    def watch(self, seconds: float, bark: Callable[[], None]) -> Iterator[None]:
        """Calls `bark` at the deadline or at a cancellation within the block, again and again until
        it is left: drivers forget an interrupt that comes between two statements. Raises
        ToolError(cancelled)."""
        with self._lock:
            self.refuse_cancelled()
            self._bark = bark
        try:
            with Watchdog(seconds, self._insist) as self._dog:
                yield
        finally:
            with self._lock:
                self._bark = None

    def cancel(self) -> None:
        with self._lock:
            self.cancelled = True
        self._insist()

    def _insist(self) -> None:
        with self._lock:
            if self._bark is None:
                return
            self._bark()
        again = threading.Timer(AGAIN_S, self._insist)
        again.daemon = True
        again.start()

    def refuse_cancelled(self) -> None:
        """Raises ToolError(cancelled) where the call was cancelled."""
        if self.cancelled:
            raise ToolError("cancelled", "The execution was cancelled while the call ran.", type="Cancelled")

    def why(self, error: ToolError, deadline_s: float) -> ToolError:
        """What `error`, which ended the call, is to its author: its deadline of `deadline_s` where
        that was the cause. Raises ToolError(cancelled)."""
        self.refuse_cancelled()
        if not self.late:
            return error
        return ToolError(
            "timeout",
            f"The command did not end within {compact(deadline_s)} and was interrupted; raise "
            "`spec.timeout`.",
            retryable=True,
            type="Interrupted",
        )
