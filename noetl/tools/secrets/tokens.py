"""Access tokens of keychain entries: fetched when they are first wanted, kept by the worker, renewed before they end."""

from __future__ import annotations

import threading
from dataclasses import replace
from ipaddress import IPv4Network, IPv6Network
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.tools.kit.http.auth import client_of
from noetl.tools.kit.opening import hide, whole
from noetl.usecases.secrets import TokenOrder

if TYPE_CHECKING:
    from noetl.tools.kit.http.tokens import Tokens

#: Seconds that fetching a token may take.
_FETCH_S: Final = 30.0


class TokenSource:
    """One for each process. Thread-safe: those that need a token at once wait for one fetch."""

    def __init__(self, *, allow_private: bool, networks: tuple[IPv4Network | IPv6Network, ...]) -> None:
        self._allow_private = allow_private
        self._networks = networks
        self._lock = threading.Lock()
        self._tokens: Tokens | None = None

    def __call__(self, order: TokenOrder) -> str:
        """Raises ToolError(auth | rate_limit | server_error | timeout | connection | client_error)."""
        # Imported here: `requests` takes 90 ms, and most workers fetch no token.
        from noetl.tools.kit.http.tokens import Way
        from noetl.tools.kit.http.transport import Limits

        who = client_of(order.place, whole(order.auth))
        hide([who.client_secret, who.headers.get("authorization", "").partition(" ")[2]])
        if not order.renew:
            if not order.execution_id:
                raise ToolError("client_error", f"{order.place}: `auto_renew: false` needs an execution.")
            who = replace(who, holder=order.execution_id)
        limits = Limits(10.0, _FETCH_S, _FETCH_S, 1_048_576)
        token = self._opened().token(who, Way(), lambda: limits, ttl=order.ttl, renew=order.renew)
        hide([token])
        return token

    def _opened(self) -> Tokens:
        from noetl.tools.kit.http.tokens import Tokens  # see `__call__`
        from noetl.tools.kit.http.transport import Client

        with self._lock:
            if self._tokens is None:
                self._tokens = Tokens(Client(allow_private=self._allow_private, networks=self._networks))
            return self._tokens
