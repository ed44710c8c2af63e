"""Durations: a number is seconds, else `500ms`, `10s`, `5m`, `2h`, `1d`, or ISO 8601 (`PT1M30S`)."""

from __future__ import annotations

import re
from typing import Final

_UNITS: Final = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3_600.0, "d": 86_400.0}
_SHORT = re.compile(r"([0-9]{1,12}(?:\.[0-9]{1,9})?)\s?(ms|s|m|h|d)?")
_ISO = re.compile(
    r"P(?:([0-9]{1,9})W)?(?:([0-9]{1,9})D)?"
    r"(?:T(?:([0-9]{1,9})H)?(?:([0-9]{1,9})M)?(?:([0-9]{1,9}(?:\.[0-9]{1,9})?)S)?)?"
)
_ISO_SECONDS: Final = (604_800.0, 86_400.0, 3_600.0, 60.0, 1.0)


def seconds(text: str) -> float | None:
    """The seconds that `text` stands for; None where it is no duration."""
    text = text.strip()
    short = _SHORT.fullmatch(text)
    if short is not None:
        return float(short.group(1)) * _UNITS[short.group(2) or "s"]
    iso = _ISO.fullmatch(text)
    if iso is None or not any(iso.groups()):
        return None
    return sum(float(n) * unit for n, unit in zip(iso.groups(), _ISO_SECONDS, strict=True) if n)
