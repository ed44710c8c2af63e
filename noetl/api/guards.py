"""What every request must pass, the headers that every answer carries, and the id of each request,
which its answer and all that is logged of it name.

On loopback nobody needs a token: what keeps strangers out is the interface. So a page in the user's
browser must not be able to use that interface for its own ends: not by a form or a blind `fetch`
(content type, `Origin`), not by a name that it made resolve to 127.0.0.1 (`Host`). Elsewhere a
token says who asks (`identity`), and a table what that one may do (`permissions`). Calls of the
addresses of tasks come from anywhere: whoever has such an address may call it (`called`).
"""

from __future__ import annotations

import logging
import re
import secrets
import time
from collections.abc import Collection, Mapping
from typing import Final
from urllib.parse import quote, urlsplit

from flask import Flask, Response, g, request

from noetl.api.called import is_body_of_call, is_call
from noetl.api.context import application, serve, services
from noetl.api.identity import PAGES, identify
from noetl.api.loopback import is_loopback as is_loopback
from noetl.api.permissions import check_route
from noetl.api.problems import mask, problem
from noetl.api.queries import refuse_unknown
from noetl.api.texts import YAML_TYPES
from noetl.config import Settings
from noetl.usecases.log_context import set_request

log = logging.getLogger("noetl.access")

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: What the form of a page is sent as, and nothing else here.
FORM_TYPE: Final = "application/x-www-form-urlencoded"
#: What takes a playbook as it is.
_PLAYBOOKS: Final = ("/api/catalog", "/api/executions", "/api/workflows/run")
#: Lines of JSON, which no HTML form sends either.
LINES: Final = "application/x-ndjson"
IMPORT: Final = "/api/executions/import"
_WANTED: Final[Mapping[str, str]] = {
    **dict.fromkeys(_PLAYBOOKS, "application/json or application/yaml"),
    IMPORT: LINES,
}
_WANTED_OF_CALLS: Final = "application/json, a form (application/x-www-form-urlencoded) or text/plain"
_MORE_TYPES: Final[Mapping[str, Collection[str]]] = {
    **dict.fromkeys(_PLAYBOOKS, YAML_TYPES),
    IMPORT: (LINES,),
}
#: What pages of the origins that the settings name may read, and what they may send; browsers
#: remember the latter for ten minutes.
_CORS: Final = {
    "Access-Control-Expose-Headers": (
        "ETag, Location, Preference-Applied, Retry-After, WWW-Authenticate, X-Request-ID"
    )
}
_PREFLIGHT: Final = {
    "Access-Control-Allow-Methods": "GET, POST, PUT, PATCH, DELETE",
    "Access-Control-Allow-Headers": (
        "Authorization, Content-Type, Idempotency-Key, If-Match, Last-Event-ID, Prefer, X-Request-ID, "
        "traceparent"
    ),
    "Access-Control-Max-Age": "600",
}


HEADER: Final = "X-Request-ID"
#: What may be an id: it is written into logs and answers as it is, and so is no token.
_ID: Final = re.compile(r"(?!.*noetl_)[A-Za-z0-9][A-Za-z0-9._:@/+=-]{0,127}")
#: W3C Trace Context: version, trace id, parent id, flags.
_TRACE: Final = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(-.*)?"
)


def register(app: Flask) -> None:
    """Puts the guards before, and the headers and the log behind, every handler of `app`."""
    for guard in (_begin, _host, _origin, _who, _no_nul, _content_type, _may, _query):
        app.before_request(guard)
    app.after_request(_end)
    app.after_request(_headers)


# --- before --------------------------------------------------------------------------------------


def _host() -> Response | None:
    """On loopback only names of loopback are ours (DNS rebinding)."""
    if is_call() or not is_loopback(application().settings.host) or is_loopback(_host_name(request.host)):
        return None
    detail = (
        f"The host {request.host[:200]!r} is not a name of this server, which listens on loopback only; "
        "set NOETL_HOST to serve others."
    )
    return problem(403, "foreign-host", detail)


def _origin() -> Response | None:
    """Pages of other origins change nothing, unless the settings name them."""
    origin = request.headers.get("Origin")
    if request.blueprint == PAGES and request.method not in SAFE:
        return _of_page(origin)
    if request.method in SAFE or origin is None or is_call() or _is_own(origin) or _is_allowed(origin):
        return None
    detail = f"Pages of {origin[:200]} may not change anything here; NOETL_CORS_ORIGINS names those that may."
    return problem(403, "foreign-origin", detail)


def _of_page(origin: str | None) -> Response | None:
    """Forms are sent by pages of this server alone, whatever the settings allow to scripts. All
    browsers say where a form comes from."""
    is_ours = request.headers.get("Sec-Fetch-Site") == "same-origin" if origin is None else _is_own(origin)
    if is_ours:
        return None
    detail = "Only the pages of this server send their forms; programs use what is below /api."
    return problem(403, "foreign-origin", detail)


