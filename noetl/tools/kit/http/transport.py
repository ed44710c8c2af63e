"""HTTP exchanges that end: guarded addresses, bounded time, bounded bodies, few redirects.

Built on the adapter of `requests` (connection pool, TLS, encodings) without its Session: no cookies
are kept, no proxy, netrc or certificate bundle is taken from the environment, and redirects are
followed here, because a Session reads the whole body of each hop.
"""

from __future__ import annotations

import contextlib
import io
import logging
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import requests
import urllib3

from noetl.errors import ToolError
from noetl.facts.durations import compact
from noetl.tools.kit.calls import StopSignal
from noetl.tools.kit.http.addresses import AddressGuard, Networks, reachable
from noetl.tools.kit.http.guarded import GuardedAdapter, hold_sockets
from noetl.tools.kit.http.messages import HttpRequest, HttpResponse, RequestLimits, bare, same_origin

# `verify: false` is the author's decision; the driver's reminder at every call does not help.
urllib3.disable_warnings(urllib3.exceptions.InsecureRequestWarning)

# It writes whole addresses, and with them what stands in their queries.
logging.getLogger("urllib3.connectionpool").setLevel(logging.CRITICAL)

_CHUNK = 64 * 1024
#: Headers that are no secret and go along to another origin.
_HARMLESS = frozenset({"accept", "accept-encoding", "accept-language", "content-type", "user-agent"})
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_ABOUT_BODY = frozenset({"content-length", "content-type", "transfer-encoding", "idempotency-key"})


class HttpClient:
    """The connections of a worker process. Safe for threads."""

    def __init__(self, *, allow_private: bool, networks: Networks = ()) -> None:
        self._guard = AddressGuard(allow_private, networks)
        self._adapter = GuardedAdapter(self._guard)

    def exchange(
        self, order: HttpRequest, limits: RequestLimits, stop: StopSignal | None = None
    ) -> HttpResponse:
        """Sends `order` and reads its answer, whatever its status; `stop` ends that from outside.
        Raises ToolError."""
        started, stop = time.monotonic(), stop or StopSignal()
        visited = [order.url]
        with hold_sockets() as grip, stop.watch(limits.total, grip.cut):
            try:
                answer = self._follow(_prepare(order), order, limits, started, visited)
            except (OSError, ValueError, requests.RequestException, urllib3.exceptions.HTTPError) as error:
                stop.refuse_cancelled()
                raise _timeout(order, visited, limits) if stop.late else failure(error, visited) from error
        # A body without a length ends cleanly where it is cut: ask, do not trust.
        stop.refuse_cancelled()
        if stop.late:
            raise _timeout(order, visited, limits)
        return answer

    def close(self) -> None:
        self._adapter.close()

    def _follow(
        self,
        request: requests.PreparedRequest,
        order: HttpRequest,
        limits: RequestLimits,
        started: float,
        visited: list[str],
    ) -> HttpResponse:
        """The answer behind all redirects; `visited` gets the addresses on the way to it."""
        for hop in range(limits.redirects + 1):
            response = self._send(request, order, limits)
            with contextlib.closing(response):
                target = response.headers.get("location") if response.status_code in _REDIRECTS else None
                if not (order.follow and target):
                    file = order.into if response.status_code < 400 else None
                    body = _read_body(response, file, limits)
                    return HttpResponse(
                        status=response.status_code,
                        reason=str(response.reason or ""),
                        headers={str(name).lower(): str(value) for name, value in response.headers.items()},
                        url=str(response.url),
                        elapsed=round(time.monotonic() - started, 6),
                        body=body,
                        redirects=hop,
                        file=file,
                    )
            request = _redirect(request, response.status_code, target)
            visited.append(request.url or "")
        raise ToolError(
            "limit",
            f"{bare(order.url)} redirected more than {limits.redirects} times; call the final address.",
            type="TooManyRedirects",
        )

    def _send(
        self, request: requests.PreparedRequest, order: HttpRequest, limits: RequestLimits
    ) -> requests.Response:
        proxies = None
        if order.proxy is not None:
            # The connection is the proxy's, which finds the host by itself: all that can be done
            # here is to refuse what is known to be inside.
            if not self._guard.allow_private:
                parts = urlsplit(request.url or "")
                reachable(parts.hostname or "", parts.port or 80, guard=self._guard)
            proxies = {"http": order.proxy, "https": order.proxy}
        timeout = (limits.connect, limits.read)
        return self._adapter.send(request, stream=True, timeout=timeout, verify=order.verify, proxies=proxies)


def check_url(url: str) -> None:
    """Raises ToolError(client_error) unless `url` is plain http(s) without user information."""
    try:
        parts = urlsplit(url)
        host, _ = parts.hostname, parts.port
    except ValueError as error:
        raise _bad_url(url, str(error)) from error
    if parts.scheme.lower() not in ("http", "https"):
        raise _bad_url(url, f"its scheme is '{parts.scheme}', and only http and https are spoken")
    if any(ord(char) < 32 or ord(char) == 127 for char in url) or "\\" in parts.netloc:
        raise _bad_url(url, "it holds a line break, a control character or a backslash")
    if "@" in parts.netloc:
        raise ToolError(
            "client_error",
            "The URL holds a user name or password; give them as `auth` instead.",
            type="InvalidUrl",
        )
    if not host:
        raise _bad_url(url, "it names no host")


