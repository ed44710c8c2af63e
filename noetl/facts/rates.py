"""Rates: so many in such a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from noetl.facts.durations import seconds

_PERIODS: Final = {"second": 1.0, "minute": 60.0, "hour": 3600.0, "day": 86_400.0}
_MOST: Final = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `limit` in any `per_s` seconds."""

    limit: int
    per_s: float
    #: As it was written.
    text: str


def parse_rate(text: str) -> Rate:
    """The rate that `100/minute`, `10/s` or `5/30s` means. Raises ValueError, with a sentence that
    says what may be."""
    number, slash, period = text.strip().partition("/")
    per_s = _read_period(period.strip()) if slash else None
    if per_s is None or not number.strip().isascii() or not number.strip().isdecimal():
        raise ValueError(f"{text[:80]!r} is no rate; write it like 100/minute, 10/s or 5/30s.")
    limit = int(number.strip()[:12])
    if not 0 < limit <= _MOST or per_s <= 0:
        raise ValueError(f"{text[:80]!r} would let nothing pass, or everything.")
    return Rate(limit, per_s, text.strip())


def _read_period(text: str) -> float | None:
    if text in _PERIODS:
        return _PERIODS[text]
    try:
        return seconds(text if text[:1].isdigit() or text[:1] in "pP" else f"1{text}")
    except ValueError:
        return None
