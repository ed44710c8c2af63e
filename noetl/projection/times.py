"""Lengths of time between what was recorded."""

from __future__ import annotations

from datetime import datetime


def milliseconds(begin: str, end: datetime) -> float:
    """From `begin` (ISO 8601) to `end`, to the microsecond."""
    return round((end - datetime.fromisoformat(begin)).total_seconds() * 1000, 3)