def _who() -> None:
    """Nobody is served who has not said who it is, where that is asked for."""
    here = application()
    principal = identify(here)
    serve(principal)
    here.rates.count(principal)


def _may() -> None:
    """Nobody is served with what it may not do."""
    if request.routing_exception is None and request.method != "OPTIONS":
        # An address of an execution in it becomes its id.
        check_route(request.endpoint or "", services(), request.view_args or {})


def _query() -> Response | None:
    """Who misspells what narrows a list is not answered with all of it. Whoever calls the address
    of a task may add what it likes, and pages pass over what they do not know."""
    return None if request.routing_exception is not None or is_call() else refuse_unknown(request)


def _no_nul() -> Response | None:
    """No database keeps NUL in a text."""
    texts = [request.path, *request.args, *(value for _, value in request.args.items(multi=True))]
    if any("\0" in text for text in texts):
        return problem(400, "bad-request", "The URL holds NUL (%00).")
    return None


def _content_type() -> Response | None:
    if request.method in SAFE or request.routing_exception is not None:
        return None
    coding = request.headers.get("Content-Encoding", "identity").strip().lower()
    if coding != "identity":
        detail = f"Bodies encoded with {coding[:40]!r} are not read; send the body as it is."
        return problem(415, "unsupported-media-type", detail, headers={"Accept-Encoding": "identity"})
    is_chunked = "chunked" in request.headers.get("Transfer-Encoding", "").lower()
    if not request.mimetype and not request.content_length and not is_chunked:
        return None
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if _is_readable(request.mimetype) and charset in ("utf-8", "utf8"):
        return None
    given = request.headers.get("Content-Type", "no content type")[:200]
    wanted = _find_wanted()
    return problem(415, "unsupported-media-type", f"The body must be {wanted} in UTF-8, not {given!r}.")


def _find_wanted() -> str:
    """The type of a body that the request may have, in words."""
    if is_call():
        return _WANTED_OF_CALLS
    return FORM_TYPE if request.blueprint == PAGES else _WANTED.get(request.path, "application/json")


def _is_readable(mimetype: str) -> bool:
    if request.blueprint == PAGES:
        return mimetype == FORM_TYPE
    if mimetype in _MORE_TYPES.get(request.path, ()) or (is_call() and is_body_of_call(mimetype)):
        return True
    return mimetype == "application/json" or (
        mimetype.startswith("application/") and mimetype.endswith("+json")
    )


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def _is_own(origin: str) -> bool:
    # The scheme is not compared: behind a proxy that speaks TLS it differs.
    scheme, _, netloc = origin.partition("://")
    return scheme in ("http", "https") and netloc.lower() == request.host.lower()


def _is_allowed(origin: str) -> bool:
    allowed = application().settings.cors_origins
    return origin in allowed or "*" in allowed


# --- behind --------------------------------------------------------------------------------------


def _headers(response: Response) -> Response:
    response.headers.update({"X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY"})
    response.headers.setdefault("Referrer-Policy", "no-referrer")
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
    _cors(response, application().settings)
    return response


def _cors(response: Response, settings: Settings) -> None:
    if not settings.cors_origins:
        return
    response.headers.add("Vary", "Origin")
    origin = request.headers.get("Origin")
    if origin is None or not _is_allowed(origin):
        return
    response.headers.update({"Access-Control-Allow-Origin": origin, **_CORS})
    if request.method == "OPTIONS":
        response.headers.update(_PREFLIGHT)


# --- the id of a request, and its line of the log ---


def id_of(given: str | None, traceparent: str | None) -> str:
    """The id that a request came with: that of `X-Request-ID`, else the trace of `traceparent`,
    else a new one. Anything that is not an id is passed over."""
    if given is not None and _ID.fullmatch(given):
        return given
    trace = _TRACE.fullmatch(traceparent or "")
    return trace[1] if trace else secrets.token_hex(16)


def _begin() -> None:
    g.began = time.perf_counter()
    g.request_id = id_of(request.headers.get(HEADER), request.headers.get("traceparent"))
    set_request(g.request_id)


def _end(response: Response) -> Response:
    response.headers[HEADER] = g.request_id
    # The thread serves another one next; until then what the server logs is about none.
    response.call_on_close(lambda: set_request(None))
    if log.isEnabledFor(logging.INFO):
        took = round((time.perf_counter() - g.began) * 1000, 1)
        # Without its query: a caller may have put there what does not belong in the log.
        path = quote(mask(request.path), safe="/…")
        said = {
            "method": request.method,
            "path": path,
            "status": response.status_code,
            "duration_ms": took,
            "client": request.remote_addr,
            "principal": services().principal.name,
        }
        log.info(
            "%s %s %d in %s ms for %s (request %s)",
            request.method,
            path,
            response.status_code,
            took,
            services().principal.name,
            g.request_id,
            extra={"fields": said},
        )
    return response
