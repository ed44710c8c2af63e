"""The lines of a file of JSON, each with a hash that covers all lines before it.

The hash of a line is the SHA-256 (hex) of the one before it (empty: none), a line end, and what the
line says besides its hash, in canonical JSON. So nobody who holds one hash can be given another
line before it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from noetl.errors import BadRequest
from noetl.facts import json
from noetl.facts.json import Json, JsonMap, canonical

FORMAT: Final = "noetl-execution"
#: Of the files that this version writes.
VERSION: Final = 1
#: What follows the header, in this order.
PARTS: Final = ("playbook", "net", "event", "printed", "result", "end")


def link(previous: str, part: JsonMap) -> str:
    """The hash of a line that says `part`, behind the line of the hash `previous` (empty: none).
    Raises ValueError for what no JSON holds."""
    return hashlib.sha256(f"{previous}\n{canonical(part)}".encode("utf-8", "surrogatepass")).hexdigest()


def write(parts: Iterable[JsonMap]) -> Iterator[str]:
    """The lines of a file that says `parts`, each with its line end."""
    last = ""
    for part in parts:
        last = link(last, part)
        yield json.dumps({**part, "hash": last}, typed=True) + "\n"


def read_linked(lines: Iterable[bytes]) -> Iterator[tuple[int, dict[str, Json]]]:
    """The number of each line, from 1, and what it says besides its hash, which is right. Raises
    BadRequest that names the first line of which that cannot be said."""
    last = ""
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        part = _parse(number, line, is_first=not last)
        said = part.pop("hash", None)
        last = _link(number, last, part)
        if said != last:
            raise BadRequest(
                f"Line {number}{name_of(part)} is not what was exported: its hash does not follow from "
                "what it says and the lines before it; export the execution again."
            )
        yield number, part


def _parse(number: int, line: bytes, *, is_first: bool) -> dict[str, Json]:
    try:
        part = json.loads(line)
    except (ValueError, RecursionError):
        part = None
    if is_first:
        _check_format(part)
    if not isinstance(part, dict):
        raise BadRequest(f"Line {number} is no JSON object: the file is damaged, or ends within that line.")
    return part


def _link(number: int, last: str, part: JsonMap) -> str:
    try:
        return link(last, part)
    except (ValueError, RecursionError):
        raise BadRequest(f"Line {number} holds what is no JSON: the file is damaged.") from None


def _check_format(part: Json) -> None:
    said = part if isinstance(part, dict) else {}
    if said.get("format") != FORMAT:
        raise BadRequest(f"This is no exported execution: its first line does not say `format: {FORMAT}`.")
    if said.get("version") != VERSION:
        raise BadRequest(
            f"The file is of version {str(said.get('version'))[:20]}, and this NoETL reads version "
            f"{VERSION}: upgrade it."
        )


def name_of(part: JsonMap) -> str:
    """What a line is, as far as it says so: ` (event 4, task.done)`."""
    event = part.get("event")
    if isinstance(event, Mapping):
        return f" (event {str(event.get('version'))[:20]}, {str(event.get('type'))[:60]})"
    kind = next((kind for kind in PARTS if kind in part), None)
    return "" if kind is None else f" ({kind})"
