"""Styles and scripts of the pages. Their addresses change with what is in them, so that browsers
keep them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from flask import Response

from noetl.errors import NotFound

_FOLDER: Final = Path(__file__).parent / "static"
#: Types by suffix: what the machine's own table says differs from one to the next.
_TYPES: Final[Mapping[str, str]] = {
    ".css": "text/css",
    ".js": "text/javascript",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain",
    ".md": "text/plain",
}
_FILES: Final[Mapping[str, bytes]] = {
    one.relative_to(_FOLDER).as_posix(): one.read_bytes()
    for one in sorted(_FOLDER.rglob("*"))
    if one.suffix in _TYPES
}
_DIGEST: Final = hashlib.sha256(
    b"\0".join(name.encode() + b"\0" + content for name, content in _FILES.items())
).hexdigest()[:12]
RULE: Final = "/static/<digest>/<path:name>"


def url_of(name: str) -> str:
    """Where a file of the folder is."""
    assert name in _FILES, name
    return f"/static/{_DIGEST}/{name}"


def serve(digest: str, name: str) -> Response:
    """A file. Raises NotFound.

    What another version of this server had is not there any more, and is answered with what there
    is now, which nobody keeps.
    """
    if name not in _FILES:
        raise NotFound(f"There is no file {name[:200]!r}.")
    keep = "public, max-age=31536000, immutable" if digest == _DIGEST else "no-store"
    kind = _TYPES[Path(name).suffix]
    return Response(_FILES[name], mimetype=kind, headers={"Cache-Control": keep})
