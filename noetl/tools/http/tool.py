"""The tool `http`: one request, answered by `{status_code, headers, url, elapsed, data}`."""

from __future__ import annotations

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import Outcome, succeeded
from noetl.net.model import Effects, Spelling
from noetl.pipeline.model import Call
from noetl.tools.http.request import HttpConfig, limits_of, order_of
from noetl.tools.kit import effects
from noetl.tools.kit.base import Services, Tool
from noetl.tools.kit.call_secrets import current_mask, hide
from noetl.tools.kit.calls import RunningCalls, StopSignal
from noetl.tools.kit.declaration import ToolDeclaration
from noetl.tools.kit.http.answer import content, links, mask_secrets, refusal
from noetl.tools.kit.http.auth import OAuthClient, RequestCredentials, TokenRoute, grant_of
from noetl.tools.kit.http.messages import HttpRequest, HttpResponse, RequestLimits, same_origin
from noetl.tools.kit.large import retention_of

if TYPE_CHECKING:
    from noetl.tools.kit.http.tokens import AccessTokens
    from noetl.tools.kit.http.transport import HttpClient
_UNKNOWN: Final = "application/octet-stream"
#: What RFC 9110 (9.2) promises of methods: the safe ones, and those that may be sent again.
_EFFECTS: Final[Mapping[str, Effects]] = {
    **dict.fromkeys(("GET", "HEAD", "OPTIONS", "TRACE"), "none"),
    **dict.fromkeys(("PUT", "DELETE"), "idempotent"),
}


class Http(Tool):
    """One request. Connections are pooled for each worker process.

    At most one kind of body, except that form fields may stand beside `files`. `POST`, `PUT`,
    `PATCH` and `DELETE` carry an `Idempotency-Key` that is the same for every attempt, unless
    `headers` set one. A redirect to another origin takes no credentials along. `timeout.connect`
    and `timeout.read` bound each wait; `total` bounds the call with its redirects, its body, and
    the token that is fetched for it; `spec.timeout` bounds the call as well. A call that is
    cancelled hangs up. No proxy is taken from the environment; `auth` is one of the
    [credentials](../tools.md#credentials).

    With a credential of type `oauth2` the worker fetches an access token, once for all of its
    calls, and keeps it until shortly before its end. A token that the service refuses (401) is
    fetched again, once, and the request sent again.

    What `auth` adds is not seen again: where a server echoes it, `***` stands in the result, in
    errors and in addresses. Secrets of fewer than six characters, or of fewer than ten small
    letters, are taken out of addresses only.

    With `NOETL_ALLOW_PRIVATE_NETWORKS=false` addresses that are not public are refused, in whatever
    spelling, also behind names, redirects and of proxies, except those of `NOETL_ALLOWED_NETWORKS`.
    A host is resolved once; what was checked is what is connected to. Behind a proxy the host is
    checked as well, but it is the proxy that resolves it for itself."""

    declaration = ToolDeclaration(
        kind="http",
        queue="http",
        sections=("http", "body"),
        effects="external",
        description="Calls an HTTP service and yields {status_code, headers, url, elapsed, data}.",
        result="""
            `{status_code, headers, url, elapsed, data}`; header names are in lower case. `data` is the body:
            JSON where it is JSON, else text, else base64 with `encoding: base64`; a document for each line
            (`application/x-ndjson`) is text. A JSON number that no float holds keeps its digits: it is exact.
            With `as: json` a body that is no JSON is an error; `text` is never parsed; `bytes` are base64.
            With `as: file` the body, up to 8 GiB, goes to the result store a block at a time, and `data` is
            its reference: what stands behind it is read where somebody looks. For templates the fields of a
            JSON body stand behind those of the response: `output.data.rows` finds `rows` of the body. `body`
            is another name of `data`, also for python; in templates a field `body` of the JSON body wins. An
            answer with a Link header has `links` as well, `{next: address, ...}`, those to the same server.
            [Pagination](../reference/repeating.md#pagination) collects the pages of a list.
        """,
        errors="""
            A status of 400 or more is an error: 401, 403 and 407 `auth`, 408 `timeout`, 429 `rate_limit`, 500
            and above `server_error`, the others `client_error`. `outcome.http` holds `{status, headers,
            retry_after, body}`, with the beginning of the body. 429, 408, 425 and 5xx except 501 and 505 are
            retryable; a retry waits at least as long as `Retry-After` asked.
        """,
        example="""
            - step: orders
              tool:
                kind: http
                url: "{{ workload.base_url }}/rows"
                params: {page: 1}
                auth: {type: bearer, token: "{{ workload.token }}"}
                timeout: {connect: 2, read: 5, total: 10}
              next: end
            - step: end
              tool: {kind: noop, input: {rows: "{{ orders.data.rows }}"}}
        """,
        config_model=HttpConfig,
        spellings={
            "verify_ssl": Spelling("verify"),
            "follow_redirects": Spelling("allow_redirects"),
        },
        required=(("url", "endpoint"),),
        credentials=("auth", "proxy.auth"),
    )

    def __init__(self, services: Services) -> None:
        super().__init__(services)
        self._lock = threading.Lock()
        self._wire: tuple[HttpClient, AccessTokens] | None = None
        self._running = RunningCalls()

    def run(self, call: Call, config: HttpConfig) -> Outcome:
        limits = _share_time(limits_of(config, call, self.services))
        order = order_of(config, call, self.services)
        grant = grant_of(config.auth, self.services)
        hide(grant.secrets, (name for name, _ in grant.params))
        with self._running.enter(call) as stop, body_file(config, self.services) as aside:
            answer = self._exchange(replace(order, into=aside), grant, limits, stop)
            # Before secrets are taken out of the headers, and with them what stands around.
            related = {"links": found} if (found := links(answer)) else {}
            return _outcome(
                config, mask_secrets(answer), related, lambda: keep_body(answer, call, self.services)
            )

    def interrupt(self, call: Call) -> None:
        self._running.interrupt(call)

    @classmethod
    def effects_of(cls, config: Mapping[str, Json]) -> Effects | None:
        method = config.get("method") or "GET"
        return _EFFECTS.get(method.upper()) if isinstance(method, str) else None

    @classmethod
    def touches(cls, config: Mapping[str, Json]) -> tuple[str, ...]:
        method = effects.one_line(config.get("method") or "GET").upper()
        return (f"{method} {effects.address(effects.first(config, 'url', 'endpoint'))}",)

    def close(self) -> None:
        with self._lock:
            if self._wire is not None:
                self._wire[0].close()
                self._wire = None

    def _exchange(
        self,
        order: HttpRequest,
        grant: RequestCredentials,
        limits: Callable[[], RequestLimits],
        stop: StopSignal,
    ) -> HttpResponse:
        if grant.client is not None:
            return self._exchange_with_token(order, grant.client, limits, stop)
        headers, params = {**order.headers, **grant.headers}, [*order.params, *grant.params]
        return self._connect()[0].exchange(replace(order, headers=headers, params=params), limits(), stop)

    def _exchange_with_token(
        self, order: HttpRequest, who: OAuthClient, limits: Callable[[], RequestLimits], stop: StopSignal
    ) -> HttpResponse:
        """A token may end before its time: one that is refused is replaced, once."""

        client, tokens = self._connect()
        hide([who.client_secret, who.headers.get("authorization", "").partition(" ")[2]])
        way, refused = TokenRoute(order.verify, order.proxy), None
        while True:
            token = tokens.token(who, way, limits, refused)
            hide([token])
            bearing = replace(order, headers={**order.headers, "authorization": f"Bearer {token}"})
            answer = client.exchange(bearing, limits(), stop)
            # Behind a redirect to another origin the token was not even shown.
            if answer.status != 401 or refused is not None or not same_origin(order.url, answer.url):
                return answer
            refused = token

    def _connect(self) -> tuple[HttpClient, AccessTokens]:
        # Imported here: `requests` takes 90 ms, and the compiler reads this module without calling
        # it.
        from noetl.tools.kit.http.tokens import AccessTokens
        from noetl.tools.kit.http.transport import HttpClient

        with self._lock:
            if self._wire is None:
                client = HttpClient(
                    allow_private=self.services.allow_private_networks,
                    networks=self.services.allowed_networks,
                )
                self._wire = client, AccessTokens(client)
            return self._wire


