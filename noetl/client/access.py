"""Who asks, who may ask, and who asked for what: what the methods for that are made from."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final
from urllib.parse import quote

from noetl.client.core import Operation, Request, ask, make_body, make_params
from noetl.facts.json import JsonMap

#: Seconds for which a token is good unless told otherwise.
LIFETIME_S: Final = 90 * 86_400
#: Entries that are asked for at once.
_PAGE: Final = 1000


def whoami() -> Operation[JsonMap]:
    """Who this client is to the server: `{principal, groups, scopes, token_id, open}`. Raises
    Unauthenticated."""
    return ask(Request("GET", "/api/whoami"))


def create_token(
    principal: str,
    scopes: Sequence[str],
    *,
    groups: Sequence[str] = (),
    expires_s: int | None = LIFETIME_S,
    rate: str | None = None,
) -> Operation[JsonMap]:
    """Makes a token, good for so many seconds, or with None until it is revoked. Its text is
    `token` of what is returned, this once. Raises BadRequest, Forbidden."""
    body = {
        "principal": principal,
        "scopes": list(scopes),
        "groups": list(groups),
        "expires_s": expires_s,
        **make_body(rate=rate),
    }
    return ask(Request("POST", "/api/tokens", body=body, again=False))


def list_tokens() -> Operation[list[JsonMap]]:
    """All tokens without their secrets, the oldest first, as `GET /api/tokens` lists them."""
    said = yield from ask(Request("GET", "/api/tokens"))
    found: list[JsonMap] = said["tokens"]
    return found


def revoke_token(token_id: str) -> Operation[JsonMap]:
    """Has a token be good no longer; twice is fine. Raises NotFound."""
    return ask(Request("DELETE", f"/api/tokens/{quote(token_id, safe='')}"))


def audit(
    *,
    principal: str | None = None,
    action: str | None = None,
    subject: str | None = None,
    execution: str | None = None,
    request_id: str | None = None,
    since: str | None = None,
    until: str | None = None,
    limit: int = 100,
) -> Operation[list[JsonMap]]:
    """The newest entries of the audit of which all that holds, newest first, as `GET /api/audit`
    lists them. `since` and `until` are instants in ISO 8601, or `-2h` for two hours ago."""
    params = make_params(
        principal=principal,
        action=action,
        subject=subject,
        execution=execution,
        request_id=request_id,
        since=since,
        until=until,
    )
    found: list[JsonMap] = []
    while len(found) < limit:
        size = min(_PAGE, limit - len(found))
        said = yield from ask(Request("GET", "/api/audit", {**params, "limit": str(size)}))
        found += said["entries"]
        if said["next"] is None:
            break
        params["before"] = str(said["next"])
    return found
