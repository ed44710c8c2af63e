"""What every request must pass, and the headers that every answer carries.

There are no tokens yet: what keeps strangers out is the loopback interface. So a page in the user's
browser must not be able to use that interface for its own ends: not by a form or a blind `fetch`
(content type, `Origin`), not by a name that it made resolve to 127.0.0.1 (`Host`).
"""

from __future__ import annotations

from ipaddress import ip_address
from typing import Final
from urllib.parse import urlsplit

from flask import Flask, Request, Response, request

from noetl.api.context import services
from noetl.api.problems import problem
from noetl.config import Settings

SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})
#: What a playbook may be sent as; none of them can come out of an HTML form.
YAML_TYPES: Final = frozenset({"application/yaml", "application/x-yaml", "text/yaml", "text/x-yaml"})
CATALOG: Final = "/api/catalog"
#: How long browsers may remember what a preflight said, in seconds.
_PREFLIGHT_S: Final = "600"


def register(app: Flask) -> None:
    """Puts the guards before, and the headers behind, every handler of `app`."""
    for guard in (_host, _origin, _no_nul, _content_type):
        app.before_request(guard)
    app.after_request(_headers)


# --- before --------------------------------------------------------------------------------------


def _host() -> Response | None:
    """On loopback only names of loopback are ours (DNS rebinding)."""
    if not is_loopback(services().settings.host) or is_loopback(_host_name(request.host)):
        return None
    detail = (
        f"The host {request.host[:200]!r} is not a name of this server, which listens on loopback only; "
        "set NOETL_HOST to serve others."
    )
    return problem(403, "foreign-host", detail)


def _origin() -> Response | None:
    """Pages of other origins change nothing, unless the settings name them."""
    origin = request.headers.get("Origin")
    if request.method in SAFE or origin is None or _is_own(origin) or _is_allowed(origin):
        return None
    detail = f"Pages of {origin[:200]} may not change anything here; NOETL_CORS_ORIGINS names those that may."
    return problem(403, "foreign-origin", detail)


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
    if not request.mimetype and not _has_body(request):
        return None
    charset = request.mimetype_params.get("charset", "utf-8").lower()
    if _is_readable(request.mimetype) and charset in ("utf-8", "utf8"):
        return None
    given = request.headers.get("Content-Type", "no content type")[:200]
    wanted = "application/json or application/yaml" if request.path == CATALOG else "application/json"
    return problem(415, "unsupported-media-type", f"The body must be {wanted} in UTF-8, not {given!r}.")


def _is_readable(mimetype: str) -> bool:
    if request.path == CATALOG and mimetype in YAML_TYPES:
        return True
    return mimetype == "application/json" or (
        mimetype.startswith("application/") and mimetype.endswith("+json")
    )


def _has_body(one: Request) -> bool:
    return bool(one.content_length) or "chunked" in one.headers.get("Transfer-Encoding", "").lower()


def _host_name(host: str) -> str:
    try:
        return urlsplit(f"//{host}").hostname or ""
    except ValueError:
        return ""


def is_loopback(host: str) -> bool:
    """Whether `host` (a name or an address, without port) can only mean this machine."""
    name = host.strip("[]").rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return ip_address(name).is_loopback
    except ValueError:
        return False


def _is_own(origin: str) -> bool:
    # The scheme is not compared: behind a proxy that speaks TLS it differs.
    scheme, _, netloc = origin.partition("://")
    return scheme in ("http", "https") and netloc.lower() == request.host.lower()


def _is_allowed(origin: str) -> bool:
    allowed = services().settings.cors_origins
    return origin in allowed or "*" in allowed


# --- behind --------------------------------------------------------------------------------------


def _headers(response: Response) -> Response:
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["X-Frame-Options"] = "DENY"
    response.headers["Referrer-Policy"] = "no-referrer"
    response.headers.setdefault("Cache-Control", "no-store")
    response.headers.setdefault("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
    _cors(response, services().settings)
    return response


def _cors(response: Response, settings: Settings) -> None:
    if not settings.cors_origins:
        return
    response.headers.add("Vary", "Origin")
    origin = request.headers.get("Origin")
    if origin is None or not _is_allowed(origin):
        return
    response.headers["Access-Control-Allow-Origin"] = origin
    response.headers["Access-Control-Expose-Headers"] = (
        "ETag, Location, Preference-Applied, Retry-After, X-Request-ID"
    )
    if request.method == "OPTIONS":
        response.headers["Access-Control-Allow-Methods"] = "GET, POST, PUT, PATCH, DELETE"
        response.headers["Access-Control-Allow-Headers"] = (
            "Content-Type, Idempotency-Key, If-Match, Last-Event-ID, Prefer, X-Request-ID, traceparent"
        )
        response.headers["Access-Control-Max-Age"] = _PREFLIGHT_S
