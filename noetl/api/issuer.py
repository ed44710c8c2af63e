"""Reads the tokens of an OpenID Connect issuer (JWT) with the keys that it publishes."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import jwt
import requests

from noetl.api.oidc import OidcSettings
from noetl.errors import Forbidden, Unauthenticated, Unavailable
from noetl.usecases.access import ANONYMOUS, Principal

#: Signatures that only the issuer can make. One that who checks it could make is none.
ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA"),
)
#: Seconds for which the issuer's keys are good, and after which it is asked again for one that is
#: not among them, or where it did not answer.
KEEP_S: Final = 3600.0
AGAIN_S: Final = 10.0
#: Seconds by which clocks may differ.
_LEEWAY_S: Final = 30
_TIMEOUT_S: Final = (3.0, 5.0)
_DISCOVERY: Final = "/.well-known/openid-configuration"
#: Characters of a principal's name, and groups that an error names.
_LONGEST: Final = 200
_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class _Published:
    """What the issuer publishes: how it calls itself, and its keys by their ids."""

    issuer: str
    keys: Mapping[str, jwt.PyJWK] = field(default_factory=dict)


class IssuerKeys:
    """The keys of an issuer, asked for when they are needed and kept for a while."""

    def __init__(self, url: str) -> None:
        self._url = url.rstrip("/")
        self._found: _Published | None = None
        self._asked_at = float("-inf")
        self._lock = threading.Lock()

    def find(self, key_id: str | None) -> tuple[str, jwt.PyJWK]:
        """How the issuer calls itself, and its key of that id; without one its only key. Raises
        Unauthenticated where it has none, Unavailable where it does not answer."""
        with self._lock:
            found = self._fresh()
            key = _pick(found, key_id)
            if key is None and self._may_ask():
                found = self._ask()
                key = _pick(found, key_id)
        if key is None:
            raise Unauthenticated("The token is signed with a key that its issuer has not; sign in again.")
        return found.issuer, key

    def _may_ask(self) -> bool:
        return time.monotonic() - self._asked_at >= AGAIN_S

    def _fresh(self) -> _Published:
        """What it published, not too long ago, or where it does not answer now."""
        found = self._found
        if found is not None and time.monotonic() - self._asked_at < KEEP_S:
            return found
        if found is None and not self._may_ask():
            raise self._away("it did not answer a moment ago")
        return self._ask()

    def _ask(self) -> _Published:
        """Asks the issuer. What it published before stays good where it does not answer."""
        self._asked_at = time.monotonic()
        try:
            self._found = self._read()
        except Unavailable:
            if self._found is None:
                raise
        assert self._found is not None, "it was read, then or now"
        return self._found

    def _read(self) -> _Published:
        try:
            about = self._get(self._url + _DISCOVERY)
            issuer, place = str(about["issuer"]), str(about["jwks_uri"])
            keys = jwt.PyJWKSet.from_dict(self._get(place)).keys
        except (requests.RequestException, KeyError, TypeError, ValueError, jwt.PyJWTError) as error:
            raise self._away(type(error).__name__) from error
        if issuer.rstrip("/") != self._url:
            raise self._away(f"it calls itself {issuer[:200]!r}")
        signing = (key for key in keys if key.public_key_use in (None, "sig"))
        return _Published(issuer, {key.key_id or "": key for key in signing})

    def _get(self, url: str) -> Any:
        answer = requests.get(url, timeout=_TIMEOUT_S)
        answer.raise_for_status()
        return answer.json()

    def _away(self, why: str) -> Unavailable:
        return Unavailable(f"The keys of the issuer {self._url} cannot be read ({why}); try again.")


def _pick(found: _Published, key_id: str | None) -> jwt.PyJWK | None:
    if key_id is None:
        return next(iter(found.keys.values())) if len(found.keys) == 1 else None
    return found.keys.get(key_id)


class JwtIssuer:
    """`noetl.api.oidc.Issuer`."""

    def __init__(self, settings: OidcSettings) -> None:
        self._settings = settings
        self._keys = IssuerKeys(settings.issuer)

    def recognize(self, text: str) -> Principal:
        """Raises Unauthenticated, Forbidden and Unavailable, as the protocol says."""
        claims = self._read(text)
        name, groups = self._name(claims), _texts(_claim(claims, self._settings.groups))
        grants = tuple(grant for group, grant in self._settings.grants if group in ("*", *groups))
        if not grants:
            raise Forbidden(_say_groups(name, groups))
        return Principal(name, tuple(dict.fromkeys(grants)), groups)

    def _read(self, text: str) -> Mapping[str, Any]:
        """The claims of a token that is good. Raises Unauthenticated, Unavailable."""
        try:
            head = jwt.get_unverified_header(text)
            if head.get("alg") not in ALGORITHMS:
                raise Unauthenticated(
                    "The token has no signature of a kind that is taken here (RS256, ES256, …)."
                )
            issuer, key = self._keys.find(head.get("kid"))
            return jwt.decode(
                text,
                key,
                algorithms=list(ALGORITHMS),
                audience=self._settings.audience,
                issuer=issuer,
                leeway=_LEEWAY_S,
                options={"require": ["exp", "iss", "aud"]},
            )
        except jwt.PyJWTError as error:
            raise Unauthenticated(self._why(error)) from error

    def _why(self, error: jwt.PyJWTError) -> str:
        match error:
            case jwt.ExpiredSignatureError():
                return "The token has expired; sign in again."
            case jwt.InvalidAudienceError():
                return f"The token is not for {self._settings.audience!r} (NOETL_OIDC_AUDIENCE)."
            case jwt.InvalidIssuerError():
                return f"The token is not of {self._settings.issuer} (NOETL_OIDC_ISSUER)."
            case jwt.MissingRequiredClaimError(claim=claim):
                return f"The token does not say {claim!r}."
            case _:
                return "The token is not known here, nor signed by the issuer that is; sign in again."

    def _name(self, claims: Mapping[str, Any]) -> str:
        name = _claim(claims, self._settings.principal)
        if not isinstance(name, str) or not name.isprintable() or not 0 < len(name) <= _LONGEST:
            raise Unauthenticated(f"The claim {self._settings.principal!r} of the token names nobody.")
        if name == ANONYMOUS:
            raise Unauthenticated(f"The token names {ANONYMOUS!r}, which is nobody.")
        return name


def _claim(claims: Mapping[str, Any], name: str) -> Any:
    """The claim of that name, or below the dots of it: `realm_access.roles`."""
    if name in claims:
        return claims[name]
    found: Any = claims
    for part in name.split("."):
        found = found.get(part) if isinstance(found, Mapping) else None
    return found


def _texts(value: Any) -> tuple[str, ...]:
    listed = [value] if isinstance(value, str) else value
    return tuple(one for one in listed if isinstance(one, str)) if isinstance(listed, list) else ()


def _say_groups(name: str, groups: tuple[str, ...]) -> str:
    shown = ", ".join(groups[:_SHOWN]) + ("" if len(groups) <= _SHOWN else ", …")
    return (
        f"{name} is in {f'the groups {shown}' if groups else 'no group'}, and nothing is granted to "
        "that: NOETL_OIDC_GRANTS says what groups may do."
    )
