"""The keychain of a playbook: named secrets, and where each comes from."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Final

from noetl.dsl.compile.context import KEYCHAIN, Context
from noetl.dsl.compile.keychain_data import brought, mapping, texts
from noetl.dsl.document.keychain import FORMS, KINDS, SECRET, form_of
from noetl.dsl.document.misspelt import add_unknown_key
from noetl.dsl.document.texts import holds_template, is_template
from noetl.dsl.problems import Code, Path, shown
from noetl.errors import TemplateError
from noetl.expressions import names_used
from noetl.facts.durations import seconds
from noetl.facts.json import Json, JsonMap

#: Where the secret of one field is.
_PLACE: Final = ("path", "field", "version")
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


def keychain(context: Context) -> tuple[JsonMap, ...]:
    """The entries, each with `name`, its `kind` (credential, secret, token, or static, which nobody
    gets), and what that kind needs. What an entry brings itself is its `data`: the fields of a
    credential of one execution alone."""
    found: dict[str, JsonMap] = {}
    for path, name, entry in _given(context):
        if name in found:
            context.report.add(
                Code.DUPLICATE_NAME,
                path,
                f"the keychain has two entries {shown(name)}",
                "give each a name of its own",
            )
        for made in _entries(context, path, name, entry):
            found[str(made["name"])] = made
    _check_circles(context, found)
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
            context.report.add(
                Code.VALUE,
                (*path, "name"),
                f"the name {shown(name)} of an entry is no template",
                "write it out",
            )
        elif isinstance(name, str) and name:
            yield path, name, {key: value for key, value in entry.items() if key != "name"}
        else:
            context.report.missing(path, "name", "the keychain's entry has no name", "add name: <name>")


def _entries(context: Context, path: Path, name: str, entry: JsonMap) -> Iterable[JsonMap]:
    """What one entry comes to: itself, and the secrets that it is made of. One that is faulty has
    its name all the same, so that nobody is told of each use of it."""
    said = entry.get("kind", "secret" if "provider" in entry else "credential")
    kind = KINDS.get(said) if isinstance(said, str) else None
    if kind is None:
        known = [word for word, means in KINDS.items() if means != "static"]
        context.report.add(
            Code.VALUE,
            (*path, "kind"),
            f"the keychain has no kind {shown(said)}",
            context.report.suggest(str(said), known, f"the kinds are {', '.join(known)}"),
        )
        return [{"name": name, "kind": "static"}]
    form = form_of(kind, entry)
    if form == "static" or (not FORMS[form].own and _holds_plain_text(entry)):
        _refuse_plain_text(context, path, name, entry)
        return [{"name": name, "kind": "static"}]
    _check_keys(context, path, form, entry, str(said))
    _check_values(context, path, form, entry)
    kept = {key: value for key, value in entry.items() if key in FORMS[form].keys}
    match form:
        case "secrets":
            return _each(context, path, name, kept)
        case "bearer" | "map" | "endpoint":
            return [{**brought(context, path, name, kept), **_lasting(kept), "name": name}]
        case _:
            return [{**_settled(form, name, kept), "name": name, "kind": form}]


def _refuse_plain_text(context: Context, path: Path, name: str, entry: JsonMap) -> None:
    context.report.add(
        Code.IN_PLAIN_TEXT,
        path,
        f"the secret {shown(name)} stands in the playbook as plain text, and will not be used",
        f"store it (`noetl credential set {name} ...`), and make the entry kind: credential",
    )
    for key in entry.keys() - {"name", "kind", "description"}:
        context.report.hide((*path, key))


def _each(context: Context, path: Path, name: str, entry: dict[str, Json]) -> Iterator[JsonMap]:
    """A secret for each field of `map`, as `<name>.<field>`, and the entry that has them all."""
    fields = mapping(context, (*path, "map"), entry.get("map"))
    shared: dict[str, Json] = {
        **_lasting(entry),
        **{key: entry[key] for key in ("provider", "version", "auth") if key in entry},
    }
    for field, place in fields.items():
        own = place if isinstance(place, Mapping) else {"path": place}
        for key in own.keys() - set(_PLACE):
            add_unknown_key(
                context.report,
                (*path, "map", field, key),
                f"`{key}` means nothing in a field of a keychain entry of kind secrets",
                "remove it",
                _PLACE,
            )
        kept = {key: own[key] for key in _PLACE if key in own}
        yield {**shared, "path": field, **kept, "name": f"{name}.{field}", "kind": "secret"}
    data: dict[str, Json] = {field: f"{{{{ keychain[{f'{name}.{field}'!r}] }}}}" for field in fields}
    yield {"name": name, "kind": "credential", "data": data}


def _settled(kind: str, name: str, entry: dict[str, Json]) -> dict[str, Json]:
    """One spelling of what may be written in several ways."""
    entry |= _lasting(entry)
    if kind == "token" and "credential" in entry:
        entry.setdefault("auth", entry.pop("credential"))
    if kind == "secret":
        # In the mapping form `name` is free to be what the provider calls it.
        entry.setdefault("path", entry.get("name", name))
    return entry


def _lasting(entry: JsonMap) -> dict[str, Json]:
    """How long it is good for: `ttl` in seconds, and `auto_renew`."""
    kept = {key: entry[key] for key in ("ttl", "auto_renew") if key in entry}
    if "ttl" in kept:
        with contextlib.suppress(ValueError):  # it has been reported
            kept["ttl"] = seconds(kept["ttl"])
    return kept


def _check_keys(context: Context, path: Path, form: str, entry: JsonMap, said: str) -> None:
    """`said` is what the entry calls its kind."""
    keys = FORMS[form].keys
    for group in FORMS[form].needs:
        # What an entry brings itself may turn out empty: that matters to who opens it.
        if not any(entry.get(key) or (key in entry and key in FORMS[form].own) for key in group):
            context.report.missing(
                path, group[0], f"a keychain entry of kind {said} needs `{group[0]}`", f"add {group[0]}:"
            )
    for key in entry:
        if key not in keys:
            add_unknown_key(
                context.report,
                (*path, key),
                f"`{key}` means nothing in a keychain entry of kind {said}",
                context.report.suggest(key, keys, "remove it"),
                keys,
            )


def _check_values(context: Context, path: Path, form: str, entry: JsonMap) -> None:
    for key, value in entry.items():
        if holds_template(value) and key == "name":
            # Only where the entry has its name before it: there `name` is that of the provider.
            context.report.add(Code.VALUE, (*path, key), "`name` is no template here", "write path: instead")
        elif holds_template(value):
            context.use((*path, key), value, KEYCHAIN)
            _check_early(
                context, (*path, key), value, _LATER - ({"keychain"} if key in FORMS[form].own else set())
            )
    if "ttl" in entry and not is_template(entry["ttl"]):
        _check_ttl(context, (*path, "ttl"), entry["ttl"])
    if form in ("secret", "secrets"):
        _check_provider(context, (*path, "provider"), entry.get("provider"))


def _check_early(context: Context, path: Path, value: Json, later: frozenset[str]) -> None:
    """Entries are rendered before the first step: of what comes later they can hold nothing."""
    known = (context.document.workload or {}).keys()
    for text in filter(is_template, texts(value)):
        for name in sorted(context.heads(text, guard=False) & (later | context.step_names) - known):
            context.report.add(
                Code.VALUE,
                path,
                f"an entry of the keychain is rendered before the first step, and cannot read {shown(name)}",
                "name workload, payload, env or execution_id",
            )


def _check_ttl(context: Context, path: Path, value: Json) -> None:
    try:
        seconds(value)
    except ValueError as error:
        context.report.add(Code.VALUE, path, f"`ttl`: {str(error).rstrip('.')}")


def _check_provider(context: Context, path: Path, value: Json) -> None:
    """Who looks for secrets knows whom to ask."""
    seeker = context.kinds.get("secrets")
    if seeker is None or not isinstance(value, str) or is_template(value):
        return
    for fault in seeker.faults({"provider": value, "path": "any"}):
        context.report.add(Code.VALUE, path, fault["msg"].removeprefix("Value error, "))


def _check_circles(context: Context, entries: Mapping[str, JsonMap]) -> None:
    named = {name: set(_named(entry.get("data"))) for name, entry in entries.items()}
    try:
        TopologicalSorter(named).prepare()
    except CycleError as error:
        # From who is named to who names it, the first once more at the end.
        circle = " → ".join(reversed(error.args[1]))
        context.report.add(
            Code.VALUE,
            ("keychain",),
            f"entries of the keychain refer to each other in a circle: {circle}",
            "write one of them out, or store it",
        )


def _named(data: Json) -> Iterator[str]:
    """The entries that `data` reads."""
    with contextlib.suppress(TemplateError):  # it is reported with its line
        yield from (chain[1] for chain in names_used(data) if chain[0] == "keychain" and len(chain) > 1)


def _holds_plain_text(entry: JsonMap) -> bool:
    auth = entry.get("auth")
    if isinstance(auth, Mapping) and not SECRET.isdisjoint(auth):
        return True
    return any(isinstance(entry.get(key), str) and not is_template(entry[key]) for key in SECRET)
