"""Pictures among values: which they are, and where this server has them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final
from urllib.parse import quote

from noetl.facts.json import JsonMap
from noetl.ui.json_text import make_visible
from noetl.ui.references import PICTURES, say_kind, say_size

SVG: Final = "image/svg+xml"
#: Bytes that tell what a file is.
HEAD: Final = 4_096
#: Types that are sent as they are called: browsers keep them as files.
_PLAIN: Final = frozenset(
    {"text/csv", "text/plain", "application/json", "application/x-ndjson", "application/vnd.apache.parquet"}
)
#: Where an artifact of an execution lies in its store, as far as its URI says.
_ARTIFACT: Final = re.compile(r".*/artifacts/executions/([0-9]{1,19})/(.+)", re.DOTALL)
_LONGEST_URI: Final = 4_096


def artifact_address(uri: str, key: str) -> str:
    """Where this server has the artifact of an execution; empty where the URI is of no such."""
    found = _ARTIFACT.fullmatch(uri) if len(uri) <= _LONGEST_URI else None
    return f"/artifacts/{found[1]}/{quote(key)}" if found and found[2] == key else ""


def find_picture(value: JsonMap) -> tuple[str, str, str] | None:
    """Address, text and description of the picture that the result of an artifact task tells of;
    None where it tells of none."""
    uri, key, content_type = (value.get(name) for name in ("uri", "key", "content_type"))
    if not (isinstance(uri, str) and isinstance(key, str) and isinstance(content_type, str)):
        return None
    if "data" in value or content_type not in PICTURES or not (address := artifact_address(uri, key)):
        return None
    size = value.get("bytes")
    about = f", {say_size(size)}" if isinstance(size, int) and 0 <= size < 2**63 else ""
    return address, make_visible(key), f"{make_visible(key)}, {say_kind(content_type)}{about}"


def find_type(head: bytes, said: str) -> str:
    """The content type that a file of that beginning is sent with, where it is called `said`.

    Pictures of pixels are known by their bytes. Of SVG it has to be said as well; and nothing that
    browsers run, or take for a page, goes by its own name.
    """
    for begin, content_type in _BEGINS.items():
        if head.startswith(begin):
            return content_type
    if head[:4] == b"RIFF" and head[8:12] == b"WEBP":
        return "image/webp"
    if said == SVG and b"<svg" in head:
        return SVG
    return said if said in _PLAIN else "application/octet-stream"


_BEGINS: Final[Mapping[bytes, str]] = {
    b"\x89PNG\r\n\x1a\n": "image/png",
    b"\xff\xd8\xff": "image/jpeg",
    b"GIF87a": "image/gif",
    b"GIF89a": "image/gif",
}
