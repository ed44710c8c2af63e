"""Attempts of a task or of a whole execution: how many there are, and how long each one waits."""

from __future__ import annotations

from typing import Final

from noetl.errors import BadRequest
from noetl.facts.json import Json
from noetl.net.tasks import Backoff

#: Growing delays grow no further than this, unless the first is already longer.
LONGEST_GROWN_S: Final = 3600.0


def grow_delay(how: Backoff, delay: float, attempt: int) -> float:
    """Seconds to wait after attempt number `attempt` (from 1), before jitter."""
    match how:
        case "none":
            return 0.0
        case "fixed":
            return delay
        case "linear":
            grown = delay * attempt
        case "exponential":
            # 2.0 ** 1024 overflows; long before that the cap has been reached.
            grown = delay * 2.0 ** min(attempt - 1, 1000)
    return min(grown, max(delay, LONGEST_GROWN_S))


def read_attempts(value: Json) -> int:
    """The number of attempts that a template yielded, or a document says. Raises BadRequest."""
    text = value.strip() if isinstance(value, str) else value
    if isinstance(text, str) and text.isdecimal() and len(text) <= 9:
        text = int(text)
    if isinstance(text, float) and text.is_integer():
        text = int(text)
    if isinstance(text, bool) or not isinstance(text, int) or text < 1:
        raise BadRequest(f"'attempts' must be a whole number from 1, not {str(value)[:40]!r}.")
    return text
