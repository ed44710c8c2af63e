"""The keychain: names, kinds and keys of its entries, values that they cannot have, plain text."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from graphlib import CycleError, TopologicalSorter
from typing import Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.keychain import (
    CLIENT,
    GRANT,
    PLACE,
    as_mapping,
    form_of_entry,
    iterate_entries,
    kind_of_entry,
)
from noetl.dsl.document.keychain import FORMS, KINDS
from noetl.dsl.document.misspelt import unknown_key
from noetl.dsl.document.texts import holds_template, is_template
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.errors import TemplateError
from noetl.expressions import names_used
from noetl.facts.durations import seconds
from noetl.facts.json import Json, JsonMap
from noetl.facts.secret import is_secret_name
from noetl.net.inputs import Input, find_inputs

#: What templates see only once steps run, and secrets, which would get into the log.
_LATER: Final = frozenset(
    {
        *("keychain", "ctx", "vars", "args", "input", "iter", "step", "loop_index"),
        *("_prev", "_task", "_attempt"),
        *("event", "outcome", "output", "result", "response", "error"),
    }
)
#: What holds no secret of the playbook's: the environment, other entries, and the run itself.
_SAFE: Final = frozenset({"env", "keychain", "execution_id", "job", "now"})


def check_entry_names(subject: Subject) -> Iterator[Finding]:
    """Entries without a name, with a template for one, or with the name of another entry."""
    keychain = subject.document.keychain
    for index, entry in enumerate(keychain if isinstance(keychain, list) else ()):
        path: Path = ("keychain", index)
        if is_template(name := entry.get("name")):
            yield Finding(
                Code.VALUE,
                (*path, "name"),
                f"the name {quote_value(name)} of an entry is no template",
                "write it out",
            )
        elif not isinstance(name, str) or not name:
            yield Finding(
                Code.MISSING, path, "the keychain's entry has no name", "add name: <name>", lacks="name"
            )
    seen = set[str]()
    for path, name, _ in iterate_entries(keychain):
        if name in seen:
            yield Finding(
                Code.DUPLICATE_NAME,
                path,
                f"the keychain has two entries {quote_value(name)}",
                "give each its own name",
            )
        seen.add(name)


def check_entries(subject: Subject) -> Iterator[Finding]:
    """Entries whose kind is unknown, and keys and values that mean nothing in them."""
    for path, name, entry in iterate_entries(subject.document.keychain):
        said, form = kind_of_entry(entry), form_of_entry(entry)
        if not isinstance(said, str) or said not in KINDS:
            known = [word for word, means in KINDS.items() if means != "static"]
            yield Finding(
                Code.VALUE,
                (*path, "kind"),
                f"the keychain has no kind {quote_value(said)}",
                subject.names.suggest(str(said), known, f"the kinds are {', '.join(known)}"),
            )
        elif form == "static":
            yield Finding(
                Code.IN_PLAIN_TEXT,
                path,
                f"the secret {quote_value(name)} stands in the playbook as plain text, and will not be used",
                f"store it (`noetl credential set {name} ...`), and make the entry kind: credential",
                hides=tuple((*path, key) for key in entry.keys() - {"name", "kind", "description"}),
            )
        else:
            yield from _check_keys(subject, path, form, entry, said)
            yield from _check_templates(subject, path, form, entry)
            yield from _check_values(subject, path, name, form, entry)
            yield from _check_plain_text(subject, path, name, form, entry)


def _check_keys(subject: Subject, path: Path, form: str, entry: JsonMap, said: str) -> Iterator[Finding]:
    """`said` is what the entry calls its kind."""
    keys, own = FORMS[form].keys, FORMS[form].own
    for group in FORMS[form].needs:
        # A value of the entry itself may turn out empty: that matters when it is opened.
        if not any(entry.get(key) or (key in entry and key in own) for key in group):
            yield Finding(
                Code.MISSING,
                path,
                f"a keychain entry of kind {said} needs `{group[0]}`",
                f"add {group[0]}:",
                lacks=group[0],
            )
    for key in (key for key in entry if key not in keys):
        yield from unknown_key(
            (*path, key),
            f"`{key}` means nothing in a keychain entry of kind {said}",
            subject.names.suggest(key, keys, "remove it"),
            keys,
        )
    if form == "secrets":
        for field, place in as_mapping(entry.get("map")).items():
            for key in as_mapping(place).keys() - set(PLACE):
                yield from unknown_key(
                    (*path, "map", field, key),
                    f"`{key}` means nothing in a field of a keychain entry of kind secrets",
                    "remove it",
                    PLACE,
                )


def _check_templates(subject: Subject, path: Path, form: str, entry: JsonMap) -> Iterator[Finding]:
    """Entries are rendered before the first step: of what comes later they can hold nothing."""
    known = (subject.document.workload or {}).keys() if subject.net is None else subject.net.workload.keys()
    for key, value in entry.items():
        if holds_template(value) and key == "name":
            # Only where the entry has its name before it: there `name` is that of the provider.
            yield Finding(Code.VALUE, (*path, key), "`name` is no template here", "write path: instead")
            continue
        later = _LATER - ({"keychain"} if key in FORMS[form].own else set())
        later |= subject.net.steps.keys() if subject.net is not None else set()
        for text in filter(is_template, _texts(value)):
            for name in sorted({chain[0] for chain in _chains_in(text)} & later - known):
                yield Finding(
                    Code.VALUE,
                    (*path, key),
                    "an entry of the keychain is rendered before the first step, and cannot read "
                    f"{quote_value(name)}",
                    "name workload, payload, env or execution_id",
                )


def _check_values(subject: Subject, path: Path, name: str, form: str, entry: JsonMap) -> Iterator[Finding]:
    mappings = {"secrets": ("map",), "map": ("map",), "endpoint": ("data", "headers")}.get(form, ())
    for key in mappings:
        if (value := entry.get(key)) and not isinstance(value, Mapping):
            yield Finding(
                Code.VALUE,
                (*path, key),
                f"`{key}` of a keychain entry is a mapping, not {quote_value(value)}",
                f"write {key}: {{name: value}}",
            )
    if "ttl" in entry and not is_template(entry["ttl"]):
        try:
            seconds(entry["ttl"])
        except ValueError as error:
            yield Finding(Code.VALUE, (*path, "ttl"), f"`ttl`: {str(error).rstrip('.')}")
    # The tool that looks for secrets knows its providers.
    seeker, provider = subject.kinds.get("secrets"), entry.get("provider")
    if form in ("secret", "secrets") and seeker and isinstance(provider, str) and not is_template(provider):
        for fault in seeker.faults({"provider": provider, "path": "any"}):
            yield Finding(Code.VALUE, (*path, "provider"), fault["msg"].removeprefix("Value error, "))
    if form == "endpoint":
        yield from _check_client(path, name, entry)


def _check_client(path: Path, name: str, entry: JsonMap) -> Iterator[Finding]:
    data = as_mapping(entry.get("data"))
    for key in CLIENT[:2]:
        if entry.get("data") and key not in data:
            yield Finding(
                Code.MISSING,
                (*path, "data"),
                f"the keychain's entry {quote_value(name)} needs `data.{key}` to ask for a token",
                f"add {key}:",
                lacks=key,
            )
    method, grant = entry.get("method", "POST"), data.get("grant_type", GRANT)
    for at, value, only in (("method",), method, "POST"), (("data", "grant_type"), grant, GRANT):
        if not is_template(value) and str(value).lower() != only.lower():
            yield Finding(
                Code.VALUE,
                (*path, *at),
                f"`{at[-1]}` of a token can only be {only}, not {quote_value(value)}",
                f"write {only}, or leave it out",
            )


def _check_plain_text(
    subject: Subject, path: Path, name: str, form: str, entry: JsonMap
) -> Iterator[Finding]:
    """One warning for an entry; what is written out is hidden wherever the playbook is shown."""
    values: dict[Path, Json] = {}
    match form:
        case "bearer":
            values = {("token",): entry.get("token")}
        case "map":
            values = {("map", field): value for field, value in as_mapping(entry.get("map")).items()}
        case "endpoint":
            # Of a secret of the workload the check of the workload's plain text warns.
            data = as_mapping(entry.get("data")).items()
            values = {("data", k): v for k, v in data if is_secret_name(k) and not is_template(v)}
    inputs = subject.net.inputs if subject.net is not None else ()
    plain = {(*path, *at): where for at, value in values.items() if (where := _where_readable(value, inputs))}
    if plain:
        place, where = next(iter(plain.items()))
        yield Finding(
            Code.IN_PLAIN_TEXT,
            place,
            f"the secret {quote_value(name)} is plain text in the {where}",
            f"store it (`noetl credential set {name} ...`), and make the entry kind: credential",
            hides=tuple(at for at, found in plain.items() if found == "playbook"),
        )


def _where_readable(value: Json, inputs: Sequence[Input]) -> str:
    """Where the text of a secret can be read; empty: nowhere, as that of inputs that are sealed."""
    found = list(_texts(value))
    if any(text and not is_template(text) for text in found):
        return "playbook"
    chains = (chain for text in found for chain in _chains_in(text))
    given = {chain[0] for chain in chains if not _is_sealed(chain, inputs)} - _SAFE
    return "payload" if given == {"payload"} else "workload" if given else ""


def _is_sealed(chain: tuple[str, ...], inputs: Sequence[Input]) -> bool:
    names = chain[1:] if chain[0] in ("workload", "payload") else chain
    return any(one.secret for one in find_inputs(inputs, names))


def check_circles_of_entries(subject: Subject) -> Iterator[Finding]:
    """Entries whose values read each other."""
    entries = subject.net.keychain if subject.net is not None else ()
    named: dict[Json, set[str]] = {}
    for entry in entries:
        chains = (chain for chain in _chains_in(entry.get("data")) if chain[0] == "keychain")
        named[entry["name"]] = {chain[1] for chain in chains if len(chain) > 1}
    try:
        TopologicalSorter(named).prepare()
    except CycleError as error:
        # From the one that is named to the one that names it, the first once more at the end.
        circle = " → ".join(reversed(error.args[1]))
        yield Finding(
            Code.VALUE,
            ("keychain",),
            f"entries of the keychain refer to each other in a circle: {circle}",
            "write one of them out, or store it",
        )


def _chains_in(template: Json) -> frozenset[tuple[str, ...]]:
    with contextlib.suppress(TemplateError):  # `check_syntax` reports it, with its line
        return names_used(template)
    return frozenset()


def _texts(value: Json) -> Iterator[str]:
    """The texts and numbers in `value`, however deep."""
    match value:
        case Mapping():
            for inner in value.values():
                yield from _texts(inner)
        case list():
            for inner in value:
                yield from _texts(inner)
        case None | bool():
            return
        case _:
            yield str(value)
