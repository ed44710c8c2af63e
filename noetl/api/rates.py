"""How many requests a token may make: counted in each server process by itself."""

from __future__ import annotations

import math
import time
from functools import cached_property, lru_cache

from limits import RateLimitItemPerSecond
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from noetl.errors import TooManyRequests
from noetl.facts.rates import parse_rate
from noetl.usecases.access import Principal


class TokenRates:
    """Counts the requests of tokens that have a rate."""

    @cached_property
    def _limiter(self) -> SlidingWindowCounterRateLimiter:
        # Made when it is needed: it has a thread, which does not survive a fork.
        return SlidingWindowCounterRateLimiter(MemoryStorage())

    def count(self, principal: Principal) -> None:
        """Counts one request. Raises TooManyRequests where that is one too many."""
        if principal.rate is None or principal.token_id is None:
            return
        item = _item(principal.rate)
        if self._limiter.hit(item, principal.token_id):
            return
        again_at = self._limiter.get_window_stats(item, principal.token_id).reset_time
        seconds = max(1, math.ceil(again_at - time.time()))
        raise TooManyRequests(
            f"Token {principal.token_id} may make {principal.rate} requests; wait {seconds} s.", seconds
        )


@lru_cache(maxsize=256)
def _item(text: str) -> RateLimitItemPerSecond:
    """The rate as the library has it, which counts whole seconds."""
    rate = parse_rate(text)
    seconds = max(1, math.ceil(rate.per_s))
    return RateLimitItemPerSecond(max(1, int(rate.limit * seconds / rate.per_s)), seconds)
