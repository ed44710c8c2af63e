"""Values of user code as JSON: what is converted, and which value is to blame where it cannot be.

Kept: Decimal, with all of its digits. Converted: tuples, dates and times (ISO 8601), UUID and paths
(text), enumerations (their value), mappings, numpy scalars and arrays, keys that are numbers,
booleans or null (text), circuits and other values of Cirq (text: their JSON). Frames are converted
by a hook (see `frames`). Not converted, because the author should choose: sets, bytes, NaN,
infinities, objects."""

from __future__ import annotations

import datetime
import decimal
import enum
import math
import pathlib
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

# Relative: the runner loads it as part of a package of another name.
from ...facts import json

#: Deepest nesting of lists and mappings in a result.
MAX_DEPTH = 200
#: Integers with more digits are refused by python's own conversion to text.
MAX_DIGITS = 4300

_CONTAINERS = (list, tuple, dict)


class NotJson(Exception):
    """A value has no JSON. The message names it by path."""


class NotConverted(TypeError):
    """A value that could be converted and is refused; the message goes on where its path ends."""


#: The JSON form of a value that json does not know. Raises TypeError where there is none.
Convert: TypeAlias = Callable[[Any], Any]


def dumps(value: Any, name: str = "result", hook: Convert | None = None) -> bytes:
    """JSON text of a result; `hook` in the place of `convert`. Raises NotJson, whose message begins
    with the path of the value."""
    change = hook or convert
    if _too_deep(value):
        raise NotJson(f"{name} is nested deeper than {MAX_DEPTH} levels, or contains itself.")
    try:
        return json.encoder(change, typed=True, separators=(", ", ": "))(value).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise NotJson(fault(value, change, name) or f"{name} has no JSON form: {error}.") from None


def _too_deep(value: Any) -> bool:
    level = [value] if isinstance(value, _CONTAINERS) else []
    for _ in range(MAX_DEPTH):
        if not level:
            return False
        inside = (one.values() if isinstance(one, dict) else one for one in level)
        level = [item for items in inside for item in items if isinstance(item, _CONTAINERS)]
    return bool(level)


def convert(value: Any) -> Any:
    """The JSON form of a value that json does not know. Raises TypeError where there is none."""
    match value:
        case datetime.datetime() | datetime.date() | datetime.time():
            return value.isoformat()
        case uuid.UUID() | pathlib.PurePath():
            return str(value)
        case enum.Enum():
            return value.value
        case Mapping():
            return dict(value)
    if type(value).__module__.partition(".")[0] == "numpy" and hasattr(value, "tolist"):
        return value.tolist()
    # Not imported here: a value of Cirq is there only where the code did that.
    if "cirq" in sys.modules and hasattr(type(value), "_json_dict_"):
        return _cirq_json(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def _cirq_json(value: Any) -> str:
    """Cirq's JSON with sorted keys and without spaces (as in
    `noetl.quantum.circuits.canonical`)."""
    try:
        written = json.loads(sys.modules["cirq"].to_json(value, indent=None))
        return json.dumps(written, sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError, AttributeError) as error:
        raise NotConverted(f"is a {type(value).__name__}, which Cirq cannot write as JSON: {error}") from None


def fault(value: Any, change: Convert, path: str = "result", depth: int = 0) -> str:
    """The first value inside of `value` that has no JSON form, as a sentence; empty where all have
    one."""
    if depth > MAX_DEPTH:
        return f"{path[:200]} is nested deeper than {MAX_DEPTH} levels, or contains itself."
    if isinstance(value, dict):
        return _fault_in_dict(value, change, path, depth)
    if isinstance(value, list | tuple):
        faults = (fault(item, change, f"{path}[{index}]", depth + 1) for index, item in enumerate(value))
        return next(filter(None, faults), "")
    if value is None or isinstance(value, bool):
        return ""
    return _fault_of_scalar(value, change, path, depth)


def _fault_in_dict(value: dict[Any, Any], change: Convert, path: str, depth: int) -> str:
    for key, item in value.items():
        if not isinstance(key, str | int | float | bool | None):
            return f"{path} has the key {_show(key)}, a {type(key).__name__}; keys must be text."
        step = f".{key}" if isinstance(key, str) and key.isidentifier() else f"[{_show(key)}]"
        found = (
            _fault_of_scalar(key, change, f"A key of {path}", depth) if isinstance(key, str | float) else ""
        )
        found = found or fault(item, change, f"{path}{step}", depth + 1)
        if found:
            return found
    return ""


def _fault_of_scalar(value: Any, change: Convert, path: str, depth: int) -> str:
    match value:
        case str():
            lone = any("\ud800" <= char <= "\udfff" for char in value)
            return f"{path} is text with a lone surrogate, which is no Unicode." if lone else ""
        case int():
            # log10(2) digits for each bit
            long = value.bit_length() * 0.30103 > MAX_DIGITS
            return f"{path} is an integer with more than {MAX_DIGITS} digits." if long else ""
        case decimal.Decimal() if value.is_finite():
            kept = json.exact(value) is not None
            return "" if kept else f"{path} is {str(value)[:40]}, a number with more digits than are kept."
        case float() | decimal.Decimal():
            name = "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
            return "" if math.isfinite(value) else f"{path} is {name}, which JSON cannot express."
        case set() | frozenset():
            return f"{path} is a set, which JSON cannot express; make it a list."
        case bytes() | bytearray() | memoryview():
            return (
                f"{path} is {type(value).__name__}, which JSON cannot express; decode it or encode "
                "it in base64."
            )
    return _fault_of_object(value, change, path, depth)


def _fault_of_object(value: Any, change: Convert, path: str, depth: int) -> str:
    try:
        converted = change(value)
    except NotConverted as refused:
        return f"{path} {refused}."
    except TypeError:
        kind = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
        return f"{path} is of type {kind}, which has no JSON form."
    return fault(converted, change, path, depth + 1)


def _show(key: Any) -> str:
    text = ascii(key)
    return text if len(text) <= 80 else text[:77] + "..."
