"""Durations: one reading for delays, timeouts, timers and schedules, and their text in ISO 8601;
and instants that people write."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Final

from noetl.facts.json import Json

#: Longer than this (about ten years) is a mistake, and more than the clocks below can add.
LONGEST_S: Final = 315_576_000.0

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86_400.0, "w": 604_800.0}
_NUMBER: Final = r"[0-9]{1,18}(?:[.,][0-9]{1,18})?"
_PLAIN: Final = re.compile(rf"({_NUMBER})")
_PART: Final = re.compile(rf"({_NUMBER})\s*(ms|[smhdw])\s*", re.IGNORECASE)
_PARTS: Final = re.compile(f"(?:{_PART.pattern})+", re.IGNORECASE)
_ISO: Final = re.compile(
    rf"P(?:({_NUMBER})W)?(?:({_NUMBER})D)?(?:T(?:({_NUMBER})H)?(?:({_NUMBER})M)?(?:({_NUMBER})S)?)?",
    re.IGNORECASE,
)
_ISO_UNITS: Final = ("w", "d", "h", "m", "s")
#: What texts that `seconds` reads look like, for schemas: some that it does not read do, too.
LOOKS: Final = (
    r"^\s*(\d+([.,]\d+)?|(\d+([.,]\d+)?\s*([mM][sS]|[sSmMhHdDwW])\s*)+|[pP][0-9WDTHMSwdthms.,]+)\s*$"
)
_FORMS: Final = "a number of seconds, 500ms, 10s, 5m, 2h, 1d, or ISO 8601 such as PT5S"


def seconds(value: Json) -> float:
    """The seconds that `value` says: a number of seconds, `500ms`, `10s`, `5m`, `2h`, `1h30m`,
    `1d`, `PT5S`.

    Raises ValueError, with a sentence that says what was given and what may be, for anything else:
    negative, endless, or longer than ten years included.
    """
    amount = _amount(value)
    if amount is None:
        raise ValueError(f"{_describe(value)} is not a duration; write {_FORMS}.")
    if not 0.0 <= amount <= LONGEST_S:
        raise ValueError(f"{_describe(value)} is not a duration between zero and ten years.")
    return amount


def _amount(value: Json) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float | Decimal):
        # An integer of a thousand digits does not fit a float; it is far too long anyway.
        return math.inf if isinstance(value, int) and abs(value) > LONGEST_S else float(value)
    if not isinstance(value, str):
        return None
    text = value.strip()
    return _iso(text) if text[:1] in ("P", "p") else _plain(text)


def _plain(text: str) -> float | None:
    if match := _PLAIN.fullmatch(text):
        return _number(match[1])
    if _PARTS.fullmatch(text) is None:
        return None
    return sum(_number(number) * _UNITS[unit.lower()] for number, unit in _PART.findall(text))


def _iso(text: str) -> float | None:
    match = _ISO.fullmatch(text)
    if match is None or not any(match.groups()) or text[-1] in "Tt":
        return None
    parts = zip(match.groups(), _ISO_UNITS, strict=True)
    return sum(_number(number) * _UNITS[unit] for number, unit in parts if number)


def _number(text: str) -> float:
    return float(text.replace(",", "."))


def _describe(value: Json) -> str:
    text = repr(value) if isinstance(value, str | float | bool) or value is None else type(value).__name__
    if isinstance(value, int) and not isinstance(value, bool):
        text = str(value) if abs(value) < 10**18 else "An integer of that size"
    return text if len(text) <= 60 else f"{text[:57]}..."


def read_instant(text: str, now: datetime) -> datetime:
    """An instant in ISO 8601 (UTC unless it says otherwise), or how long ago it was: `-2h`. Raises
    ValueError and OverflowError."""
    if text.startswith("-"):
        return now - timedelta(seconds=seconds(text[1:]))
    at = datetime.fromisoformat(text)
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).astimezone(UTC)


def iso_duration(value: timedelta) -> str:
    """ISO 8601: `P1DT2H`, `PT0S`, `-PT0.5S`."""
    sign, rest = ("-", -value) if value < timedelta(0) else ("", value)
    hours, left = divmod(rest.seconds, 3600)
    minutes, whole = divmod(left, 60)
    fraction = f".{rest.microseconds:06}".rstrip("0") if rest.microseconds else ""
    parts = ((hours, f"{hours}H"), (minutes, f"{minutes}M"), (whole or fraction, f"{whole}{fraction}S"))
    days = f"{rest.days}D" if rest.days else ""
    clock = "".join(text for there, text in parts if there)
    return f"{sign}P{days}" + (f"T{clock}" if clock else "") if days or clock else "PT0S"


def compact(value: float) -> str:
    """Seconds in the units that `seconds` reads: `3d`, `1h 30m`, `2.5s`."""
    parts = []
    left = value
    for name, length in (("d", 86_400), ("h", 3_600), ("m", 60)):
        count, left = divmod(left, length)
        parts += [f"{count:.0f}{name}"] if count else []
    parts += [f"{left:g}s"] if left or not parts else []
    return " ".join(parts)
