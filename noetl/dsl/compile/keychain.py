"""The keychain of a playbook: named secrets, and where each comes from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, Final

from noetl.dsl.compile.context import KEYCHAIN, Context
from noetl.dsl.document.keychain import ENDPOINT, FORMS, KINDS, SECRET, form_of
from noetl.dsl.document.texts import holds_template, is_template
from noetl.dsl.problems import Path
from noetl.facts.durations import seconds
from noetl.facts.json import Json, JsonMap

#: Where the secret of one field is.
PLACE: Final = ("path", "field", "version")
#: What OAuth calls the parts of a client; everything else is a parameter of its request.
CLIENT: Final = ("client_id", "client_secret", "scope", "audience")
#: The only `grant_type` of a client (RFC 6749, 4.4).
GRANT: Final = "client_credentials"


def compile_keychain(context: Context) -> tuple[JsonMap, ...]:
    """The entries, each with `name`, its `kind` (credential, secret, token, or static, which cannot
    be read), and what that kind needs. Values of the playbook itself are its `data`: the fields of
    a credential of one execution alone."""
    found: dict[str, JsonMap] = {}
    for path, name, entry in iterate_entries(context.document.keychain):
        form = form_of_entry(entry)
        for key, value in entry.items() if form != "static" else ():
            if key != "name" and holds_template(value):
                context.use((*path, key), value, KEYCHAIN)
        kept = {key: entry[key] for key in entry if key in FORMS[form].keys}
        for made in _compile_entry(form, name, kept):
            found[str(made["name"])] = made
    return tuple(found.values())


def iterate_entries(keychain: Any) -> Iterator[tuple[Path, str, JsonMap]]:
    """The entries that have a name: where each stands, and what else it says."""
    if isinstance(keychain, Mapping):
        for key, entry in keychain.items():
            yield ("keychain", key), key, entry
        return
    for index, entry in enumerate(keychain or ()):
        name = entry.get("name")
        if isinstance(name, str) and name and not is_template(name):
            yield ("keychain", index), name, {key: entry[key] for key in entry if key != "name"}


def kind_of_entry(entry: JsonMap) -> Json:
    """What the entry calls its kind."""
    return entry.get("kind", "secret" if "provider" in entry else "credential")


def form_of_entry(entry: JsonMap) -> str:
    """Which of FORMS it has: `static` where its kind is unknown, or its secret is plain text. Such
    an entry has a name all the same, so that its uses are not reported as well."""
    said = kind_of_entry(entry)
    kind = KINDS.get(said) if isinstance(said, str) else None
    form = "static" if kind is None else form_of(kind, entry)
    return "static" if not FORMS[form].own and _holds_plain_text(entry) else form


def _holds_plain_text(entry: JsonMap) -> bool:
    auth = entry.get("auth")
    if isinstance(auth, Mapping) and not SECRET.isdisjoint(auth):
        return True
    return any(isinstance(entry.get(key), str) and not is_template(entry[key]) for key in SECRET)


def _compile_entry(form: str, name: str, entry: JsonMap) -> Iterator[JsonMap]:
    """The entry, behind the secrets that it consists of."""
    lasting = _lasting(entry)
    match form:
        case "static":
            yield {"name": name, "kind": "static"}
        case "secrets":
            yield from _compile_secrets(name, entry)
        case "bearer":
            yield _credential(name, {"type": "bearer", "token": entry.get("token")}) | lasting
        case "map":
            yield _credential(name, as_mapping(entry.get("map"))) | lasting
        case "endpoint":
            yield {**lasting, "name": name, "kind": "token", "data": _compile_client(entry)}
        case "token":
            auth = {"auth": entry["credential"]} if "credential" in entry else {}
            rest = {key: entry[key] for key in entry if key != "credential"}
            yield {**auth, **rest, **lasting, "name": name, "kind": form}
        case "secret":
            # In the mapping form `name` is free to be what the provider calls it.
            yield {"path": entry.get("name", name), **entry, **lasting, "name": name, "kind": form}
        case _:
            yield {**entry, "name": name, "kind": form}


def _credential(name: str, data: JsonMap) -> dict[str, Json]:
    return {"name": name, "kind": "credential", "data": data}


def _compile_secrets(name: str, entry: JsonMap) -> Iterator[JsonMap]:
    """A secret for each field of `map`, as `<name>.<field>`, and the entry that has them all."""
    fields = as_mapping(entry.get("map"))
    shared = {key: entry[key] for key in ("provider", "version", "auth") if key in entry}
    shared |= _lasting(entry)
    for field, place in fields.items():
        own = place if isinstance(place, Mapping) else {"path": place}
        kept = {key: own[key] for key in PLACE if key in own}
        yield {**shared, "path": field, **kept, "name": f"{name}.{field}", "kind": "secret"}
    yield _credential(name, {field: f"{{{{ keychain[{f'{name}.{field}'!r}] }}}}" for field in fields})


def _compile_client(entry: JsonMap) -> JsonMap:
    """The client as a credential of type `oauth2` has it."""
    given = as_mapping(entry.get("data"))
    grant = given.pop("grant_type", GRANT)
    made: dict[str, Json] = {
        "type": "oauth2",
        "token_url": next((entry[key] for key in ENDPOINT if key in entry), None),
        **{key: given.pop(key) for key in CLIENT if key in given},
        "client_auth": "body",
    }
    if is_template(grant):
        made["grant_type"] = grant
    if given:
        made["params"] = given
    if entry.get("headers"):
        made["headers"] = as_mapping(entry["headers"])
    return made


def _lasting(entry: JsonMap) -> dict[str, Json]:
    """How long it is good for: `ttl` in seconds, and `auto_renew`."""
    kept = {key: entry[key] for key in ("ttl", "auto_renew") if key in entry}
    if "ttl" in kept:
        with contextlib.suppress(ValueError):  # a check reports it
            kept["ttl"] = seconds(kept["ttl"])
    return kept


def as_mapping(value: Json) -> dict[str, Json]:
    """A copy of `value`; empty where it is not a mapping, which a check reports."""
    return dict(value) if isinstance(value, Mapping) else {}
