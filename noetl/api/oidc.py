"""Tokens of an OpenID Connect issuer: who signs in there may do here what its groups may.

`issuer` reads them, which needs an extra; `issuers` opens it where the settings name one.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, Self
from urllib.parse import urlsplit

from noetl.api.loopback import is_loopback
from noetl.config import Settings
from noetl.errors import BadRequest, ConfigError
from noetl.usecases.access import Grant, Principal


class Issuer(Protocol):
    """Who signs tokens that are taken besides those of this server."""

    def recognize(self, text: str) -> Principal:
        """Whose token it is. Raises Unauthenticated for one that is not good here, Forbidden where
        none of its groups may do anything, Unavailable where the issuer's keys cannot be read."""


@dataclass(frozen=True, slots=True)
class OidcSettings:
    """Whose tokens are taken, for whom they have to be, which claims name the principal and its
    groups, and what each group may do: `*` is everybody who signs in."""

    issuer: str
    audience: str
    principal: str
    groups: str
    grants: tuple[tuple[str, Grant], ...]

    @classmethod
    def of(cls, settings: Settings) -> Self:
        """Raises ConfigError."""
        grants = tuple(map(_parse_grant, settings.oidc_grants))
        url = urlsplit(settings.oidc_issuer)
        if url.scheme != "https" and not (url.scheme == "http" and is_loopback(url.hostname or "")):
            raise ConfigError(
                f"NOETL_OIDC_ISSUER={settings.oidc_issuer!r} cannot be trusted: its keys have to come over "
                "https."
            )
        if not settings.oidc_audience:
            raise ConfigError("NOETL_OIDC_AUDIENCE is not set: say for whom tokens of the issuer have to be.")
        if not grants:
            raise ConfigError(
                "NOETL_OIDC_GRANTS is not set: say what groups may do, like sre=operate, or *=read."
            )
        return cls(
            settings.oidc_issuer,
            settings.oidc_audience,
            settings.oidc_principal,
            settings.oidc_groups,
            grants,
        )


def _parse_grant(text: str) -> tuple[str, Grant]:
    group, equals, grant = text.rpartition("=")
    if not equals or not group.strip():
        raise ConfigError(
            f"NOETL_OIDC_GRANTS has {text[:80]!r}, which is not GROUP=SCOPE or GROUP=SCOPE:PATH."
        )
    try:
        return group.strip(), Grant.parse(grant)
    except BadRequest as error:
        raise ConfigError(f"NOETL_OIDC_GRANTS has {text[:80]!r}: {error}") from error
