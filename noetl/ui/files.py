"""Files that executions have kept, as browsers fetch them: pictures are shown, everything else is
downloaded, and nothing of it runs."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import IO, Final
from urllib.parse import quote

from flask import Response

from noetl.errors import BadRequest
from noetl.ui.pictures import HEAD, SVG, find_type
from noetl.ui.site import here
from noetl.usecases import moment, results

_BLOCK: Final = 256 * 1024
#: Not even what a browser would take for a page reaches anything.
_POLICY: Final = "sandbox; default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


def send_artifact(execution_id: str, key: str) -> Response:
    """The artifact of that key. Raises NotFound, BadRequest and Unavailable."""
    if not moment.is_id(execution_id):
        raise moment.no_execution(execution_id)
    found = here().open_artifact(execution_id, key)
    with contextlib.ExitStack() as stack:
        file = stack.enter_context(found.file)
        return _send(file, stack, found.size, found.content_type, PurePosixPath(key).name)


def send_picture(name: str) -> Response:
    """A picture that was kept as a result. Raises NotFound, and BadRequest for what is none."""
    reference = results.reference_of(f"noetl://results/{name}")
    with contextlib.ExitStack() as stack:
        path = stack.enter_context(here().rt.results.file(reference))
        file = stack.enter_context(path.open("rb"))
        response = _send(file, stack, path.stat().st_size, SVG, PurePosixPath(name).name)
        if not (response.mimetype or "").startswith("image/"):
            response.close()
            raise BadRequest(f"The result {name[:200]!r} is no picture.")
        # Content never changes.
        response.headers["Cache-Control"] = "private, max-age=86400, immutable"
        return response


def _send(file: IO[bytes], stack: contextlib.ExitStack, size: int, said: str, name: str) -> Response:
    """The file, which is closed with the answer. `said` is what it is called; of pictures of pixels
    the bytes decide."""
    head = file.read(HEAD)
    content_type = find_type(head, said)
    release = stack.pop_all()

    def blocks() -> Iterator[bytes]:
        with release:
            block = head
            while block:
                yield block
                block = file.read(_BLOCK)

    is_shown = content_type.startswith("image/") and content_type != SVG
    how = "inline" if is_shown else "attachment"
    response = Response(blocks(), mimetype=content_type)
    response.headers.update(
        {
            "Content-Length": str(size),
            "Content-Disposition": f"{how}; filename*=UTF-8''{quote(name)}",
            "Content-Security-Policy": _POLICY,
            "X-Content-Type-Options": "nosniff",
        }
    )
    # A generator that was never begun never reaches its end.
    response.call_on_close(release.close)
    return response
