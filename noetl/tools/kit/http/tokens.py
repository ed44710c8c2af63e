"""Access tokens of a worker process (OAuth 2.0 client credentials): fetched once, kept until
shortly before they end."""

from __future__ import annotations

import json
import math
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.kit.http.answer import retry_after
from noetl.tools.kit.http.auth import OAuthClient, TokenRoute
from noetl.tools.kit.http.messages import HttpRequest, HttpResponse, RequestLimits, bare
from noetl.tools.kit.http.transport import HttpClient

#: Clients that are remembered; the one that was not asked for the longest is forgotten.
_CLIENTS: Final = 256
#: Seconds that a token is kept whose end is unknown.
_UNKNOWN_S: Final = 300.0
#: A token is given up this long before its end, or a fifth of its life if that is less.
_EARLY_S: Final = 30.0
#: What token endpoints say (RFC 6749, 5.2). Other words are not repeated: they may echo the
#: request.
_REASONS: Final = frozenset(
    {
        "invalid_request",
        "invalid_client",
        "invalid_grant",
        "unauthorized_client",
        "unsupported_grant_type",
        "invalid_scope",
    }
)


@dataclass(slots=True)
class _Kept:
    """The token of one client. The lock is held while it is fetched."""

    lock: threading.Lock = field(default_factory=threading.Lock)
    token: str | None = field(default=None, repr=False)
    until: float = 0.0


class AccessTokens:
    """Safe for threads: those that need the token of one client at once wait for one fetch.

    `clock` counts seconds; it need not know the date.
    """

    def __init__(self, http: HttpClient, clock: Callable[[], float] = time.monotonic) -> None:
        self._http = http
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    def token(
        self,
        who: OAuthClient,
        way: TokenRoute,
        limits: Callable[[], RequestLimits],
        refused: str | None = None,
        *,
        ttl: float | None = None,
        renew: bool = True,
    ) -> str:
        """A token that is good, as far as it is known; never `refused`, unless it is issued again.

        `limits` are what is left for the call. `ttl` bounds the seconds that a token is used;
        without `renew` one that has ended is not replaced. Raises ToolError(auth | rate_limit |
        server_error | timeout | connection)."""
        kept = self._of(who.key)
        if not kept.lock.acquire(timeout=max(limits().total, 0.0)):
            raise ToolError(
                "timeout",
                f"{who.place}: {bare(who.token_url)} gave no token within the time of the call.",
                retryable=True,
                type="Timeout",
            )
        try:
            if kept.token is None or kept.token == refused or self._clock() >= kept.until:
                if kept.token is not None and not renew:
                    raise ToolError(
                        "auth",
                        f"{who.place}: the token has ended, and `auto_renew` is off.",
                        type="TokenEnded",
                    )
                # Forgotten first: where the fetch fails, the next call asks again.
                kept.token = None
                asked = self._clock()
                token, lasts = fetch_token(self._http, who, way, limits())
                lasts = lasts if ttl is None else min(lasts, ttl)
                kept.token, kept.until = token, asked + lasts - min(_EARLY_S, lasts / 5)
            return kept.token
        finally:
            kept.lock.release()

    def _of(self, key: str) -> _Kept:
        with self._lock:
            kept = self._kept.setdefault(key, _Kept())
            self._kept.move_to_end(key)
            if len(self._kept) > _CLIENTS:
                self._kept.popitem(last=False)
            return kept


def fetch_token(
    http: HttpClient, who: OAuthClient, way: TokenRoute, limits: RequestLimits
) -> tuple[str, float]:
    """A new token and the seconds that it lasts. Raises ToolError where the service gives none."""
    # Not followed: a redirect would take the secret to an address that the playbook does not name.
    order = HttpRequest(
        "POST",
        who.token_url,
        headers={"accept": "application/json", "accept-encoding": "gzip, deflate", **who.headers},
        body=who.form,
        verify=way.verify,
        proxy=way.proxy,
        follow=False,
    )
    answer = http.exchange(order, limits)
    if answer.status != 200:
        raise _refusal(who, answer)
    said = _mapping(answer.body)
    token = said.get("access_token")
    if not (
        isinstance(token, str) and token and token.isascii() and token.isprintable() and " " not in token
    ):
        raise ToolError("auth", f"{_at(who)} answered without a usable `access_token`.", type="TokenMissing")
    if str(said.get("token_type") or "bearer").lower() != "bearer":
        raise ToolError("auth", f"{_at(who)} gives tokens that are no bearer tokens.", type="TokenType")
    return token, _lasts(said.get("expires_in"))


def _lasts(said: Json) -> float:
    """Some servers send the seconds as text; anything that is not a number counts as unknown."""
    try:
        seconds = float(said) if isinstance(said, str | int | float) else _UNKNOWN_S
    except (ValueError, OverflowError):
        return _UNKNOWN_S
    return max(seconds, 0.0) if math.isfinite(seconds) else _UNKNOWN_S


def _refusal(who: OAuthClient, answer: HttpResponse) -> ToolError:
    reason = _mapping(answer.body).get("error")
    why = f"{answer.status}, {reason}" if reason in _REASONS else str(answer.status)
    seen: dict[str, Json] = {"status": answer.status}
    after = retry_after(answer.headers.get("retry-after"), datetime.now(UTC))
    if after is not None:
        seen["retry_after"] = after
    kind, retryable, next_move = _meaning(answer.status)
    return ToolError(
        kind,
        f"{_at(who)} gave no token ({why}); {next_move}.",
        retryable=retryable,
        type="TokenRefused",
        extras={"http": seen, "status": answer.status},
    )


def _meaning(status: int) -> tuple[str, bool, str]:
    if status == 429:
        return "rate_limit", True, "ask less often"
    if status >= 500 or status == 408:
        return "server_error", True, "try again later"
    if 300 <= status < 400:
        return "auth", False, "give the address that it redirects to as `token_url`"
    return "auth", False, "check `client_id`, `client_secret` and `scope`"


def _at(who: OAuthClient) -> str:
    return f"{who.place}: {bare(who.token_url)}"


def _mapping(body: bytes) -> dict[str, Json]:
    try:
        value = json.loads(body)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
