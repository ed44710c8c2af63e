"""Segments of URLs that hold what people wrote: a business key may have slashes.

WSGI hands over a path that is decoded already, in which the slash of a key looks like any other.
Below the routes of executions each segment is therefore taken from the URL as it was sent, and its
slashes and percent signs stay encoded until the route has been found.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final
from urllib.parse import unquote_to_bytes, urlsplit

from noetl.api.aliases import SHORT

if TYPE_CHECKING:
    from _typeshed.wsgi import StartResponse, WSGIApplication, WSGIEnvironment

#: What the routes begin with that have addresses of executions in them, keys of slots, or queues.
_BELOW: Final = (
    *("/api/executions/", "/api/vars/", "/api/workflows/", "/api/limits/", "/api/queues/"),
    SHORT,
)
_SLASH: Final = "%2F"
_PERCENT: Final = "%25"


class KeptSegments:
    """The application behind it finds one segment where the URL has one."""

    def __init__(self, app: WSGIApplication) -> None:
        self._app = app

    def __call__(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        path = environ.get("PATH_INFO", "")
        if path.startswith(_BELOW):
            environ["PATH_INFO"] = "/".join(map(_encode, _segments(environ, path)))
        return self._app(environ, start_response)


def _segments(environ: WSGIEnvironment, path: str) -> list[str]:
    """Decoded, each by itself. Servers that do not tell the URL as it was sent tell no slashes
    apart."""
    sent = urlsplit(environ.get("RAW_URI") or environ.get("REQUEST_URI") or "").path
    found = [unquote_to_bytes(one).decode("latin-1") for one in sent.split("/")]
    above = environ.get("SCRIPT_NAME", "")
    if "/".join(found) != above + path:
        return path.split("/")
    return ["", *found[above.count("/") + 1 :]]


def _encode(segment: str) -> str:
    return segment.replace("%", _PERCENT).replace("/", _SLASH)


def decode_segment(text: str) -> str:
    """What a segment says that a route was given."""
    return text.replace(_SLASH, "/").replace(_PERCENT, "%")
