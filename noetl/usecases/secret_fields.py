"""The fields of an opened secret, and how messages name it."""

from __future__ import annotations

import json
from collections.abc import Mapping

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.facts.secret import called, deeper, is_secret


def base_name(reference: JsonMap) -> str:
    """How the whole of a secret is called, whatever field of it a reference means."""
    return called({key: value for key, value in reference.items() if key != "field"})


def fields_of(value: Json) -> Json:
    """A text that is a JSON mapping has the fields of that."""
    if not isinstance(value, str):
        return value
    try:
        found = json.loads(value)
    except (ValueError, RecursionError):
        return value
    return found if isinstance(found, Mapping) else value


def pick(value: Json, field: str, reference: JsonMap) -> Json:
    """`field` is dotted. `value` of a text is the text, and `data` of what has none is itself.
    Raises ToolError where there is no such field."""
    rest = field
    while rest:
        if is_secret(value):
            # What the entry is made of is opened by whoever opens the entry.
            return deeper(value, rest)
        inner = fields_of(value)
        if isinstance(inner, Mapping) and rest in inner:
            return inner[rest]
        head, _, rest = rest.partition(".")
        if isinstance(inner, Mapping) and head in inner:
            value = inner[head]
        elif isinstance(inner, list) and head.isdecimal() and int(head) < len(inner):
            value = inner[int(head)]
        elif head != "data" and not (head == "value" and isinstance(value, str)):
            raise _no_field(inner, head, reference)
    return value


def _no_field(value: Json, head: str, reference: JsonMap) -> ToolError:
    place = f"keychain.{reference['name']}" if "provider" not in reference and "name" in reference else ""
    place = place or base_name(reference)
    if not isinstance(value, Mapping):
        why = f"{place} has no field {head[:80]!r}: it is a text without fields."
    else:
        why = f"{place} has no field {head[:80]!r}.{did_you_mean(head, map(str, value))}"
    return ToolError("auth", why, type="UnknownField")
