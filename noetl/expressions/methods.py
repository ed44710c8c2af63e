"""Formatting of texts; the methods of texts, instants and durations that templates may call; and
filters over times. All of bounded size."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime, timedelta
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, Final, TypeAlias

from jinja2.sandbox import SandboxedFormatter

from noetl.expressions.instants import duration, format_instant, instant, span, timestamp
from noetl.expressions.limits import MAX_WORK, Broken, Meter, OverLimit, check_width
from noetl.expressions.members import Undefined, Verb
from noetl.expressions.values import text
from noetl.facts.durations import iso_duration

#: Reads one attribute or item of a value, sandboxed.
Step: TypeAlias = Callable[[Any, str | int], Any]

_PERCENT = re.compile(
    r"%(?:\((?P<key>[^)]*)\))?(?P<flags>[#0\- +]*)(?P<width>\d+|\*)?(?:\.(?P<precision>\d+|\*))?(?P<kind>.?)",
    re.DOTALL,
)
_DIGITS = re.compile(r"\d+")


def join(meter: Meter, separator: str, items: Iterable[Any]) -> str:
    """The texts of `items` with `separator` between them."""
    parts: list[str] = []
    for item in items:
        part = text(item, meter)
        meter.work(1)
        meter.text(len(part) + len(separator))
        parts.append(part)
    meter.text(sum(map(len, parts)) + len(separator) * len(parts))
    return separator.join(parts)


def replace(meter: Meter, value: str, old: str, new: str, count: int = -1) -> str:
    """`value.replace(old, new, count)`."""
    meter.read(len(value))
    found = value.count(old)
    times = found if count < 0 else min(found, count)
    meter.text(len(value) + times * max(len(new) - len(old), 0))
    return value.replace(old, new, count)


def percent(meter: Meter, template: str, values: Any) -> str:
    """`template % values`, placeholder by placeholder."""
    arguments = iter(values if isinstance(values, tuple) else (values,))

    def fill(match: re.Match[str]) -> str:
        meter.work(3)
        part = _placeholder(meter, match, values, arguments)
        meter.text(len(part))
        return part

    result = _PERCENT.sub(fill, template)
    meter.text(len(result))
    return result


def _placeholder(meter: Meter, match: re.Match[str], values: Any, arguments: Any) -> str:
    kind, key = match["kind"], match["key"]
    if kind == "%":
        return "%"
    if kind not in "sdiouxXeEfFgGcr" or not kind:
        raise Broken(f"cannot be formatted: '{match[0]}' is no placeholder")
    for size in (match["width"], match["precision"]):
        _check_size(size)
    value = _argument(key, values, arguments)
    if isinstance(value, Undefined) and kind != "s":
        raise Broken(f"cannot be formatted: '{value.path}' is undefined")
    if kind in "sr" and not (kind == "r" and isinstance(value, str)):
        value, kind = text(value, meter), "s"
    meter.read(len(value) if isinstance(value, str) else 0)
    precision = "" if match["precision"] is None else f".{match['precision']}"
    return str(f"%{match['flags']}{match['width'] or ''}{precision}{kind}" % value)


def _check_size(size: str | None) -> None:
    if size == "*":
        raise Broken("cannot be formatted: a width of '*' is not supported")
    if size:
        # Cut, because a width of thousands of digits is itself a bomb.
        check_width(int(size[:12]))


def _argument(key: str | None, values: Any, arguments: Any) -> Any:
    if key is not None:
        if not isinstance(values, Mapping):
            raise Broken(f"cannot be formatted: '%({key})' needs a mapping")
        return values[key] if key in values else Undefined(key)
    try:
        return next(arguments)
    except StopIteration as error:
        raise Broken("cannot be formatted: it has more placeholders than values") from error


class _Formatter(SandboxedFormatter):
    """Jinja's `str.format`, whose fields go through the sandbox, with output that is paid for."""

    def __init__(self, meter: Meter, step: Step) -> None:
        reader: Any = SimpleNamespace(getattr=step, getitem=step)
        super().__init__(reader)
        self._meter = meter

    def format_field(self, value: Any, format_spec: str) -> str:
        for digits in _DIGITS.findall(format_spec):
            _check_size(digits)
        if format_spec.endswith("n"):
            raise Broken("cannot be formatted: the type 'n' depends on the machine's locale")
        if not isinstance(value, str | int | float | Decimal) or isinstance(value, bool):
            value = text(value, self._meter)
        result = format(value, format_spec)
        self._meter.work(6)
        self._meter.text(len(result))
        return result

    def convert_field(self, value: Any, conversion: str | None) -> Any:
        match conversion:
            case None:
                return value
            case "r" | "a" if isinstance(value, str):
                self._meter.read(len(value))
                return repr(value) if conversion == "r" else ascii(value)
            case _:
                return text(value, self._meter)


def format_text(
    meter: Meter, step: Step, template: str, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> str:
    """`template.format(*args, **kwargs)`."""
    meter.text(len(template))
    return _Formatter(meter, step).vformat(template, args, kwargs)


def _make_pad(name: str) -> Verb:
    method = getattr(str, name)

    def pad(meter: Meter, value: str, width: int, *fill: str) -> str:
        check_width(width)
        meter.text(max(len(value), width))
        return str(method(value, width, *fill))

    return pad


def _make_split(name: str) -> Verb:
    method = getattr(str, name)

    def split(meter: Meter, value: str, sep: str | None = None, maxsplit: int = -1) -> list[str]:
        meter.text(len(value))
        most = MAX_WORK if maxsplit < 0 else min(maxsplit, MAX_WORK)
        parts: list[str] = method(value, sep, most)
        if len(parts) > MAX_WORK // 2:
            raise OverLimit(f"splits a text into more than {MAX_WORK // 2} parts")
        meter.items(len(parts))
        return parts

    return split


def _split_lines(meter: Meter, value: str, keepends: bool = False) -> list[str]:
    meter.text(len(value))
    meter.items(value.count("\n"))
    return value.splitlines(keepends)


def _expand_tabs(meter: Meter, value: str, tabsize: int = 8) -> str:
    check_width(tabsize)
    meter.text(len(value) + value.count("\t") * max(tabsize, 0))
    return value.expandtabs(tabsize)


def _make_method(name: str, pay: Callable[[Meter, int], None]) -> Verb:
    method = getattr(str, name)

    def call(meter: Meter, value: str, *args: Any) -> Any:
        pay(meter, len(value))
        return method(value, *args)

    return call


_CONVERTING = (
    "capitalize casefold lower lstrip partition removeprefix removesuffix rpartition rstrip strip swapcase"
    " title upper"
)
_READING = (
    "count endswith find index isalnum isalpha isascii isdecimal isdigit islower isnumeric isspace istitle"
    " isupper rfind rindex startswith"
)

#: What may be called on a text, but for `format`, which reads other values (see `rendering`).
TEXT_METHODS: Mapping[str, Verb] = {
    **{name: _make_method(name, Meter.text) for name in _CONVERTING.split()},
    **{name: _make_method(name, Meter.read) for name in _READING.split()},
    **{name: _make_pad(name) for name in ("center", "ljust", "rjust", "zfill")},
    "split": _make_split("split"),
    "rsplit": _make_split("rsplit"),
    "splitlines": _split_lines,
    "expandtabs": _expand_tabs,
    "join": join,
    "replace": replace,
}


#: Python's attributes that are data: the others depend on the machine's zone, locale or clock.
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
