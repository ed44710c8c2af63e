"""Filters that read, compute and write instants and durations, and what these have behind a dot."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, timedelta
from typing import Any, Final

from noetl.expressions.instants import duration, format_instant, instant, span, timestamp
from noetl.expressions.limits import Broken, Meter
from noetl.facts.durations import iso_duration

#: Attributes of Python's own that are data: the others ask for the machine's zone, its locale or
#: its clock.
_PARTS: Final = frozenset({"year", "month", "day", "hour", "minute", "second", "microsecond"})
_PARTS_OF_DURATIONS: Final = frozenset({"days", "seconds", "microseconds"})


def _to_datetime(run: Meter, value: Any, format: str | None = None, tz: str = "UTC") -> datetime:
    run.work(1)
    _check_text("tz", tz)
    if format is not None:
        _check_text("format", format)
    return instant(value, tz, format)


def _strftime(run: Meter, value: Any, format: str, tz: str | None = None) -> str:
    _check_text("format", format)
    if tz is not None:
        _check_text("tz", tz)
    text = format_instant(instant(value, tz), format)
    run.text(len(text))
    return text


def _check_text(name: str, value: Any) -> None:
    if not isinstance(value, str):
        raise Broken(f"has a `{name}` that is no text")


def _to_timestamp(run: Meter, value: Any, tz: str = "UTC") -> int | float:
    run.work(1)
    _check_text("tz", tz)
    return timestamp(instant(value, tz))


def _timedelta(run: Meter, value: Any = 0, **parts: float) -> timedelta:
    run.work(1)
    try:
        return duration(value) + span(**parts)
    except OverflowError as error:
        raise Broken("makes a duration that is too long") from error


TIME_FILTERS: Final[Mapping[str, Any]] = {
    "strftime": _strftime,
    "timedelta": _timedelta,
    "to_datetime": _to_datetime,
    "to_timestamp": _to_timestamp,
}

#: Methods, by the names that Python gives them.
OF_INSTANTS: Final[Mapping[str, Any]] = {
    "isoformat": lambda _, value: value.isoformat(),
    "isoweekday": lambda _, value: value.isoweekday(),
    "strftime": _strftime,
    "timestamp": _to_timestamp,
    "weekday": lambda _, value: value.weekday(),
}
OF_DURATIONS: Final[Mapping[str, Any]] = {
    "isoformat": lambda _, value: iso_duration(value),
    "total_seconds": lambda _, value: value.total_seconds(),
}


def part_of_time(value: date | timedelta, name: str) -> Any:
    """`value.name` where that is a number; None where it is not."""
    known = _PARTS if isinstance(value, date) else _PARTS_OF_DURATIONS
    return getattr(value, name, None) if name in known else None
