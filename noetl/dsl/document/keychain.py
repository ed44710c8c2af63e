"""The keys of keychain entries: which each kind has, and which of them must be there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from noetl.facts.json import JsonMap

#: The form of a token that says itself where it comes from.
FROM_ENDPOINT: Final = "endpoint"
#: What people call the address of its service.
ENDPOINT: Final = ("endpoint", "token_url")
#: What people call the kinds, and what they are called here.
KINDS: Final[Mapping[str, str]] = {
    "credential": "credential",
    "secret": "secret",
    "secrets": "secrets",
    "token": "token",
    "oauth2": "token",
    "bearer": "bearer",
    "static": "static",
    "data": "static",
}


@dataclass(frozen=True, slots=True)
class KeychainForm:
    """`needs` are groups of keys of which one must be there; `may` are further ones. Values at
    `own` are what the entry brings itself, and may be made of other entries."""

    needs: tuple[tuple[str, ...], ...]
    may: tuple[str, ...] = ()
    own: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return (*(key for group in self.needs for key in group), *self.may, "name", "kind", "description")


#: Form → its keys. Most kinds have one form.
FORMS: Final[Mapping[str, KeychainForm]] = {
    "credential": KeychainForm((("credential",),)),
    "secret": KeychainForm((("provider",),), ("path", "field", "version", "ttl", "auth")),
    "secrets": KeychainForm((("provider",), ("map",)), ("version", "ttl", "auth")),
    "token": KeychainForm((("auth", "credential"),), ("ttl", "auto_renew")),
    FROM_ENDPOINT: KeychainForm(
        (ENDPOINT, ("data",)), ("method", "headers", "ttl", "auto_renew"), (*ENDPOINT, "data", "headers")
    ),
    "bearer": KeychainForm((("token",),), own=("token",)),
    "map": KeychainForm((("map",),), own=("map",)),
    "static": KeychainForm(()),
}


@dataclass(frozen=True, slots=True)
class Variant:
    """The form of a kind that an entry has with one of the keys `having` and none of `lacking`."""

    kind: str
    form: str
    having: tuple[str, ...]
    lacking: tuple[str, ...] = ()


#: Of the kinds with several forms all but the first, which is called as the kind is.
VARIANTS: Final = (
    Variant("static", "map", ("map",)),
    Variant("secret", "secrets", ("map",)),
    Variant("token", FROM_ENDPOINT, ENDPOINT, ("auth", "credential")),
)
#: Fields of a token's `auth` that are secrets.
SECRET: Final = frozenset({"client_secret", "password", "token", "secret"})


def form_of(kind: str, entry: JsonMap) -> str:
    """Which of FORMS an entry of `kind` has."""
    fits = (
        variant.form
        for variant in VARIANTS
        if variant.kind == kind
        and _has(entry, variant.having)
        and not any(entry.get(key) for key in variant.lacking)
    )
    return next(fits, kind)


def _has(entry: JsonMap, keys: Iterable[str]) -> bool:
    return any(key in entry for key in keys)
