"""Nets as JSON: exact both ways, and named by the digest of what they say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from functools import cache

from pydantic import TypeAdapter, ValidationError

from noetl.errors import NoetlError
from noetl.facts.json import Json
from noetl.net.model import Net


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


@cache
def _adapter() -> TypeAdapter[Net]:
    # Built at first use: nets are compiled in places that never store them.
    return TypeAdapter(Net)
