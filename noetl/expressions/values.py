"""The values that templates yield: plain JSON, or text."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta
from decimal import Decimal
from math import isfinite
from typing import Any, Final

from noetl.expressions.limits import MAX_HELD, MAX_NESTING, MAX_TEXT, Broken, Meter, OverLimit
from noetl.expressions.members import Undefined
from noetl.expressions.scope import ResultView
from noetl.facts import json
from noetl.facts.durations import iso_duration
from noetl.facts.json import Json, digits, exact
from noetl.facts.reference import Lazy
from noetl.facts.secret import Form, change_form, holds_secret, is_secret, marker

#: Immutable JSON: what needs no second look.
ATOMS = frozenset({str, int, bool, type(None)})
#: Types that are not lazy lists: known without asking an abstract class.
_READY = ATOMS | {float, list, dict, tuple, range, Undefined}
_TEXTS = frozenset({str})
# A tuple: a union would be built anew for each value that is looked at.
_LISTS = (list, tuple)


#: How values are called in messages: the first that fits.
_KINDS: Final[tuple[tuple[Any, str], ...]] = (
    (Undefined, "something undefined"),
    (type(None), "null"),
    (bool, "a boolean"),
    ((int, float, Decimal), "a number"),
    (str, "a text"),
    (Mapping, "a mapping"),
    ((list, tuple, range, Lazy), "a list"),
    (date, "an instant"),
    (timedelta, "a duration"),
)


def kind_of(value: Any) -> str:
    """How `value` is called in messages."""
    if isinstance(value, Mapping) and is_secret(value):
        return "a secret"
    return next((name for kind, name in _KINDS if isinstance(value, kind)), f"a {type(value).__name__}")


def plain(value: Any, meter: Meter | None = None, depth: int = 0) -> Json:
    """`value` as plain JSON, itself where it is that already. Undefined becomes null.

    Data that came in is not paid for (`meter=None`); what a template built may be larger than
    memory when its shared parts are unfolded, hence the meter. Raises Broken for what is not JSON,
    and OverLimit.
    """
    kind = type(value)
    if kind in ATOMS:
        return value
    if kind is float:
        return _check_finite(value)
    if depth > MAX_NESTING:
        raise OverLimit(f"yields lists or mappings nested more than {MAX_NESTING} deep")
    if isinstance(value, Mapping):
        return _plain_mapping(value, meter, depth + 1)
    if isinstance(value, Lazy):
        return (meter or Meter()).close_list(value)
    if isinstance(value, list | tuple | range) or (
        isinstance(value, Sequence) and not isinstance(value, str | bytes)
    ):
        return _plain_list(value, meter, depth + 1)
    return _plain_other(value)


def _check_finite(value: float) -> float:
    if not isfinite(value):
        raise Broken(f"yields {value}, which is not JSON")
    return value


def _check_digits(value: Decimal) -> Decimal | int:
    kept = exact(value)
    if kept is None:
        raise Broken(f"yields {str(value)[:40]}, a number with more digits than are kept")
    return kept


def _plain_mapping(value: Mapping[Any, Any], meter: Meter | None, depth: int) -> dict[str, Json]:
    if meter is not None:
        meter.items(len(value))
    if type(value) is dict and _TEXTS.issuperset(map(type, value)) and _is_flat(value.values()):
        return value
    same = type(value) is dict
    result = {}
    for key, item in value.items():
        new_key = key if type(key) is str else _plain_key(key)
        new_item = item if type(item) in ATOMS else plain(item, meter, depth)
        same = same and new_key is key and new_item is item
        result[new_key] = new_item
    return value if same else result  # type: ignore[return-value]  # `same`: it is a dict


def _is_flat(values: Iterable[Any]) -> bool:
    # One pass in C: most mappings are rows.
    return ATOMS.issuperset(map(type, values))


def _plain_key(key: Any) -> str:
    if isinstance(key, str | int | float | bool | None):
        return str(key) if isinstance(key, str) else json.dumps(key)
    raise Broken(f"yields a mapping with {kind_of(key)} as a key; keys must be texts")


def _plain_list(value: Sequence[Any], meter: Meter | None, depth: int) -> list[Json]:
    if meter is not None:
        meter.items(len(value))
    if type(value) is list and _is_flat(value):
        return value
    result = [item if type(item) in ATOMS else plain(item, meter, depth) for item in value]
    if type(value) is list and all(map(operator.is_, result, value)):
        return value
    return result


def _plain_other(value: Any) -> Json:
    match value:
        case Undefined():
            return None
        case ResultView():
            return plain(value.value)
        case str():
            return str(value)
        case int():
            return int(value)
        case Decimal():
            return _check_digits(value)
        case float():
            return _check_finite(float(value))
        case date():
            return value.isoformat()
        case timedelta():
            return iso_duration(value)
        case _:
            raise Broken(f"yields {kind_of(value)}, which is not JSON")


def text(value: Any, meter: Meter) -> str:
    """`value` as it stands in text: null prints nothing, booleans true or false, lists and mappings
    JSON."""
    kind = type(value)
    if kind is str:
        return value  # type: ignore[no-any-return]  # `kind`
    if kind is int or kind is float:
        return str(value)
    if value is None or isinstance(value, Undefined):
        return ""
    if kind is bool:
        return "true" if value else "false"
    if isinstance(value, Decimal):
        return digits(Decimal(_check_digits(value)))
    if isinstance(value, str | date | timedelta):
        return str(_plain_other(value))
    if isinstance(value, Mapping) and is_secret(value):
        return mark_secret(value, meter)
    return to_json(value, meter)


def mark_secret(secret: Mapping[str, Any], meter: Meter, form: Form = "text") -> str:
    """The marker of a secret, written in the tool call as `form` says."""
    found = marker(secret, form)
    meter.text(len(found))
    return found


def to_json(value: Any, meter: Meter, indent: int | None = None) -> str:
    """JSON text, not escaped for HTML, letters of all scripts as they are. References inside are
    opened."""
    meter.text(measure(value, meter))
    unfolded = plain(value, meter)
    opened = meter.open_references(unfolded)
    if opened is not unfolded:
        meter.text(measure(opened, meter))
    if holds_secret(opened):
        opened = _put_markers(opened)
    result = json.dumps(opened, ensure_ascii=False, indent=indent, allow_nan=False)
    meter.text(len(result))
    return result


def to_list(value: Any, meter: Meter) -> Any:
    """`value`; a list that is read lazily as a plain one, paid for as it comes. Raises
    OverLimit."""
    if type(value) in _READY or not isinstance(value, Lazy):
        return value
    if len(value) > MAX_HELD:
        raise OverLimit(f"holds a list of {len(value)} elements at once; {MAX_HELD} is the most")
    found: list[Any] = []
    for page in value.pages():
        meter.items(len(page))
        found += page
    return found


def to_comparable(value: Any, meter: Meter) -> Any:
    """`value` as it would be had nothing of it been kept by reference; paid for, since comparing
    walks it."""
    if type(value) in ATOMS:
        return value
    value = to_list(value, meter)
    measure(value, meter)
    whole = meter.open_references(value)
    if whole is not value:
        measure(whole, meter)
    return whole


def _put_markers(value: Json) -> Json:
    """JSON text is text: in it markers stand for secrets."""
    if isinstance(value, Mapping):
        if is_secret(value):
            return marker(value, "json")
        return {key: _put_markers(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_put_markers(item) for item in value]
    return change_form(value, "json") if isinstance(value, str) else value


def measure(value: Any, meter: Meter, most: int = MAX_TEXT) -> int:
    """Pay for walking `value`; returns about how many characters its JSON has. Raises OverLimit
    beyond `most`.

    Shared parts count each time that they are met, as in anything that walks the value.
    """
    size = 0
    stack = [value]
    while stack:
        item = stack.pop()
        if type(item) is ResultView:
            item = item.value
        parts: Iterable[Any] = ()
        if isinstance(item, str):
            size += len(item) + 2
            meter.read(len(item))
        elif isinstance(item, _LISTS):
            meter.walk(len(item))
            size, parts = size + 2 * len(item) + 2, item
        elif type(item) in ATOMS or not isinstance(item, Mapping):
            size += 4
        else:
            meter.walk(len(item))
            size, parts = size + 4 * len(item) + 2, item.values()
        if size > most:
            raise OverLimit(f"handles a value of more than {most} characters")
        stack.extend(parts)
    return size
