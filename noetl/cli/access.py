"""What a start says of who may ask: the first token, requests that need one, and open servers."""

from __future__ import annotations

from noetl import bootstrap
from noetl.api.guards import is_loopback
from noetl.cli.complaints import warn
from noetl.config import Settings
from noetl.dispatch.null import NullDispatcher
from noetl.local_access import find_good_token, keep_first_token, open_warning


def prepare_token(settings: Settings) -> str | None:
    """Has the database know the first token, and the home hold it. The token in the home, where the
    database takes it. Raises ConfigError where it cannot be kept, and what the database raises."""
    rt = bootstrap.runtime(settings, NullDispatcher())
    try:
        keep_first_token(rt, settings)
        found = find_good_token(rt, settings)
    finally:
        bootstrap.close(rt)
    if found is None and settings.token_file.exists():
        warn(
            f"{settings.token_file} holds a token that this database does not take, and commands on this "
            "machine send it: put a good one there, or move it away."
        )
    return found


def warn_if_open(settings: Settings) -> None:
    """One warning where everybody who reaches the API may do what they like."""
    if message := open_warning(settings):
        warn(message)


def needs_token(settings: Settings) -> bool:
    """Whether requests from this machine need a token; those from elsewhere do unless the server is
    open."""
    return not is_loopback(settings.host) if settings.open is None else not settings.open


def token_of_stack(found: str | None, settings: Settings) -> str | None:
    """What a command sends to a stack that it has started itself: the token that was found in the
    home, else NOETL_TOKEN, which may well be for another server where none is needed."""
    given = settings.token.strip() if needs_token(settings) else ""
    return found or given or None


def describe_tokens(settings: Settings) -> tuple[bool, str, str]:
    """Whether all is well with who may ask, how it is, and what to do where it is not."""
    file, warning = settings.token_file, open_warning(settings)
    kept = (
        f"the first one is in {file}" if file.exists() else f"{file} is made by the first start of a server"
    )
    if file.exists() and (mode := file.stat().st_mode & 0o777) & 0o077:
        detail = f"{file} may be read by others (mode {mode:o}), who can do everything with it"
        return False, detail, f"Run `chmod 600 {file}`."
    if warning is not None:
        return is_loopback(settings.host), warning.partition(";")[0], "Unset NOETL_OPEN."
    return True, f"{kept}; NOETL_TOKEN is {'set, and sent instead' if settings.token else 'not set'}", ""
