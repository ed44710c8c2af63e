"""Values of inputs: texts read by the declared type, and everything that is wrong with them."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final, assert_never

from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.facts.reference import is_reference
from noetl.facts.secret import is_secret
from noetl.net.inputs import READ_FROM_TEXT, SIZED, TEXTS, Input, InputType
from noetl.net.patterns import matches

#: Faults that are told of one request: who has more corrects the first ones first.
MOST: Final = 100
_WHOLE: Final = re.compile(r"[+-]?[0-9]{1,200}")
_DECIMAL: Final = re.compile(r"[+-]?([0-9]{1,200}(\.[0-9]{0,200})?|\.[0-9]{1,200})([eE][+-]?[0-9]{1,4})?")
_FLAGS: Final = {"true": True, "false": False}


@dataclass(frozen=True, slots=True)
class InputFault:
    """What is wrong with the value at `path`, which reads like `address.lines[2]`."""

    path: str
    message: str

    def as_json(self) -> dict[str, Json]:
        """`{path, message}`."""
        return {"path": self.path, "message": self.message}

    def __str__(self) -> str:
        return f"{self.path}: {self.message}"


# --- reading --------------------------------------------------------------------------------------


def read_values(inputs: Sequence[Input], given: JsonMap) -> dict[str, Json]:
    """`given`, in which texts are what their declared type makes of them. What cannot be read stays
    as it is, and is found to be wrong."""
    types = {one.name: one for one in inputs}
    return {key: read_value(types[key], value) if key in types else value for key, value in given.items()}


def read_value(one: Input, value: Json) -> Json:
    """The same of one value."""
    match value:
        case str():
            return _read_text(one.type, value)
        case float() if one.type == "integer" and value.is_integer():
            return int(value)
        case list() if one.items is not None:
            items = one.items
            return [read_value(items, item) for item in value]
        case Mapping() if one.properties and not stands_for_another(value):
            return read_values(one.properties, value)
        case _:
            return value


def _read_text(type: InputType, text: str) -> Json:
    short = text.strip()
    if type not in READ_FROM_TEXT:
        return text
    if type == "boolean":
        return _FLAGS.get(short.lower(), text)
    if _WHOLE.fullmatch(short):
        return int(short)
    if type == "number" and _DECIMAL.fullmatch(short) and math.isfinite(float(short)):
        return float(short)
    return text


class _Later:
    def __str__(self) -> str:
        return "…"


#: Stands for what a template will yield, or somebody will give.
LATER: Final = _Later()
#: Characters of a key that is not declared which are told.
_KEY: Final = 80


def settle(template: Json) -> Any:
    """The value of what holds no template, with LATER in the places of those that it holds."""
    match template:
        case str():
            return LATER if "{{" in template or "{%" in template else template
        case Mapping():
            return {key: settle(value) for key, value in template.items()}
        case list() | tuple():
            return [settle(item) for item in template]
        case _:
            return template


def stands_for_another(value: Json) -> bool:
    """Whether it is not there yet, or a reference, to a secret or to a large value: what it stands
    for is not looked at."""
    return value is LATER or is_secret(value) or is_reference(value)


# --- checking -------------------------------------------------------------------------------------


def find_faults(
    inputs: Sequence[Input], given: JsonMap, *, above: str = "", also: Container[str] = ()
) -> Iterator[InputFault]:
    """Everything that is wrong with `given`, all at once. `also` are keys that are known without
    being declared."""
    for one in inputs:
        path = f"{above}{one.name}"
        value = given.get(one.name)
        if value is not None:
            yield from find_value_faults(one, value, path)
        elif one.required:
            yield InputFault(path, "is required, and was not given")
        elif one.defaulted and one.type != "any":
            yield InputFault(path, f"is null, and must be {describe(one)}; leave it out for its default")
    names = [one.name for one in inputs]
    for key in given:
        if key not in names and key not in also:
            hint = did_you_mean(str(key), names)
            yield InputFault(f"{above}{str(key)[:_KEY]}", f"is not declared.{hint}".rstrip("."))


def find_value_faults(one: Input, value: Json, path: str) -> Iterator[InputFault]:
    """What is wrong with a value that was given."""
    if stands_for_another(value):
        return
    if not _has_type(one.type, value):
        yield InputFault(path, f"must be {describe(one)}, {_told(one, value)}")
        return
    yield from (InputFault(path, message) for message in _broken_bounds(one, value))
    if one.items is not None and isinstance(value, list):
        for index, item in enumerate(value):
            yield from find_value_faults(_hide(one.items, one), item, f"{path}[{index}]")
    if one.properties and isinstance(value, Mapping):
        inner = [_hide(inner, one) for inner in one.properties]
        yield from find_faults(inner, value, above=f"{path}.")


def _hide(inner: Input, outer: Input) -> Input:
    """What stands in a secret is a secret."""
    return replace(inner, secret=True) if outer.secret else inner


_ARTICLES: Final[Mapping[InputType, str]] = {
    "string": "text",
    "integer": "a whole number",
    "number": "a number",
    "boolean": "true or false",
    "date": "a date such as 2026-01-31",
    "datetime": "an instant such as 2026-01-31T09:00:00Z",
    "list": "a list",
    "object": "a mapping",
    "any": "any value",
}


def describe(one: Input) -> str:
    """What a value has to be, in words."""
    return _ARTICLES[one.type]


def _told(one: Input, value: Json) -> str:
    if one.secret:
        return "and is something else"
    hint = "; write it in quotes" if one.type in TEXTS and isinstance(value, int | float | Decimal) else ""
    return f"and is {quote_json(value)}{hint}"


def quote_json(value: Json, limit: int = 60) -> str:
    """A value as messages quote it: JSON, short."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= limit else text[: limit - 1] + "…"


