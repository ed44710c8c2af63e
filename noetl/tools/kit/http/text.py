"""Values of a playbook as the texts that HTTP carries: header fields, queries, forms."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from noetl.errors import ToolError
from noetl.facts.json import Json

_TOKEN = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+")
#: What the transport itself says about the message; set by hand they let one request end inside of another.
_FRAMING = frozenset({"content-length", "transfer-encoding", "connection", "upgrade"})


def header_fields(given: Mapping[str, Json]) -> dict[str, str]:
    """Headers with names in lower case, nulls left out. Raises ToolError(client_error) without the value."""
    headers: dict[str, str] = {}
    for name, value in given.items():
        text = text_of(value).strip(" \t")
        if not _TOKEN.fullmatch(name) or name.lower() in _FRAMING:
            raise ToolError("client_error", f"Header {name[:80]!r} cannot be set; leave it out or rename it.")
        if any((ord(char) < 32 and char != "\t") or ord(char) == 127 for char in text):
            raise ToolError("client_error", f"Header '{name}' holds a line break or a control character.")
        if value is not None:
            # http.client writes latin-1: bytes of UTF-8 read as such go out as UTF-8.
            headers[name.lower()] = text if text.isascii() else text.encode().decode("latin-1")
    return headers


def text_of(value: Json) -> str:
    """A value as text: booleans as in JSON, nothing for null, mappings and lists as JSON."""
    match value:
        case str():
            return value
        case bool():
            return "true" if value else "false"
        case None:
            return ""
        case Mapping() | list():
            return json.dumps(value, ensure_ascii=False)
        case _:
            return str(value)


def pairs(values: Mapping[str, Json] | Sequence[tuple[str, Json]]) -> list[tuple[str, str]]:
    """Names and texts for a query or a form: lists repeat the name, nulls are left out."""
    items = values.items() if isinstance(values, Mapping) else values
    flat: list[tuple[str, str]] = []
    for name, value in items:
        every = value if isinstance(value, list) else [value]
        flat += [(str(name), text_of(item)) for item in every if item is not None]
    return flat