def _bad_url(url: str, why: str) -> ToolError:
    shown = bare(url).encode("unicode_escape").decode()
    return ToolError("client_error", f"'{shown}' cannot be called: {why}.", type="InvalidUrl")


def _prepare(order: HttpRequest) -> requests.PreparedRequest:
    check_url(order.url)
    request = requests.Request(
        order.method,
        order.url,
        headers=dict(order.headers),
        params=list(order.params),
        data=cast("Any", order.body),
        files=list(order.files) or None,
    )
    prepared = request.prepare()
    check_url(prepared.url or "")
    return prepared


def _redirect(before: requests.PreparedRequest, status: int, location: str) -> requests.PreparedRequest:
    """The request of the next hop: secrets stay with the origin that they were meant for."""
    old = before.url or ""
    # Header bytes were read as latin-1; a location in UTF-8 comes out right again.
    with contextlib.suppress(UnicodeError):
        location = location.encode("latin-1").decode("utf-8")
    new = urljoin(old, location)
    check_url(new)
    after = before.copy()
    after.prepare_url(new, None)
    headers = dict(after.headers)
    method = before.method or "GET"
    if (status == 303 and method != "HEAD") or (status in (301, 302) and method == "POST"):
        after.method, after.body = "GET", None
        headers = {k: v for k, v in headers.items() if k.lower() not in _ABOUT_BODY}
    if not same_origin(old, after.url or ""):
        kept = _HARMLESS | ({"content-length"} if after.body else frozenset())
        headers = {k: v for k, v in headers.items() if k.lower() in kept}
    after.headers = requests.structures.CaseInsensitiveDict(headers)
    return after


def _read_body(response: requests.Response, file: Path | None, limits: RequestLimits) -> bytes:
    """The decompressed body; empty where it is written to `file`. One that is too large is an
    error; that of an error is cut."""
    failed = response.status_code >= 400
    success_limit = limits.body if file is None else limits.file_body
    limit = limits.error_body if failed else success_limit
    declared = response.headers.get("content-length", "")
    if not failed and declared.isdecimal() and int(declared[:20]) > limit:
        raise _too_large(response, limit)
    size = 0
    with io.BytesIO() if file is None else file.open("wb") as target:
        for chunk in response.raw.stream(_CHUNK, decode_content=True):
            size += target.write(chunk)
            if size > limit:
                if not failed:
                    raise _too_large(response, limit)
                break
        return target.getvalue()[:limit] if isinstance(target, io.BytesIO) else b""


def _too_large(response: requests.Response, limit: int) -> ToolError:
    return ToolError(
        "limit",
        f"The body of {bare(str(response.url))} is larger than {limit} bytes; ask for less (a "
        "page, a filter), or take it `as: file`.",
        type="BodyTooLarge",
    )


def _place(visited: Sequence[str]) -> str:
    """The address that was asked last, for people."""
    first, last = bare(visited[0]), bare(visited[-1])
    return last if len(visited) == 1 else f"{last} (redirected from {first})"


def _timeout(order: HttpRequest, visited: Sequence[str], limits: RequestLimits) -> ToolError:
    return ToolError(
        "timeout",
        f"{order.method} {_place(visited)} did not end within {compact(round(limits.total, 2))}; "
        "raise `timeout` or ask for less.",
        retryable=True,
        type="Timeout",
    )


def failure(error: Exception, visited: Sequence[str]) -> ToolError:
    """What an exception of the drivers means: at the last of the addresses that led to one
    another."""
    place, why, name = _place(visited), _cause(error), type(error).__name__
    r, u = requests.exceptions, urllib3.exceptions
    match error:
        case r.SSLError() | u.SSLError():
            return ToolError("connection", f"No secure connection to {place}: {why}.", type=name)
        case r.ProxyError() if " 407" in why:
            message = f"The proxy on the way to {place} asks for another user or password."
            return ToolError("auth", message, type=name)
        case r.ProxyError():
            message = f"No way to {place} through the proxy: {why}."
            return ToolError("connection", message, retryable=True, type=name)
        case r.Timeout() | u.TimeoutError() | TimeoutError():
            return ToolError("timeout", f"{place} did not answer in time.", retryable=True, type=name)
        case r.ContentDecodingError() | u.DecodeError():
            return ToolError("server_error", f"The body of {place} cannot be decompressed: {why}.", type=name)
        case r.ConnectionError() | r.ChunkedEncodingError() | u.HTTPError():
            return ToolError("connection", f"No answer from {place}: {why}.", retryable=True, type=name)
        case OSError() if not isinstance(error, r.RequestException):
            return ToolError("connection", f"No answer from {place}: {why}.", retryable=True, type=name)
        case _:
            return ToolError("client_error", f"The request to {place} cannot be sent: {why}.", type=name)


def _cause(error: BaseException) -> str:
    """The innermost reason: drivers wrap it into sentences that repeat the whole URL."""
    reason: Any = error
    for _ in range(8):
        if isinstance(reason, OSError) and reason.strerror:
            return reason.strerror
        inner = getattr(reason, "reason", None)
        inner = inner if isinstance(inner, BaseException) else reason.__cause__ or reason.__context__
        if inner is None:
            break
        reason = inner
    text = " ".join(str(reason).split()).rstrip(".")
    return text[:200] or type(reason).__name__
