"""What SQL tools yield: values that are JSON, and one shape for the answers of all statements."""

from __future__ import annotations

import base64
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from noetl.errors import ToolError
from noetl.facts.json import Json

#: More rows than this in one answer are a limit error.
MAX_ROWS = 1_000_000
NOT_FINITE = "NaN and infinite numbers are null"


@dataclass(frozen=True, slots=True)
class Answer:
    """What one statement left: `row_count` is rows returned or changed."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, Json]]
    row_count: int
    status: str

    def as_json(self) -> dict[str, Json]:
        return {
            "rows": list(self.rows),
            "row_count": self.row_count,
            "columns": list(self.columns),
            "status": self.status,
        }


class Gathered:
    """The rows of one answer as they come. Adding raises ToolError(limit) at more than `most` rows or about
    `most_bytes` of text, so that what is too large is not read to its end."""

    def __init__(self, place: str, most: int, most_bytes: int, notes: set[str]) -> None:
        self.rows: list[dict[str, Json]] = []
        self.size = 0
        self._place, self._most, self._most_bytes, self._notes = place, most, most_bytes, notes

    def add(self, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        if len(self.rows) + len(rows) > self._most:
            raise ToolError(
                "limit",
                f"{self._place} returned more than {self._most} rows; add a LIMIT.",
                type="TooManyRows",
            )
        dicts = as_dicts(names, rows, self._notes)
        self.size += sum(_weight(row.values()) for row in dicts)
        if self.size > self._most_bytes:
            raise ToolError(
                "limit",
                f"{self._place} returned more than the {self._most_bytes:,} bytes that a result may have; "
                "select less, or write it to a table or a file.",
                type="TooManyBytes",
            )
        self.rows += dicts


def _weight(values: Iterable[Json]) -> int:
    """About how many bytes `values` have as text, never too many."""
    size = 0
    for value in values:
        kind = type(value)
        if kind is str:
            size += len(value)
        elif kind is list:
            size += _weight(value)
        elif kind is dict:
            size += _weight(value.values())
        else:
            size += 1
    return size


def result_of(answers: Sequence[Answer]) -> dict[str, Json]:
    """`{rows, row_count, columns, command_0, command_1, ...}`; the top level is the last statement's."""
    commands = [answer.as_json() for answer in answers]
    last = commands[-1]
    top = {name: last[name] for name in ("rows", "row_count", "columns")}
    return top | {f"command_{index}": command for index, command in enumerate(commands)}


def unique_names(names: Iterable[str]) -> list[str]:
    """Column names; one that comes again gets `_2`, `_3`..."""
    every = list(names)
    taken, unique = set(every), list[str]()
    for name in every:
        candidate, number = name, 1
        while candidate in unique or (number > 1 and candidate in taken):
            number += 1
            candidate = f"{name}_{number}"
        unique.append(candidate)
    return unique


def as_dicts(
    names: Sequence[str], rows: Iterable[Sequence[object]], notes: set[str]
) -> list[dict[str, Json]]:
    """Rows as mappings of JSON values."""
    return [dict(zip(names, [json_safe(value, notes) for value in row], strict=True)) for row in rows]


def json_safe(value: object, notes: set[str] | None = None) -> Json:
    """`value` as JSON: exact numbers as numbers, times as ISO 8601, bytes as base64, the rest as text.

    NaN and infinities become null, and `notes` says so.
    """
    if value is None or type(value) in (str, int, bool):
        return value
    notes = set() if notes is None else notes
    for kind in type(value).__mro__:
        if kind in _ALONE:
            return _ALONE[kind](value)
        if kind in _NOTING:
            return _NOTING[kind](value, notes)
    return str(value)


def _float(value: float, notes: set[str]) -> Json:
    if math.isfinite(value):
        return float(value)
    notes.add(NOT_FINITE)
    return None


def _decimal(value: Decimal, notes: set[str]) -> Json:
    if not value.is_finite():
        notes.add(NOT_FINITE)
        return None
    # Beyond the range of a float (and of what JSON readers take as an integer) digits stay text.
    if value.adjusted() > 308:
        return str(value)
    return int(value) if value == value.to_integral_value() else float(value)


def _duration(value: timedelta) -> Json:
    """ISO 8601, such as `P3DT4H5M6.5S`."""
    sign = "-" if value < timedelta(0) else ""
    seconds, micros = divmod(abs(value), timedelta(seconds=1))
    minutes, second = divmod(seconds, 60)
    hours, minute = divmod(minutes, 60)
    days, hour = divmod(hours, 24)
    fraction = f"{second}.{micros.microseconds:06}".rstrip("0").rstrip(".") if micros else str(second)
    clock = "".join(
        f"{n}{unit}" for n, unit in ((hour, "H"), (minute, "M"), (fraction, "S")) if str(n) != "0"
    )
    if not days and not clock:
        return "PT0S"
    return sign + "P" + (f"{days}D" if days else "") + (f"T{clock}" if clock else "")


def _bytes(value: bytes | bytearray | memoryview) -> Json:
    return base64.b64encode(bytes(value)).decode("ascii")


def _list(value: Iterable[object], notes: set[str]) -> Json:
    return [json_safe(item, notes) for item in value]


def _mapping(value: Mapping[object, object], notes: set[str]) -> Json:
    return {_key(name): json_safe(item, notes) for name, item in value.items()}


def _key(name: object) -> str:
    safe = json_safe(name)
    return safe if isinstance(safe, str) else str(safe)


def _iso(value: date | time) -> Json:
    return value.isoformat()


#: How a type is written, nearest base first (a bool is an int, a datetime a date).
_ALONE: dict[type, Callable[[Any], Json]] = {
    bool: bool,
    int: int,
    str: str,
    date: _iso,
    time: _iso,
    timedelta: _duration,
    UUID: str,
    bytes: _bytes,
    bytearray: _bytes,
    memoryview: _bytes,
}
#: The same for types in which NaN may hide.
_NOTING: dict[type, Callable[[Any, set[str]], Json]] = {
    float: _float,
    Decimal: _decimal,
    list: _list,
    tuple: _list,
    set: _list,
    frozenset: _list,
    dict: _mapping,
}
