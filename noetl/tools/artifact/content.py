"""The content of artifacts: values and texts as bytes, and back."""

from __future__ import annotations

import base64
import hashlib
import json
import mimetypes
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from noetl.errors import ToolError
from noetl.facts.json import Json

JSON: Final = "application/json"
#: Python's own, without the files of the system.
_TYPES: Final = mimetypes.MimeTypes()
_TYPES.add_type("application/vnd.apache.parquet", ".parquet")
_TYPES.add_type("application/x-ndjson", ".ndjson")
_BLOCK: Final = 1024 * 1024
_INDEX: Final = re.compile(r"-?[0-9]{1,9}")


def encode(data: Json, encoding: str | None) -> tuple[bytes, str]:
    """Bytes and content type. Raises ToolError where `data` is not in that encoding."""
    if encoding is not None:
        try:
            return base64.b64decode(data, validate=True), "application/octet-stream"
        except ValueError as error:
            raise ToolError("client_error", f"`data` is not base64: {error}.") from error
    if isinstance(data, str):
        return data.encode("utf-8", "replace"), "text/plain"
    return json.dumps(data, ensure_ascii=False, allow_nan=False).encode("utf-8", "replace"), JSON


def decode(content: bytes, content_type: str, path: str | None) -> dict[str, Json]:
    """`{data, content_type}`, and `encoding` where it is not text. Raises ToolError where the bytes
    are not of that type."""
    try:
        text = content.decode()
    except UnicodeDecodeError:
        if path:
            raise ToolError("client_error", "`path` needs a value; this artifact is no text.") from None
        found = content_type or "application/octet-stream"
        return {"data": base64.b64encode(content).decode(), "content_type": found, "encoding": "base64"}
    if path or content_type.partition(";")[0] == JSON or content_type.endswith("+json"):
        try:
            return {"data": part(json.loads(text), path), "content_type": content_type or JSON}
        except (ValueError, RecursionError) as error:
            raise ToolError("client_error", f"The artifact is not JSON: {error}.", type="NotJson") from error
    return {"data": text, "content_type": content_type or "text/plain"}


def part(value: Json, path: str | None) -> Json:
    """What stands at a dotted path (`rows.0.id`); null where nothing does, the value itself without
    a path."""
    for name in path.split(".") if path else ():
        if isinstance(value, Mapping):
            value = value.get(name)
        elif isinstance(value, list) and _INDEX.fullmatch(name) and -len(value) <= int(name) < len(value):
            value = value[int(name)]
        else:
            return None
    return value


def guess_type(name: str) -> str | None:
    """The content type that the end of a name stands for: on every machine the same."""
    found, packed = _TYPES.guess_type(name)
    return found if packed is None else "application/octet-stream"


def measure(path: Path) -> dict[str, Json]:
    """`{bytes, sha256}` of a file."""
    digest, size = hashlib.sha256(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK):
            size += len(block)
            digest.update(block)
    return {"bytes": size, "sha256": digest.hexdigest()}
