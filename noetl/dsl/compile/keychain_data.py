"""Entries of the keychain that bring their own values: what is kept, encrypted, as a credential of
one execution."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from noetl.dsl.compile.context import Context
from noetl.dsl.document.keychain import ENDPOINT
from noetl.dsl.document.texts import is_template
from noetl.dsl.problems import Code, Path, shown
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import is_secret_name

#: What OAuth calls the parts of a client; whatever else is sent along is a parameter of its
#: request.
_CLIENT: Final = ("client_id", "client_secret", "scope", "audience")
_GRANT: Final = "client_credentials"
#: What holds no secret of the playbook's: the environment, other entries, and the run itself.
_SAFE: Final = frozenset({"env", "keychain", "execution_id", "job", "now"})


def brought(context: Context, path: Path, name: str, entry: JsonMap) -> dict[str, Json]:
    """`kind`, and the `data` of the credential, of an entry that holds a `token`, a `map` of
    fields, or the `data` of a request for tokens. Warns of what is plain text in it."""
    if "token" in entry:
        _warn_of_plain_text(context, path, name, {("token",): entry["token"]})
        return {"kind": "credential", "data": {"type": "bearer", "token": entry["token"]}}
    if "map" in entry:
        fields = mapping(context, (*path, "map"), entry["map"])
        _warn_of_plain_text(context, path, name, {("map", field): value for field, value in fields.items()})
        return {"kind": "credential", "data": fields}
    return {"kind": "token", "data": _client(context, path, name, entry)}


def _client(context: Context, path: Path, name: str, entry: JsonMap) -> dict[str, Json]:
    """The client as a credential of type `oauth2` has it; RFC 6749, 4.4."""
    given = mapping(context, (*path, "data"), entry.get("data"))
    for key in _CLIENT[:2]:
        if entry.get("data") and key not in given:
            context.report.missing(
                (*path, "data"),
                key,
                f"the keychain's entry {shown(name)} needs `data.{key}` to ask for a token",
                f"add {key}:",
            )
    _check_only(context, (*path, "method"), entry.get("method", "POST"), "POST")
    _check_only(context, (*path, "data", "grant_type"), given.get("grant_type", _GRANT), _GRANT)
    # Who writes the secret out is told; one that the workload has is told of where the workload is
    # told of.
    written: dict[Path, Json] = {
        ("data", key): value for key, value in given.items() if is_secret_name(key) and not is_template(value)
    }
    _warn_of_plain_text(context, path, name, written)
    grant = given.pop("grant_type", _GRANT)
    made: dict[str, Json] = {
        "type": "oauth2",
        "token_url": next((entry[key] for key in ENDPOINT if key in entry), None),
        **{key: given.pop(key) for key in _CLIENT if key in given},
        "client_auth": "body",
    }
    if is_template(grant):
        made["grant_type"] = grant
    if given:
        made["params"] = given
    if entry.get("headers"):
        made["headers"] = mapping(context, (*path, "headers"), entry["headers"])
    return made


def mapping(context: Context, path: Path, value: Json) -> dict[str, Json]:
    """`value`, which has to be one, by name; adds a problem where it is none."""
    if value is not None and not isinstance(value, Mapping):
        context.report.add(
            Code.VALUE,
            path,
            f"`{path[-1]}` of a keychain entry is a mapping, not {shown(value)}",
            f"write {path[-1]}: {{name: value}}",
        )
    return dict(value) if isinstance(value, Mapping) else {}


def _check_only(context: Context, path: Path, value: Json, only: str) -> None:
    if not is_template(value) and str(value).lower() != only.lower():
        context.report.add(
            Code.VALUE,
            path,
            f"`{path[-1]}` of a token can only be {only}, not {shown(value)}",
            f"write {only}, or leave it out",
        )


def _warn_of_plain_text(context: Context, path: Path, name: str, values: Mapping[Path, Json]) -> None:
    """One warning for an entry; what is written out is hidden from whoever is shown the
    playbook."""
    plain = {place: where for place, value in values.items() if (where := _where(context, value))}
    for place, where in plain.items():
        if where == "playbook":
            context.report.hide((*path, *place))
    if plain:
        place, where = next(iter(plain.items()))
        context.report.add(
            Code.IN_PLAIN_TEXT,
            (*path, *place),
            f"the secret {shown(name)} is plain text in the {where}",
            f"store it (`noetl credential set {name} ...`), and make the entry kind: credential",
        )


def _where(context: Context, value: Json) -> str:
    """Where the text of a secret is to be read; empty: nowhere."""
    found = list(texts(value))
    if any(text and not is_template(text) for text in found):
        return "playbook"
    heads = frozenset[str]().union(*(context.heads(text, guard=False) for text in found))
    given = heads - _SAFE
    return "payload" if given == {"payload"} else "workload" if given else ""


def texts(value: Json) -> Iterator[str]:
    """The texts and numbers in `value`, however deep."""
    match value:
        case Mapping():
            for inner in value.values():
                yield from texts(inner)
        case list():
            for inner in value:
                yield from texts(inner)
        case None | bool():
            return
        case _:
            yield str(value)
