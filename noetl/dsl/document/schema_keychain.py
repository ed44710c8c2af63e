"""What the schema says of the keychain: the keys of each kind of entry, and which of them must be
there."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final, TypeAlias

from noetl.dsl.document.keychain import FORMS, KINDS, SECRET, VARIANTS, KeychainForm

Schema: TypeAlias = dict[str, Any]

_ENTRY: Final = "#/$defs/KeychainEntry"
_NAMED: Final = "#/$defs/NamedEntry"
#: Keys that take a mapping by name, and no template of one.
_MAPPINGS: Final = frozenset({"map", "data"})
_MAPPING: Final[Schema] = {"type": ["object", "null"]}


def add_keychain(schema: Schema) -> None:
    """Makes the whole schema know the entries of a keychain, which may be a list or a mapping."""
    schema["$defs"]["KeychainEntry"] = _entry()
    schema["$defs"]["NamedEntry"] = {"required": ["name"], "$ref": _ENTRY}
    keychain = schema["properties"]["keychain"]
    schema["properties"]["keychain"] = {
        **{key: found for key, found in keychain.items() if key != "allOf"},
        "allOf": [
            {"if": {"type": "object"}, "then": {"additionalProperties": {"$ref": _ENTRY}}},
            {"if": {"type": "array"}, "then": {"items": {"$ref": _NAMED}}},
        ],
    }


def _entry() -> Schema:
    words: dict[str, list[str]] = {}
    for word, kind in KINDS.items():
        words.setdefault(kind, []).append(word)
    rules = [_if(_called(said), _of_kind(kind)) for kind, said in words.items()]
    unsaid = _if({"required": ["provider"]}, _of_kind("secret"), _of_kind("credential"))
    return {
        "type": "object",
        "properties": {"name": {"type": "string"}, "kind": {"enum": sorted(KINDS)}},
        "allOf": [*rules, _if({"not": {"required": ["kind"]}}, unsaid)],
    }


def _called(words: list[str]) -> Schema:
    return {"properties": {"kind": {"enum": sorted(words)}}, "required": ["kind"]}


def _of_kind(kind: str) -> Schema:
    found = _of_form(kind)
    for variant in VARIANTS:
        if variant.kind == kind:
            fits = _one_of(variant.having)
            if variant.lacking:
                fits = {**fits, "not": _one_of(variant.lacking)}
            found = _if(fits, _of_form(variant.form), found)
    return found


def _of_form(name: str) -> Schema:
    """A form without keys holds what nobody reads."""
    form = FORMS[name]
    if not form.needs:
        return {}
    return {
        "properties": {key: _MAPPING if key in _MAPPINGS else {} for key in _keys(form)},
        "patternProperties": {"^x-": {}},
        "additionalProperties": False,
        "allOf": [_if({"not": _one_of(group)}, {"required": [group[0]]}) for group in form.needs],
    }


def _keys(form: KeychainForm) -> list[str]:
    """`scope` has no effect. A secret that is written out is told of by `noetl validate`, which
    knows what to do."""
    written_out = () if form.own else SECRET
    return sorted({*form.keys, *written_out, "scope"})


def _one_of(keys: Iterable[str]) -> Schema:
    return {"anyOf": [{"required": [key]} for key in keys]}


def _if(condition: Schema, then: Schema, other: Schema | None = None) -> Schema:
    return {"if": condition, "then": then, **({"else": other} if other is not None else {})}
