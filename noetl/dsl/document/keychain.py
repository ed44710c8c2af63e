"""The keys of keychain entries: which each kind has, which of them must be there, and the schema of
that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from noetl.dsl.document.schema_forms import CLOSED, REF, Schema, has_any, if_then
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
#: Keys that take a mapping by name, and no template of one.
_MAPPINGS: Final = frozenset({"map", "data"})
_MAPPING: Final[Schema] = {"type": ["object", "null"]}
#: Fields of a token's `auth` that are secrets.
SECRET: Final = frozenset({"client_secret", "password", "token", "secret"})


def form_of(kind: str, entry: JsonMap) -> str:
    """Which of FORMS an entry of `kind` has."""
    fits = (
        variant.form
        for variant in VARIANTS
        if variant.kind == kind
        and any(key in entry for key in variant.having)
        and not any(entry.get(key) for key in variant.lacking)
    )
    return next(fits, kind)


def add_keychain(schema: Schema) -> None:
    """Makes the whole schema know the entries of a keychain, which may be a list or a mapping."""
    schema["$defs"]["KeychainEntry"] = _entry()
    schema["$defs"]["NamedEntry"] = {"required": ["name"], "$ref": f"{REF}KeychainEntry"}
    keychain = schema["properties"]["keychain"]
    schema["properties"]["keychain"] = {
        **{key: found for key, found in keychain.items() if key != "allOf"},
        "allOf": [
            if_then({"type": "object"}, {"additionalProperties": {"$ref": f"{REF}KeychainEntry"}}),
            if_then({"type": "array"}, {"items": {"$ref": f"{REF}NamedEntry"}}),
        ],
    }


def _entry() -> Schema:
    words: dict[str, list[str]] = {}
    for word, kind in KINDS.items():
        words.setdefault(kind, []).append(word)
    rules = [
        if_then({"properties": {"kind": {"enum": sorted(said)}}, "required": ["kind"]}, _of_kind(kind))
        for kind, said in words.items()
    ]
    unsaid = if_then({"required": ["provider"]}, _of_kind("secret"), _of_kind("credential"))
    return {
        "type": "object",
        "properties": {"name": {"type": "string"}, "kind": {"enum": sorted(KINDS)}},
        "allOf": [*rules, if_then({"not": {"required": ["kind"]}}, unsaid)],
    }


def _of_kind(kind: str) -> Schema:
    found = _of_form(kind)
    for variant in VARIANTS:
        if variant.kind == kind:
            fits = has_any(*variant.having)
            if variant.lacking:
                fits = {**fits, "not": has_any(*variant.lacking)}
            found = if_then(fits, _of_form(variant.form), found)
    return found


def _of_form(name: str) -> Schema:
    """A form without keys takes any, and nothing reads them."""
    form = FORMS[name]
    if not form.needs:
        return {}
    # `scope` has no effect. `noetl validate` reports a secret that is written out, and knows what
    # to do.
    keys = sorted({*form.keys, *(() if form.own else SECRET), "scope"})
    return {
        "properties": {key: _MAPPING if key in _MAPPINGS else {} for key in keys},
        **CLOSED,
        "allOf": [if_then({"not": has_any(*group)}, {"required": [group[0]]}) for group in form.needs],
    }
