"""Which token a command sends along."""

from __future__ import annotations

from urllib.parse import urlsplit

from noetl.client.core import host_here
from noetl.config import Settings
from noetl.local_access import read_token

_PORTS = {"http": 80, "https": 443}


def token_for(server: str, settings: Settings) -> str | None:
    """The token for the server at that URL: NOETL_TOKEN, else, where it is on this machine, that of
    the first start. The latter opens everything here and never leaves for another machine. Raises
    ConfigError."""
    if settings.token.strip():
        return settings.token.strip()
    return (read_token(settings.token_file) or None) if _is_ours(server, settings) else None


def _is_ours(server: str, settings: Settings) -> bool:
    """Whether the server can only be on this machine, or is where the settings have one listen."""
    if host_here(server) is not None:
        return True
    if "@" in server or "\\" in server:
        # Not everybody reads these in the same way.
        return False
    try:
        url = urlsplit(server)
        port = url.port or _PORTS.get(url.scheme)
    except ValueError:
        return False
    return (url.hostname, port) == (settings.host.strip("[]").lower(), settings.port)
