"""Instants and durations inside of templates: read from text, written as text, and what zones say
of them.

Both are JSON texts at rest (ISO 8601) and Python's own types while an expression is computed. An
instant always has a fixed offset: what is added to it is time that passes, and it means what its
text says. Zones are those of the package `tzdata`, never the machine's; names of days and months
are English. Nothing here depends on a locale or a clock.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from functools import lru_cache
from importlib import resources
from typing import Any, Final, TypeVar
from zoneinfo import ZoneInfo

from noetl.expressions.limits import Broken, OverLimit
from noetl.facts.durations import seconds
from noetl.facts.nearest import did_you_mean

T = TypeVar("T")

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
OUTSIDE: Final = "yields an instant outside of the years 1 to 9999"
#: Characters of a format, and of an instant in text.
MAX_FORMAT: Final = 200

_DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June"),
    *("July", "August", "September", "October", "November", "December"),
)
_DIRECTIVE: Final = re.compile(r"%(-?)(.?)", re.DOTALL)


def _offset(at: datetime) -> str:
    minutes = (at.utcoffset() or timedelta(0)) // timedelta(minutes=1)
    return f"{'-' if minutes < 0 else '+'}{abs(minutes) // 60:02}{abs(minutes) % 60:02}"


#: What each directive of a format writes.
_WRITTEN: Final[Mapping[str, Callable[[datetime], str]]] = {
    "Y": lambda at: f"{at.year:04}",
    "y": lambda at: f"{at.year % 100:02}",
    "m": lambda at: f"{at.month:02}",
    "d": lambda at: f"{at.day:02}",
    "j": lambda at: f"{at.timetuple().tm_yday:03}",
    "H": lambda at: f"{at.hour:02}",
    "I": lambda at: f"{(at.hour - 1) % 12 + 1:02}",
    "p": lambda at: "AM" if at.hour < 12 else "PM",
    "M": lambda at: f"{at.minute:02}",
    "S": lambda at: f"{at.second:02}",
    "f": lambda at: f"{at.microsecond:06}",
    "z": _offset,
    "Z": lambda at: at.tzname() or "UTC",
    "A": lambda at: _DAYS[at.weekday()],
    "a": lambda at: _DAYS[at.weekday()][:3],
    "B": lambda at: _MONTHS[at.month - 1],
    "b": lambda at: _MONTHS[at.month - 1][:3],
    "u": lambda at: str(at.isoweekday()),
    "w": lambda at: str(at.isoweekday() % 7),
    "G": lambda at: f"{at.isocalendar().year:04}",
    "V": lambda at: f"{at.isocalendar().week:02}",
    "F": lambda at: at.date().isoformat(),
    "T": lambda at: at.strftime("%H:%M:%S"),
    "s": lambda at: str((at - EPOCH) // timedelta(seconds=1)),
    "%": lambda _: "%",
}
#: What each directive reads. The groups are given to `_parse_as`.
_READ: Final[Mapping[str, str]] = {
    "Y": r"(?P<Y>\d{4})",
    "m": r"(?P<m>\d{1,2})",
    "d": r"(?P<d>\d{1,2})",
    "H": r"(?P<H>\d{1,2})",
    "I": r"(?P<I>\d{1,2})",
    "p": r"(?P<p>[AaPp][Mm])",
    "M": r"(?P<M>\d{1,2})",
    "S": r"(?P<S>\d{1,2})",
    "f": r"(?P<f>\d{1,6})",
    "z": r"(?P<z>Z|[+-]\d\d:?\d\d)",
    "B": f"(?P<B>{'|'.join(_MONTHS)})",
    "b": f"(?P<b>{'|'.join(month[:3] for month in _MONTHS)})",
    "F": r"(?P<Y>\d{4})-(?P<m>\d\d)-(?P<d>\d\d)",
    "T": r"(?P<H>\d\d):(?P<M>\d\d):(?P<S>\d\d)",
    "%": "%",
}
#: The directives that formats may have, for messages and the reference.
DIRECTIVES: Final = tuple(_WRITTEN)


def instant(value: Any, zone: str | None = None, form: str | None = None) -> datetime:
    """What a text in ISO 8601 (or as `form` says), seconds since 1970, or an instant means.

    With `zone` it has the offset of that, else the one it has. A text without an offset is one of
    `zone`, else of UTC. Raises Broken, and OverLimit outside of the years 1 to 9999.
    """
    match value:
        case datetime():
            return _make_aware(value, zone)
        case bool():
            raise Broken("cannot read a boolean as an instant")
        case int() | float():
            return _make_aware(_call_bounded(operator.add, EPOCH, span(seconds=value)), zone)
        case str():
            return _make_aware(_parse(value, form), zone)
        case _:
            raise Broken("reads as an instant only a text in ISO 8601, or a number of seconds since 1970")


def duration(value: Any) -> timedelta:
    """What a number of seconds, `1h30m`, `PT5S` or `-PT5S`, or a duration means. Raises Broken."""
    if isinstance(value, timedelta):
        return value
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return span(seconds=float(value))
    if not isinstance(value, str):
        raise Broken("reads as a duration only a number of seconds, or a text such as 1h30m or PT5S")
    text = value.strip()
    sign = -1 if text.startswith("-P") else 1
    try:
        return sign * timedelta(seconds=seconds(text.removeprefix("-") if sign < 0 else text))
    except ValueError as error:
        raise Broken(f"cannot read a duration: {str(error).rstrip('.')}") from error


def span(**parts: float) -> timedelta:
    """`timedelta(days=..., hours=...)`. Raises Broken, and OverLimit for what is too long."""
    try:
        return timedelta(**parts)
    except TypeError as error:
        known = "weeks, days, hours, minutes, seconds, milliseconds"
        raise Broken(f"makes a duration of something else than numbers of {known}") from error
    except (OverflowError, ValueError) as error:
        raise OverLimit("makes a duration that is too long") from error


def move_to_zone(value: datetime, zone: str) -> datetime:
    """The same instant with the offset that `zone` has then. Raises Broken."""
    value = _to_utc(value)
    if zone == "UTC":
        return value
    local = _call_bounded(value.astimezone, zone_of(zone))
    return local.replace(tzinfo=timezone(local.utcoffset() or timedelta(0), local.tzname() or zone), fold=0)


@lru_cache(maxsize=256)
def zone_of(name: str) -> ZoneInfo:
    """The zone of an IANA name. Raises Broken with the nearest name."""
    data = resources.files("tzdata")
    names = data.joinpath("zones").read_text(encoding="ascii").split()
    if name not in names:
        hint = did_you_mean(name, names).strip() or "Write a name of the IANA list, such as Europe/Berlin."
        raise Broken(f"names the time zone {name[:60]!r}, which there is not", hint=hint)
    with data.joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


def format_instant(value: datetime, form: str) -> str:
    """`value` as `form` says. Raises Broken for directives that do not exist, and OverLimit."""
    _check_format(form)
    return _DIRECTIVE.sub(lambda match: _directive(value, match[2], short=bool(match[1])), form)


def _directive(value: datetime, letter: str, *, short: bool) -> str:
    text = _find_directive(letter, _WRITTEN, "has a format with", ", and %-d and the like without zeros")(
        value
    )
    return (text.lstrip("0") or "0") if short and text.isdecimal() else text


def _find_directive(letter: str, directives: Mapping[str, T], verb: str, more: str = "") -> T:
    if letter not in directives:
        known = " ".join(f"%{one}" for one in directives)
        raise Broken(f"{verb} '%{letter}'; there are {known}{more}")
    return directives[letter]


def _check_format(form: str) -> None:
    if len(form) > MAX_FORMAT:
        raise OverLimit(f"has a format of more than {MAX_FORMAT} characters")


def timestamp(value: datetime) -> int | float:
    """Seconds since 1970, a whole number where it is one."""
    whole, rest = divmod(value - EPOCH, timedelta(seconds=1))
    return whole + rest.microseconds / 1_000_000 if rest else whole


def align(left: Any, right: Any) -> tuple[Any, Any]:
    """Both sides of an operator; a text beside an instant or a duration as the instant or duration
    that it says. A text that says none stays one."""
    if isinstance(left, str) and isinstance(right, date | timedelta):
        return _read_like(left), right
    if isinstance(right, str) and isinstance(left, date | timedelta):
        return left, _read_like(right)
    return left, right


def _read_like(text: str) -> Any:
    with suppress(Broken):
        return instant(text)
    with suppress(Broken):
        return duration(text)
    return text


def _call_bounded(function: Callable[..., datetime], *args: Any) -> datetime:
    """`function(*args)`. Raises OverLimit where that is outside of the calendar."""
    try:
        return function(*args)
    except OverflowError as error:
        raise OverLimit(OUTSIDE) from error


def _make_aware(value: datetime, zone: str | None) -> datetime:
    if value.tzinfo is None:
        # Of an hour that comes twice the first is meant, and one that is left out is counted from
        # before it.
        value = _to_utc(value.replace(tzinfo=UTC if zone in (None, "UTC") else zone_of(str(zone))))
    return value if zone is None else move_to_zone(value, zone)


def _to_utc(value: datetime) -> datetime:
    return _call_bounded(value.astimezone, UTC)


def _parse(text: str, form: str | None) -> datetime:
    if len(text) > MAX_FORMAT:
        raise Broken(f"cannot read an instant in a text of {len(text)} characters")
    try:
        return datetime.fromisoformat(text.strip()) if form is None else _parse_as(text.strip(), form)
    except ValueError as error:
        said = "in ISO 8601, such as 2026-01-31T12:00:00Z" if form is None else f"as {form!r} says"
        raise Broken(f"cannot read an instant in {text[:60]!r}; write it {said}") from error


def _parse_as(text: str, form: str) -> datetime:
    match = _pattern(form).fullmatch(text)
    if match is None:
        raise ValueError(text)
    found = match.groupdict()
    name = found.get("B") or found.get("b")
    month = found.get("m") if name is None else [one[: len(name)] for one in _MONTHS].index(name) + 1
    hour = int(found.get("H") or found.get("I") or 0)
    if "p" in found and "H" not in found:
        hour = hour % 12 + (12 if found["p"].upper() == "PM" else 0)
    numbers = (int(found.get("Y") or 1970), int(month or 1), int(found.get("d") or 1), hour)
    rest = (int(found.get("M") or 0), int(found.get("S") or 0), int((found.get("f") or "0").ljust(6, "0")))
    zone = datetime.strptime(found["z"], "%z").tzinfo if found.get("z") else None
    return datetime(*numbers, *rest, tzinfo=zone)


@lru_cache(maxsize=256)
def _pattern(form: str) -> re.Pattern[str]:
    _check_format(form)
    texts = _DIRECTIVE.split(form)
    directives = [_find_directive(letter, _READ, "reads a format with") for letter in texts[2::3]]
    pairs = zip(map(re.escape, texts[::3]), [*directives, ""], strict=True)
    try:
        return re.compile("".join(text + directive for text, directive in pairs))
    except re.error as error:
        raise Broken(f"reads a format that says something twice: {form!r}") from error
