"""What an address asks for."""

from __future__ import annotations

from noetl.errors import BadRequest
from noetl.facts.json import JsonMap


def read_number(asked: JsonMap, name: str) -> int | None:
    """The number in that field of the address; None where there is none. Raises BadRequest."""
    text = asked.get(name) or ""
    if not text:
        return None
    if not (text.isascii() and text.isdigit() and len(text) < 10):
        raise BadRequest(f"The address says {name}={text[:40]!r}, which is no number.")
    return int(text)
