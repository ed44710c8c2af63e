"""Values of databases as JSON: what a row of a result store's table and of a SQL tool's answer look
like."""

from __future__ import annotations

import base64
import contextlib
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, time, timedelta
from decimal import Decimal
from typing import Any, Final

from noetl.facts import json
from noetl.facts.durations import iso_duration
from noetl.facts.json import Json

NOT_FINITE: Final = "NaN and infinite numbers are null"


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
    kept: dict[str, set[str]] = {name: set() for name in names}
    own = list(kept.values())
    dicts = [dict(zip(names, map(json_safe, row, own), strict=True)) for row in rows]
    notes |= notes_of_columns(kept)
    return dicts


def notes_of_columns(notes: Mapping[str, Iterable[str]]) -> set[str]:
    """What was noted of the values of each column, as warnings."""
    return {f"Column '{name}': {note}" for name, every in notes.items() for note in every}


def parse_json(rows: Iterable[dict[str, Json]], name: str) -> None:
    """A column of JSON comes as text; what is in it takes its place."""
    for row in rows:
        if isinstance(row[name], str):
            with contextlib.suppress(ValueError, RecursionError):
                row[name] = json.loads_exactly(row[name])


def json_safe(value: object, notes: set[str] | None = None) -> Json:
    """`value` as JSON: exact numbers as numbers, times as ISO 8601, bytes as base64, the rest as
    text.

    NaN and infinities become null, and `notes` says so.
    """
    if value is None or type(value) in (str, int, bool):
        return value
    notes = set() if notes is None else notes
    for kind in type(value).__mro__:
        if kind in _WRITERS:
            return _WRITERS[kind](value, notes)
    return str(value)


def _float(value: float, notes: set[str]) -> Json:
    if math.isfinite(value):
        return float(value)
    notes.add(NOT_FINITE)
    return None


def _decimal(value: Decimal, notes: set[str]) -> Json:
    if not value.is_finite():
        return _float(math.nan, notes)
    kept = json.exact(value)
    # What is longer than any float (and than what readers of JSON take as an integer) is text.
    return str(value) if kept is None else kept


def _list(value: Iterable[object], notes: set[str]) -> Json:
    return [json_safe(item, notes) for item in value]


def _mapping(value: Mapping[object, object], notes: set[str]) -> Json:
    return {str(json_safe(name)): json_safe(item, notes) for name, item in value.items()}


def _base64(value: bytes | bytearray | memoryview, _: set[str]) -> Json:
    return base64.b64encode(value).decode("ascii")


def _iso(value: date | time, _: set[str]) -> Json:
    return value.isoformat()


#: How a type is written, nearest base first (a bool is an int, a datetime a date).
_WRITERS: Final[Mapping[type, Callable[[Any, set[str]], Json]]] = {
    bool: lambda value, _: bool(value),
    int: lambda value, _: int(value),
    str: lambda value, _: str(value),
    date: _iso,
    time: _iso,
    timedelta: lambda value, _: iso_duration(value),
    bytes: _base64,
    bytearray: _base64,
    memoryview: _base64,
    float: _float,
    Decimal: _decimal,
    list: _list,
    tuple: _list,
    set: _list,
    frozenset: _list,
    dict: _mapping,
}
