"""What a transfer touches, in words. Configurations here are not checked yet."""

from __future__ import annotations

from collections.abc import Mapping

from noetl.facts.json import Json
from noetl.tools.kit.effects import address, credential, first, one_line


def end_of_transfer(end: Json) -> str:
    """One end of a transfer: its kind, where it is, and its table."""
    if not isinstance(end, Mapping):
        return one_line(end)
    place = credential(end.get("auth")) or first(end, "database", "url", "file")
    table = f", table {one_line(end['table'])}" if end.get("table") is not None else ""
    return (
        " ".join(filter(None, (one_line(end.get("kind")), address(place) if place is not None else "")))
        + table
    )
