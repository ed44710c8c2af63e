"""How many requests a token may make, and how many calls addresses may get: counted in each server
process by itself."""

from __future__ import annotations

import math
import threading
import time
from typing import TYPE_CHECKING

from noetl.errors import TooManyRequests
from noetl.facts.rates import parse_rate
from noetl.usecases.access import Principal

if TYPE_CHECKING:
    from limits.strategies import SlidingWindowCounterRateLimiter


class TokenRates:
    """Counts the requests of tokens that have a rate. Thread-safe."""

    def __init__(self) -> None:
        self._made: SlidingWindowCounterRateLimiter | None = None
        self._lock = threading.Lock()

    def count(self, principal: Principal) -> None:
        """Counts one request. Raises TooManyRequests where that is one too many."""
        if principal.rate is None or principal.token_id is None:
            return
        seconds = self._wait_s(principal.rate, principal.token_id)
        if seconds:
            raise TooManyRequests(
                f"Token {principal.token_id} may make {principal.rate} requests; wait {seconds} s.", seconds
            )

    def count_one(self, rate: str, key: str, what: str) -> None:
        """Counts one call of `what` under `key`. Raises TooManyRequests where that is one too
        many."""
        seconds = self._wait_s(rate, key)
        if seconds:
            raise TooManyRequests(f"There were too many calls of {what}; wait {seconds} s.", seconds)

    def _wait_s(self, text: str, key: str) -> int:
        """Counts one request; 0, or after how many seconds it may be made."""
        from limits import RateLimitItemPerSecond  # see `_limiter`

        rate = parse_rate(text)
        # The library counts whole seconds.
        window = max(1, math.ceil(rate.per_s))
        item = RateLimitItemPerSecond(max(1, int(rate.limit * window / rate.per_s)), window)
        limiter = self._limiter()
        if limiter.hit(item, key):
            return 0
        again_at = limiter.get_window_stats(item, key).reset_time
        return max(1, math.ceil(again_at - time.time()))

    def _limiter(self) -> SlidingWindowCounterRateLimiter:
        with self._lock:
            if self._made is None:
                # Imported here: it takes 100 ms, and most tokens have no rate.
                from limits.storage import MemoryStorage
                from limits.strategies import SlidingWindowCounterRateLimiter

                self._made = SlidingWindowCounterRateLimiter(MemoryStorage())
            return self._made
