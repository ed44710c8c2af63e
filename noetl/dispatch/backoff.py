"""How long what failed waits for its next try, and what has failed for too long."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from noetl.errors import tell_cause

#: Seconds until the second try, and at most between two of them.
FIRST_S: Final = 0.25
LONGEST_S: Final = 5.0
#: What has not been tried so often may only have waited for its turn.
LEAST_TRIES: Final = 5


@dataclass(frozen=True, slots=True)
class Failing:
    """What has failed `times` times one after another, from `since` to `last`, at last with
    `error`."""

    since: float
    last: float
    times: int
    error: str

    @property
    def delay_s(self) -> float:
        """Until it is tried again."""
        return min(LONGEST_S, FIRST_S * 2.0 ** (self.times - 1))


class Backoff:
    """By name what fails. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._failing: dict[str, Failing] = {}
        self._lock = threading.Lock()

    def failed(self, name: str, error: Exception) -> None:
        """It has failed once more."""
        now = self._clock()
        with self._lock:
            before = self._failing.get(name)
            since, times = (now, 1) if before is None else (before.since, before.times + 1)
            self._failing[name] = Failing(since, now, times, tell_cause(error))

    def succeeded(self, name: str) -> None:
        """It went well, or need not be done any more."""
        with self._lock:
            self._failing.pop(name, None)

    def delay(self, name: str) -> float:
        """Seconds until its next try; 0 where it has not failed."""
        with self._lock:
            failing = self._failing.get(name)
        return 0.0 if failing is None else failing.delay_s

    def find_failing(self, for_s: float) -> Failing | None:
        """What has failed all the time for so long, and longest."""
        with self._lock:
            failing = list(self._failing.values())
        stuck = [one for one in failing if one.times >= LEAST_TRIES and one.last - one.since >= for_s]
        return min(stuck, key=lambda one: one.since, default=None)
