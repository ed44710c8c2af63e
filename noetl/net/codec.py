"""Nets as JSON: exact both ways, and named by the digest of what they say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from functools import cache
from typing import Any

from pydantic import TypeAdapter, ValidationError

from noetl.errors import NoetlError
from noetl.facts.json import Json
from noetl.net.model import Assignment, Net

#: Fields that say where something stands in its file, not what it is.
_POSITIONS = frozenset({"line", "lines", "file"})


def to_json(net: Net) -> dict[str, Json]:
    """The net as JSON data, positions included."""
    body: dict[str, Json] = _adapter().dump_python(net, mode="json")
    return body


def from_json(body: Mapping[str, Json]) -> Net:
    """The net that `to_json` gave. Raises NoetlError where `body` is none."""
    try:
        return _adapter().validate_python(dict(body))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(str(part) for part in first["loc"])
        raise NoetlError(
            f"A stored net cannot be read: {place}: {first['msg']}; compile its playbook again."
        ) from None


def digest(net: Net) -> str:
    """SHA-256 (hex) of the body in canonical JSON: equal bodies have equal digests and no others do."""
    text = json.dumps(
        to_json(net), sort_keys=True, separators=(",", ":"), ensure_ascii=False, allow_nan=False
    )
    return hashlib.sha256(text.encode()).hexdigest()


def same_net(one: Net, other: Net) -> bool:
    """Whether two nets say the same, wherever it stands in their files.

    The order in which one `set` assigns different names does not count either: keys have no order.
    """
    return bool(_meaning(one) == _meaning(other))


def _meaning(value: Any) -> Any:
    if isinstance(value, tuple):
        items = [_meaning(item) for item in value]
        if value and all(isinstance(item, Assignment) for item in value):
            items.sort(key=lambda item: (item["scope"], item["name"]))
        return items
    if isinstance(value, Mapping):
        return {key: _meaning(item) for key, item in value.items()}
    if is_dataclass(value):
        return {
            field.name: _meaning(getattr(value, field.name))
            for field in fields(value)
            if field.name not in _POSITIONS
        }
    return value


@cache
def _adapter() -> TypeAdapter[Net]:
    # Built at first use: nets are compiled in places that never store them.
    return TypeAdapter(Net)