def _share_time(limits: RequestLimits) -> Callable[[], RequestLimits]:
    """What is left of `limits` whenever it is asked for: all exchanges of a call share its time."""
    ends = time.monotonic() + limits.total

    def remaining() -> RequestLimits:
        total = max(ends - time.monotonic(), 0.001)
        return replace(limits, connect=min(limits.connect, total), read=min(limits.read, total), total=total)

    return remaining


def _outcome(
    config: HttpConfig, answer: HttpResponse, related: JsonMap, in_file: Callable[[], Json]
) -> Outcome:
    seen = {"status": answer.status, "headers": dict(answer.headers)}
    if answer.status >= 400:
        raise refusal(config.method.upper(), answer, seen)
    notes: set[str] = set()
    result: dict[str, Json] = {
        "status_code": answer.status,
        "headers": dict(answer.headers),
        "url": answer.url,
        "elapsed": answer.elapsed,
        "data": None,
        **related,
    }
    result |= {"data": in_file()} if config.as_ == "file" else content(answer, config.as_, notes)
    meta: dict[str, Json] = {"warnings": sorted(notes)} if notes else {}
    if answer.redirects:
        meta["redirects"] = answer.redirects
    return succeeded(result, meta, http=seen)


@contextmanager
def body_file(config: HttpConfig, services: Services) -> Iterator[Path | None]:
    """A file for the body, for as long as the block runs; None where it is read into memory. Raises
    ToolError(client_error) where there is no result store to keep it in."""
    if config.as_ != "file":
        yield None
        return
    if services.results is None:
        raise ToolError("client_error", "`as: file` needs a result store, and there is none here.")
    services.scratch.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="noetl-http-", dir=services.scratch) as folder:
        yield Path(folder, "body")


def keep_body(answer: HttpResponse, call: Call, services: Services) -> Json:
    """The reference of the body, which is kept as `spec.result` says; null for an empty one."""
    assert answer.file is not None, "an answer that is no error was written to it"
    assert services.results is not None, "asked for before the call"
    if answer.file.stat().st_size == 0:
        return None
    shown = current_mask().file(answer.file, answer.file.with_name("shown"))
    content_type = answer.headers.get("content-type", _UNKNOWN)
    return services.results.put_file(shown, content_type, retention_of(call, services))
