"""Tokens: made, looked through, revoked, and recognized.

A token is `noetl_<id>_<secret>`: the id may be seen, the secret is 256 random bits of which only a
SHA-256 is kept. It is told once, when the token is made.
"""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Final

from noetl.errors import BadRequest, NotFound, Unauthenticated, Unavailable
from noetl.facts.nearest import did_you_mean
from noetl.facts.rates import parse_rate
from noetl.usecases.access import Grant, Principal, check_name, parse_grants
from noetl.usecases.ports import TokenRow, Transaction
from noetl.usecases.runtime import Runtime

PREFIX: Final = "noetl_"
#: What people call tokens in URLs, where they get into logs and histories.
_IN_URLS: Final = frozenset({"token", "access_token", "api_key"})
#: The id of the token that the first start makes, and its principal.
FIRST: Final = "admin"
_FIRST_PREFIX: Final = f"{PREFIX}{FIRST}_"
#: 256 bits in URL-safe base64.
_SECRET: Final = re.compile(r"[A-Za-z0-9_-]{43}")
#: How long a token is good unless told otherwise.
LIFETIME: Final = timedelta(days=90)
_LONGEST_LIFETIME: Final = timedelta(days=3660)
_ID: Final = re.compile("[a-z0-9]{1,40}")
#: How exactly the time of the last use is known: a write for each request would cost too much.
_SEEN: Final = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class NewToken:
    """A token that was just made, and its text, which nobody can be told again."""

    row: TokenRow
    text: str


def is_in_url(name: str, value: str) -> bool:
    """Whether a parameter of a URL is a token, or is called so."""
    return name.lower() in _IN_URLS or value.startswith(PREFIX)


def create(
    rt: Runtime,
    principal: str,
    grants: Iterable[str],
    *,
    groups: Iterable[str] = (),
    lifetime: timedelta | None = LIFETIME,
    rate: str | None = None,
) -> NewToken:
    """Makes a token. Without a lifetime it is good until it is revoked. Raises BadRequest."""
    if lifetime is not None and not timedelta(0) < lifetime <= _LONGEST_LIFETIME:
        raise BadRequest(f"A token is good for up to {_LONGEST_LIFETIME.days} days, not for {lifetime}.")
    check_name(principal, "principal")
    wanted = tuple(dict.fromkeys(check_name(group, "group") for group in groups))
    parsed = parse_grants(grants)
    limit = None if rate is None else _check_rate(rate)
    now = rt.clock()
    # Without letters and digits that are taken for one another.
    token_id = "".join(secrets.choice("abcdefghjkmnpqrstuvwxyz23456789") for _ in range(10))
    made = _make(
        TokenRow(
            token_id=token_id,
            principal=principal,
            groups=wanted,
            grants=tuple(map(str, parsed)),
            secret_sha256="",
            created_at=now,
            created_by=rt.principal,
            rate=limit,
            expires_at=None if lifetime is None else now + lifetime,
        )
    )
    with rt.store.begin() as tx:
        tx.tokens.add(made.row)
        rt.record(tx, "token.created", token_id, {"principal": principal, "grants": list(made.row.grants)})
    return made


def has_first(rt: Runtime) -> bool:
    """Whether the token of the first start was made already."""
    with rt.store.read() as tx:
        return tx.tokens.get(FIRST) is not None


def create_first(rt: Runtime, keep: Callable[[str], None], earlier: str | None = None) -> bool:
    """Makes the token of the first start, which grants everything and does not expire; False where
    there was one already.

    `keep` is given its text before it counts: there is none that nobody knows, whatever happens
    between. `earlier` is the text of such a token of another database, which is good here, too, and
    needs no keeping.
    """
    row = TokenRow(FIRST, FIRST, (), (str(Grant("admin")),), "", rt.clock(), rt.principal)
    made = _make(row) if earlier is None else _with_secret(row, earlier.removeprefix(_FIRST_PREFIX))
    with rt.store.begin() as tx:
        if not tx.tokens.add(made.row):
            return False
        rt.record(tx, "token.created", FIRST, {"principal": FIRST, "grants": list(made.row.grants)})
        if earlier is None:
            keep(made.text)
    return True


