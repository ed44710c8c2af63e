"""What the WSGI server refuses by itself, before there is a request for the application: a problem
as well.

`gunicorn --worker-class noetl.api.refusals.ProblemWorker`; for any other class gunicorn answers in
HTML.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Final

from gunicorn import util
from gunicorn.http.errors import ParseException
from gunicorn.workers.gthread import ThreadWorker

from noetl.api.problems import MEDIA_TYPE, mask

if TYPE_CHECKING:
    import socket

#: By the name of the exception, since versions of gunicorn differ in what they have; 400 for what
#: is not named.
_ANSWERS: Final[Mapping[str, tuple[HTTPStatus, str]]] = {
    "LimitRequestLine": (HTTPStatus.REQUEST_URI_TOO_LONG, "uri-too-long"),
    "LimitRequestHeaders": (HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, "headers-too-large"),
    "ExpectationFailed": (HTTPStatus.EXPECTATION_FAILED, "expectation-failed"),
    "ForbiddenProxyRequest": (HTTPStatus.FORBIDDEN, "forbidden"),
    "UnsupportedTransferCoding": (HTTPStatus.NOT_IMPLEMENTED, "unsupported-transfer-coding"),
}
#: Not the client's faults.
_OURS: Final = frozenset({"ConfigurationProblem", "InvalidResponseHeader", "InvalidResponseHeaderName"})


class ProblemWorker(ThreadWorker):  # type: ignore[misc] # gunicorn has no types
    """gunicorn's worker with threads, whose own answers are problems."""

    def handle_error(
        self, req: object, client: socket.socket, addr: tuple[str, int] | str, exc: Exception
    ) -> None:
        """Answers what cannot be read as a request; faults that are not the client's as gunicorn
        does."""
        name = type(exc).__name__
        if not isinstance(exc, ParseException) or name in _OURS:
            super().handle_error(req, client, addr, exc)
            return
        status, kind = _ANSWERS.get(name, (HTTPStatus.BAD_REQUEST, "bad-request"))
        reason = mask(str(exc))
        self.log.warning("A request of %s cannot be read: %s", addr[0] if addr else "a socket", reason)
        try:
            util.write_nonblock(client, _answer(status, kind, reason))
        except OSError:
            self.log.debug("The client has gone before it was answered")


def _answer(status: HTTPStatus, kind: str, reason: str) -> bytes:
    body = json.dumps(
        {
            "type": f"urn:noetl:problem:{kind}",
            "title": status.phrase,
            "status": status.value,
            "detail": f"The request cannot be read: {reason.rstrip('.')}.",
        }
    ).encode()
    head = (
        f"HTTP/1.1 {status.value} {status.phrase}\r\nConnection: close\r\nContent-Type: {MEDIA_TYPE}\r\n"
        f"Content-Length: {len(body)}\r\nCache-Control: no-store\r\nX-Content-Type-Options: nosniff\r\n\r\n"
    )
    return head.encode("ascii") + body
