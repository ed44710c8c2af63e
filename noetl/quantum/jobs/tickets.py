"""The right to send something, once, given to a process while it lives.

A checkpoint is in the log before anything is sent, but it does not tell the call that comes first from one that repeats it
after a crash. The ticket in it does: it is known to the process that wrote it, for a short time, and can be redeemed once.
Whoever meets a ticket that it cannot redeem has to find out first what somebody else may have sent.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from typing import Final

#: Seconds that a ticket is good for: a process that was stopped in the middle comes back to a worthless one.
LIFETIME_S: Final = 10.0


class Tickets:
    """Those of one process. Safe for threads."""

    def __init__(self, lifetime_s: float = LIFETIME_S, clock: Callable[[], float] = time.monotonic) -> None:
        self._lifetime_s = lifetime_s
        self._clock = clock
        self._lock = threading.Lock()
        self._good: dict[str, float] = {}

    def issue(self) -> str:
        ticket, now = secrets.token_hex(8), self._clock()
        with self._lock:
            self._good = {one: ends for one, ends in self._good.items() if ends > now}
            self._good[ticket] = now + self._lifetime_s
        return ticket

    def redeem(self, ticket: str) -> bool:
        """Whether it was issued here, not long ago, and not redeemed before."""
        with self._lock:
            return self._good.pop(ticket, 0.0) > self._clock()
