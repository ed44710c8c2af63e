"""Each request has an id, from whoever asks or made here, which its answer and all that is logged
of it name."""

from __future__ import annotations

import logging
import re
import secrets
import time
from typing import Final
from urllib.parse import quote

from flask import Flask, Response, g, request

from noetl.usecases.log_context import about_request

log = logging.getLogger("noetl.access")

HEADER: Final = "X-Request-ID"
#: What may be an id: it is written into logs and answers as it is.
_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:@/+=-]{0,127}")
#: W3C Trace Context: version, trace id, parent id, flags.
_TRACE: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)


def register(app: Flask) -> None:
    """Gives the requests of `app` their ids, and a line of the log each."""
    app.before_request(_begin)
    app.after_request(_end)


def id_of(given: str | None, traceparent: str | None) -> str:
    """The id that a request came with: that of `X-Request-ID`, else the trace of `traceparent`,
    else a new one. What is no id is passed over."""
    if given is not None and _ID.fullmatch(given):
        return given
    trace = _TRACE.fullmatch(traceparent or "")
    return trace[1] if trace else secrets.token_hex(16)


def _begin() -> None:
    g.began = time.perf_counter()
    g.request_id = id_of(request.headers.get(HEADER), request.headers.get("traceparent"))
    about_request(g.request_id)


def _end(response: Response) -> Response:
    response.headers[HEADER] = g.request_id
    # The thread goes on with another one; until then what the server logs is about none.
    response.call_on_close(lambda: about_request(None))
    if log.isEnabledFor(logging.INFO):
        took = round((time.perf_counter() - g.began) * 1000, 1)
        # Without its query: whoever calls may have put there what is none of the log's business.
        path = quote(request.path)
        said = {
            "method": request.method,
            "path": path,
            "status": response.status_code,
            "duration_ms": took,
            "client": request.remote_addr,
        }
        log.info(
            "%s %s %d in %s ms (request %s)",
            request.method,
            path,
            response.status_code,
            took,
            g.request_id,
            extra={"fields": said},
        )
    return response