def is_first(text: str) -> bool:
    """Whether it is the text of a token that a first start has made, here or elsewhere."""
    secret = text.removeprefix(_FIRST_PREFIX)
    return secret != text and _SECRET.fullmatch(secret) is not None


def _make(row: TokenRow) -> NewToken:
    return _with_secret(row, secrets.token_urlsafe(32))


def _with_secret(row: TokenRow, secret: str) -> NewToken:
    return NewToken(replace(row, secret_sha256=_hash(secret)), f"{PREFIX}{row.token_id}_{secret}")


def _check_rate(text: str) -> str:
    try:
        return parse_rate(text).text
    except ValueError as error:
        raise BadRequest(str(error)) from error


def _hash(secret: str) -> str:
    # 256 random bits cannot be guessed however fast the hash is.
    return hashlib.sha256(secret.encode()).hexdigest()


def tokens(rt: Runtime) -> list[TokenRow]:
    """All, oldest first."""
    with rt.store.read() as tx:
        return tx.tokens.find()


def find(rt: Runtime, token_id: str) -> TokenRow:
    """The token of that id, or of that text. Raises NotFound."""
    with rt.store.read() as tx:
        return _find(tx, _read_id(token_id))


def revoke(rt: Runtime, token_id: str) -> TokenRow:
    """From now on it is no longer good. Revoking twice is fine. Raises NotFound."""
    wanted = _read_id(token_id)
    with rt.store.begin() as tx:
        row = _find(tx, wanted)
        if tx.tokens.revoke(wanted, rt.clock()):
            rt.record(tx, "token.revoked", wanted, {"principal": row.principal})
        return _find(tx, wanted)


def _read_id(text: str) -> str:
    # Somebody who has found one somewhere has the whole of it at hand.
    return text.removeprefix(PREFIX).partition("_")[0]


def _find(tx: Transaction, token_id: str) -> TokenRow:
    row = tx.tokens.get(token_id)
    if row is None:
        hint = did_you_mean(token_id, (one.token_id for one in tx.tokens.find()))
        raise NotFound(f"There is no token {token_id[:80]!r}.{hint or ' `noetl token list` shows them.'}")
    return row


def recognize(rt: Runtime, text: str) -> Principal:
    """Whose token it is. Raises Unauthenticated for one that is none, or no longer good."""
    token_id, _, secret = text.removeprefix(PREFIX).partition("_")
    now = rt.clock()
    with rt.store.read() as tx:
        row = tx.tokens.get(token_id) if text.startswith(PREFIX) and _ID.fullmatch(token_id) else None
    if row is None or not hmac.compare_digest(row.secret_sha256, _hash(secret)):
        raise Unauthenticated("The token is not known here; `noetl token create` makes one.")
    if row.revoked_at is not None:
        raise Unauthenticated(f"Token {token_id} was revoked; `noetl token create` makes another one.")
    if row.expires_at is not None and row.expires_at <= now:
        raise Unauthenticated(
            f"Token {token_id} expired at {row.expires_at:%Y-%m-%d %H:%M} UTC; `noetl token create` makes "
            "another one."
        )
    if row.used_at is None or now - row.used_at >= _SEEN:
        _see(rt, token_id, now)
    grants = tuple(map(Grant.parse, row.grants))
    return Principal(row.principal, grants, row.groups, row.token_id, row.rate)


def _see(rt: Runtime, token_id: str, now: datetime) -> None:
    # Who asks to read need not wait until something can be written.
    with suppress(Unavailable), rt.store.begin_async_commit() as tx:
        tx.tokens.see(token_id, now)
