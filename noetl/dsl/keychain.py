"""The keychain of a playbook: named secrets, and where each comes from. Their values stand in no playbook."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from noetl.dsl.context import KEYCHAIN, Context, holds_template, is_template
from noetl.dsl.misspelt import add_unknown_key
from noetl.dsl.problems import Code, Path, shown
from noetl.facts.durations import seconds
from noetl.facts.json import Json, JsonMap

#: What people call the kinds, and what nets call them.
KINDS: Final[Mapping[str, str]] = {
    "credential": "credential",
    "secret": "secret",
    "token": "token",
    "oauth2": "token",
    "static": "static",
    "data": "static",
}


@dataclass(frozen=True, slots=True)
class Form:
    """`needs` are groups of keys of which one must be there; `may` are further ones."""

    needs: tuple[tuple[str, ...], ...]
    may: tuple[str, ...] = ()

    @property
    def keys(self) -> tuple[str, ...]:
        return (*(key for group in self.needs for key in group), *self.may, "name", "kind", "description")


#: Kind, as nets call it → its keys.
FORMS: Final[Mapping[str, Form]] = {
    "credential": Form((("credential",),)),
    "secret": Form((("provider",),), ("path", "field", "version", "ttl")),
    "token": Form((("auth", "credential"),), ("ttl", "auto_renew")),
    "static": Form(()),
}
#: What templates see only once steps run, and secrets, which would get into the log.
_LATER: Final = frozenset(
    {
        *(
            "keychain",
            "ctx",
            "vars",
            "args",
            "input",
            "iter",
            "step",
            "loop_index",
            "_prev",
            "_task",
            "_attempt",
        ),
        *("event", "outcome", "output", "result", "response", "error"),
    }
)
#: Fields of a token's `auth` that are secrets.
_SECRET: Final = frozenset({"client_secret", "password", "token", "secret"})


def keychain(context: Context) -> tuple[JsonMap, ...]:
    """The entries, each with `name`, its `kind` as nets call it, and what that kind needs. In the place of a text that
    stands in the playbook a static entry has nothing: it is no secret, and nobody gets it."""
    found: dict[str, JsonMap] = {}
    for path, name, entry in _given(context):
        made = _entry(context, path, name, entry)
        if made is None:
            continue
        if name in found:
            message = f"the keychain has two entries {shown(name)}"
            context.report.add(Code.DUPLICATE_NAME, path, message, "give each a name of its own")
        found[name] = made
    return tuple(found.values())


def _given(context: Context) -> Iterator[tuple[Path, str, JsonMap]]:
    given = context.document.keychain
    if isinstance(given, Mapping):
        for key, entry in given.items():
            yield ("keychain", key), key, entry
        return
    for index, entry in enumerate(given or ()):
        path: Path = ("keychain", index)
        name = entry.get("name")
        if is_template(name):
            message = f"the name {shown(name)} of an entry is no template"
            context.report.add(Code.VALUE, (*path, "name"), message, "write it out")
        elif isinstance(name, str) and name:
            yield path, name, {key: value for key, value in entry.items() if key != "name"}
        else:
            context.report.missing(path, "name", "the keychain's entry has no name", "add name: <name>")


def _entry(context: Context, path: Path, name: str, entry: JsonMap) -> JsonMap | None:
    said = entry.get("kind", "secret" if "provider" in entry else "credential")
    kind = KINDS.get(said) if isinstance(said, str) else None
    if kind is None:
        known = [word for word, means in KINDS.items() if means != "static"]
        hint = context.report.suggest(str(said), known, f"the kinds are {', '.join(known)}")
        message = f"the keychain has no kind {shown(said)}"
        context.report.add(Code.VALUE, (*path, "kind"), message, hint)
        return None
    if kind == "static" or _holds_plain_text(entry):
        message = f"the secret {shown(name)} stands in the playbook as plain text, and will not be used"
        hint = f"store it (`noetl credential set {name} ...`), and make the entry kind: credential"
        context.report.add(Code.IN_PLAIN_TEXT, path, message, hint)
        for key in entry.keys() - {"name", "kind", "description"}:
            context.report.hide((*path, key))
        return {"name": name, "kind": "static"}
    _check_keys(context, path, kind, entry, str(said))
    _check_values(context, path, entry)
    kept = {key: value for key, value in entry.items() if key in FORMS[kind].keys}
    return {**_settled(kind, name, kept), "name": name, "kind": kind}


def _settled(kind: str, name: str, entry: dict[str, Json]) -> dict[str, Json]:
    """One spelling of what may be written in several ways."""
    if "ttl" in entry:
        with contextlib.suppress(ValueError):  # it has been reported
            entry["ttl"] = seconds(entry["ttl"])
    if kind == "token" and "credential" in entry:
        entry.setdefault("auth", entry.pop("credential"))
    if kind == "secret":
        # In the mapping form `name` is free to be what the provider calls it.
        entry.setdefault("path", entry.get("name", name))
    return entry


def _check_keys(context: Context, path: Path, kind: str, entry: JsonMap, said: str) -> None:
    """`said` is what the entry calls its kind."""
    form = FORMS[kind]
    for group in form.needs:
        if not any(entry.get(key) for key in group):
            message = f"a keychain entry of kind {said} needs `{group[0]}`"
            context.report.missing(path, group[0], message, f"add {group[0]}:")
    for key in entry:
        if key not in form.keys:
            hint = context.report.suggest(key, form.keys, "remove it")
            message = f"`{key}` means nothing in a keychain entry of kind {said}"
            add_unknown_key(context.report, (*path, key), message, hint, form.keys)


def _check_values(context: Context, path: Path, entry: JsonMap) -> None:
    for key, value in entry.items():
        if holds_template(value) and key == "name":
            # Only where the entry has its name before it: there `name` is that of the provider.
            context.report.add(Code.VALUE, (*path, key), "`name` is no template here", "write path: instead")
        elif holds_template(value):
            context.use((*path, key), value, KEYCHAIN)
            _check_early(context, (*path, key), value)
    if "ttl" in entry and not is_template(entry["ttl"]):
        _check_ttl(context, (*path, "ttl"), entry["ttl"])


def _check_early(context: Context, path: Path, value: Json) -> None:
    """Entries are rendered before the first step: of what comes later they can hold nothing."""
    known = (context.document.workload or {}).keys()
    for text in filter(is_template, _texts(value)):
        for name in sorted(context.heads(text, guard=False) & (_LATER | context.step_names) - known):
            message = (
                f"an entry of the keychain is rendered before the first step, and cannot read {shown(name)}"
            )
            hint = "name workload, payload, env or execution_id"
            context.report.add(Code.VALUE, path, message, hint)


def _check_ttl(context: Context, path: Path, value: Json) -> None:
    try:
        seconds(value)
    except ValueError as error:
        context.report.add(Code.VALUE, path, f"`ttl`: {str(error).rstrip('.')}")


def _holds_plain_text(entry: JsonMap) -> bool:
    auth = entry.get("auth")
    if isinstance(auth, Mapping) and not _SECRET.isdisjoint(auth):
        return True
    return any(isinstance(entry.get(key), str) and not is_template(entry[key]) for key in _SECRET)


def _texts(value: Json) -> Iterator[str]:
    match value:
        case str():
            yield value
        case Mapping():
            for inner in value.values():
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)
