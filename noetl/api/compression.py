"""Pages and answers leave compressed where the client takes that. Streams leave as they come, and
files as they lie there.

A page may hold the key of its forms beside what its address says. Who would guess the one from the
length of the answer (BREACH) needs other sites' requests to carry its cookie, which is strict."""

from __future__ import annotations

import gzip
from typing import Final

from flask import Flask, Response, request

#: Bytes below which there is nothing to be won.
LEAST: Final = 1_024
#: Most of what is to be won, for a third of the time that the best would take.
_LEVEL: Final = 5
_TYPES: Final = ("text/", "application/json", "application/problem+json", "application/yaml", "image/svg+xml")


def register(app: Flask) -> None:
    """To be called before others register what they do with answers: those are to see the text."""
    app.after_request(_compress)


def _compress(response: Response) -> Response:
    if response.is_streamed or response.direct_passthrough or not _is_text(response):
        return response
    response.vary.add("Accept-Encoding")
    if "Content-Encoding" in response.headers or not request.accept_encodings["gzip"]:
        return response
    text = response.get_data()
    if len(text) > LEAST:
        # Equal answers are equal bytes.
        response.set_data(gzip.compress(text, _LEVEL, mtime=0))
        response.headers["Content-Encoding"] = "gzip"
    return response


def _is_text(response: Response) -> bool:
    return (response.mimetype or "").startswith(_TYPES) and response.mimetype != "text/event-stream"
