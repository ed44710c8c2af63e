"""Opens the issuer of tokens that the settings name."""

from __future__ import annotations

from noetl.api.oidc import Issuer, OidcSettings
from noetl.config import Settings
from noetl.errors import ConfigError
from noetl.facts.distribution import install_line


def open_issuer(settings: Settings) -> Issuer | None:
    """That of the settings; None where they name none. Raises ConfigError, also where the extra is
    missing."""
    if not settings.oidc_issuer:
        return None
    wanted = OidcSettings.of(settings)
    try:
        from noetl.api.issuer import JwtIssuer  # it needs an extra
    except ModuleNotFoundError as error:
        raise ConfigError(
            f"NOETL_OIDC_ISSUER is set, and tokens of issuers need the package {error.name}: "
            f"{install_line('oidc')}."
        ) from error
    return JwtIssuer(wanted)