def _has_type(type: InputType, value: Json) -> bool:
    match type:
        case "any":
            return True
        case "string":
            return isinstance(value, str)
        case "integer":
            return isinstance(value, int) and not isinstance(value, bool)
        case "number":
            return isinstance(value, int | float | Decimal) and not isinstance(value, bool)
        case "boolean":
            return isinstance(value, bool)
        case "date" | "datetime":
            return isinstance(value, str) and in_order(type, value) is not None
        case "list":
            return isinstance(value, list)
        case "object":
            return isinstance(value, Mapping)
        case _:
            assert_never(type)


def _broken_bounds(one: Input, value: Json) -> Iterator[str]:
    """A sentence for each bound that `value`, which is of the type, breaks."""
    if one.enum and not any(_same(value, known) for known in one.enum):
        yield f"must be one of {', '.join(map(quote_json, one.enum))}{_and_is(one, value)}{_near(one, value)}"
    if one.pattern and isinstance(value, str) and not matches(one.pattern, value):
        yield f"must match {one.pattern}{_and_is(one, value)}"
    place = in_order(one.type, value)
    for bound, breaks, words in (
        (one.minimum, _is_less, "at least"),
        (one.maximum, _is_more, "at most"),
    ):
        if bound is not None and place is not None and breaks(place, in_order(one.type, bound)):
            yield f"must be {words} {bound}{_and_is(one, value)}"
    yield from _broken_lengths(one, value)


def _broken_lengths(one: Input, value: Json) -> Iterator[str]:
    if one.type not in SIZED:
        return
    size, what = len(value), "items" if isinstance(value, list) else "characters"
    has = "" if one.secret else f", and has {size}"
    if one.min_length is not None and size < one.min_length:
        yield f"must have at least {one.min_length} {what}{has}"
    if one.max_length is not None and size > one.max_length:
        yield f"must have at most {one.max_length} {what}{has}"


def _is_less(value: Any, bound: Any) -> bool:
    return bool(value < bound)


def _is_more(value: Any, bound: Any) -> bool:
    return bool(value > bound)


def _same(value: Json, known: Json) -> bool:
    # In Python true equals 1.
    return isinstance(value, bool) == isinstance(known, bool) and bool(value == known)


def _and_is(one: Input, value: Json) -> str:
    return "" if one.secret else f", and is {quote_json(value)}"


def _near(one: Input, value: Json) -> str:
    if one.secret or not isinstance(value, str):
        return ""
    hint = did_you_mean(value, [known for known in one.enum if isinstance(known, str)])
    return f".{hint}" if hint else ""


_READERS: Final[Mapping[str, Callable[[str], date]]] = {
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
}


def in_order(type: InputType, value: Json) -> Any:
    """What bounds of that type compare: a number, a date, an instant (of UTC where it names no
    offset). None for what has no place in an order, or is not of the type."""
    if type in ("integer", "number"):
        return value if isinstance(value, int | float | Decimal) and not isinstance(value, bool) else None
    if type not in _READERS or not isinstance(value, str):
        return None
    try:
        found = _READERS[type](value)
    except ValueError:
        return None
    if isinstance(found, datetime) and found.tzinfo is None:
        return found.replace(tzinfo=UTC)
    return found
