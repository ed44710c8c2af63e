"""The time that an attempt has: one timeout over all calls of its tool and the waits between
them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Deadline:
    """`timeout` in seconds (None: as long as it takes), counted from `since` (UTC, ISO 8601)."""

    timeout: float | None
    since: str | None
    now: Callable[[], str] | None

    def left(self) -> float | None:
        """Seconds from now on, at least 0 and to the millisecond; None where there is no bound."""
        if self.timeout is None or self.since is None or self.now is None:
            return self.timeout
        spent = datetime.fromisoformat(self.now()) - datetime.fromisoformat(self.since)
        # A clock that was set back gives no more than the whole.
        return min(self.timeout, max(0.0, round(self.timeout - spent.total_seconds(), 3)))

    def has_some(self) -> bool:
        return self.left() != 0.0


def begun(timeout: float | None, since: str | None, now: Callable[[], str] | None) -> Deadline:
    """The time of an attempt whose tool was first called at `since`; now, where it was not called
    yet. Without a clock each call has the whole."""
    if timeout is None or now is None:
        return Deadline(timeout, None, None)
    return Deadline(timeout, since or now(), now)
