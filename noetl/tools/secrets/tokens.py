"""Access tokens of keychain entries: fetched when they are first wanted, kept by the worker,
renewed before they end."""

from __future__ import annotations

import threading
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.tools.kit.call_secrets import hide, open_data
from noetl.tools.kit.http.auth import TokenRoute, client_of
from noetl.tools.kit.http.messages import RequestLimits
from noetl.usecases.secrets import TokenOrder

if TYPE_CHECKING:
    from noetl.tools.kit.http.tokens import AccessTokens

#: Seconds that fetching a token may take.
_FETCH_S: Final = 30.0


class TokenSource:
    """One for each process. Thread-safe: those that need a token at once wait for one fetch."""

    def __init__(self, *, allow_private: bool, networks: tuple[IPv4Network | IPv6Network, ...]) -> None:
        self._allow_private = allow_private
        self._networks = networks
        self._lock = threading.Lock()
        self._tokens: AccessTokens | None = None

    def __call__(self, order: TokenOrder) -> str:
        """Raises ToolError(auth | rate_limit | server_error | timeout | connection |
        client_error)."""
        who = client_of(order.place, open_data(order.auth))
        hide([who.client_secret, who.headers.get("authorization", "").partition(" ")[2]])
        if not order.renew:
            if not order.execution_id:
                raise ToolError("client_error", f"{order.place}: `auto_renew: false` needs an execution.")
            who = replace(who, holder=order.execution_id)
        limits = RequestLimits(10.0, _FETCH_S, _FETCH_S, 1_048_576)
        token = self._open().token(who, TokenRoute(), lambda: limits, ttl=order.ttl, renew=order.renew)
        hide([token])
        return token

    def _open(self) -> AccessTokens:
        from noetl.tools.kit.http.tokens import (
            AccessTokens,  # `requests` takes 90 ms, and most workers fetch no token
        )
        from noetl.tools.kit.http.transport import HttpClient

        with self._lock:
            if self._tokens is None:
                self._tokens = AccessTokens(
                    HttpClient(allow_private=self._allow_private, networks=self._networks)
                )
            return self._tokens
