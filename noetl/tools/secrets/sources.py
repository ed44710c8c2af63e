"""Where secrets come from besides the encrypted credentials: access tokens, and providers, found
through the entry-point group `noetl.secrets`.

A provider is a class that is made with a `SourceSettings` and has `keep_s` and `read(name,
version)` (see `noetl.usecases.secrets.Provider`). NoETL's providers are registered like those of
other packages."""

from __future__ import annotations

import importlib.metadata
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from ipaddress import IPv4Network, IPv6Network
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.facts.nearest import did_you_mean
from noetl.facts.secret import STORE
from noetl.tools.kit.call_secrets import hide, open_data
from noetl.tools.kit.http.auth import TokenRoute, client_of
from noetl.tools.kit.http.messages import RequestLimits
from noetl.usecases.secrets import Provider, TokenRequest

if TYPE_CHECKING:
    from noetl.tools.kit.http.tokens import AccessTokens

GROUP = "noetl.secrets"
#: Seconds that fetching a token may take.
_FETCH_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class SourceSettings:
    """What the settings say to providers. A provider without a setting gives nothing."""

    #: Environment variables that may be read as secrets, by name without the prefix.
    variables: Mapping[str, str] = field(default_factory=dict, repr=False)
    #: How messages name the prefix. Empty: there is none.
    prefix: str = ""
    #: The directory that files of secrets lie below.
    directory: Path | None = None
    vault_addr: str = ""
    vault_token: str = field(default="", repr=False)
    vault_token_file: Path | None = None
    #: A file with the authorities that certificates are checked against. None: those of the system.
    vault_ca: Path | None = None


@cache
def entry_points() -> Mapping[str, importlib.metadata.EntryPoint]:
    """The installed providers by name, not loaded yet. NoETL's own win over others of the same
    name."""
    found: dict[str, importlib.metadata.EntryPoint] = {}
    for point in importlib.metadata.entry_points(group=GROUP):
        if point.name not in found or point.value.startswith("noetl."):
            found[point.name] = point
    return found


def unknown_provider(name: str) -> str:
    """Why there is no provider of that name; empty: there is one."""
    known = sorted([STORE, *entry_points()])
    if name in known:
        return ""
    hint = did_you_mean(name, known) or f" There are {', '.join(known)}."
    return f"There is no provider of secrets {name[:80]!r}.{hint}"


class Providers:
    """The providers of one process, each made when it is first asked. Thread-safe."""

    def __init__(self, settings: SourceSettings) -> None:
        self._settings = settings
        self._made: dict[str, Provider] = {}
        self._lock = threading.Lock()

    def __call__(self, name: str) -> Provider:
        """Raises ToolError where there is none, or where it cannot be loaded."""
        with self._lock:
            if name not in self._made:
                self._made[name] = self._make(name)
            return self._made[name]

    def _make(self, name: str) -> Provider:
        if fault := unknown_provider(name):
            raise ToolError("client_error", fault, type="UnknownProvider")
        point = entry_points()[name]
        try:
            made: Provider = point.load()(self._settings)
        # Broad on purpose: an import runs foreign code, whose failure is the task's and not the
        # worker's.
        except Exception as error:
            raise ToolError(
                "internal",
                f"The provider of secrets {name!r} cannot be loaded from {point.value}: {error}.",
                type=type(error).__name__,
            ) from error
        return made


class TokenSource:
    """One for each process. Thread-safe: those that need a token at once wait for one fetch."""

    def __init__(self, *, allow_private: bool, networks: tuple[IPv4Network | IPv6Network, ...]) -> None:
        self._allow_private = allow_private
        self._networks = networks
        self._lock = threading.Lock()
        self._tokens: AccessTokens | None = None

    def __call__(self, order: TokenRequest) -> str:
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
        # Imported here: `requests` takes 90 ms, and most workers fetch no token.
        from noetl.tools.kit.http.tokens import AccessTokens
        from noetl.tools.kit.http.transport import HttpClient

        with self._lock:
            if self._tokens is None:
                self._tokens = AccessTokens(
                    HttpClient(allow_private=self._allow_private, networks=self._networks)
                )
            return self._tokens
