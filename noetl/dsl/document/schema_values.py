"""What the schema says of the values in a tool's configuration: what the kind's own schema says,
and templates anywhere.

A kind says what its tool takes once templates are rendered. An editor sees them unrendered, and in
other spellings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

Schema: TypeAlias = dict[str, Any]

#: A text that is none before the playbook runs.
_TEMPLATE: Final[Schema] = {"type": "string", "pattern": r"\{\{|\{%"}
_NUMBER: Final = r"^\s*[-+]?[\d.]+([eE][-+]?\d+)?\s*$"
#: Texts that are read as what a key takes.
_AS_TEXT: Final[Mapping[str, Schema]] = {
    **{key: {"type": "string", "pattern": _NUMBER} for key in ("integer", "number")},
    "boolean": {"type": "string", "pattern": "^([Tt]rue|[Ff]alse|[Yy]es|[Nn]o|[Oo]n|[Oo]ff|0|1)$"},
}
_BOUNDS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")
_REF: Final = "#/$defs/"


@dataclass(frozen=True, slots=True)
class Values:
    """Reads the schemas of one kind; `defs` are their parts, `spelled` other spellings of keys in
    them (`source/type`) → the canonical one (`source/kind`)."""

    defs: Mapping[str, Schema]
    spelled: Mapping[str, str]

    def of(self, found: Schema, place: str) -> Schema:
        """What may stand at `place`."""
        about = {"description": found["description"]} if found.get("description") else {}
        branches = [self._resolved(branch) for branch in _flat(found)]
        types = {_type(branch) for branch in branches}
        if None in types:
            return about
        by_type = {name: [one for one in branches if one["type"] == name] for name in sorted(types, key=str)}
        rules = [_if_type("object", self._mapping(by_type.get("object", []), place))]
        rules.append(_if_type("array", self._list(by_type.get("array", []), place)))
        rules.append(_if_type("string", _text(branches)))
        rules += [_if_type(name, _bounds(by_type.get(name, []))) for name in ("integer", "number")]
        told = {"type": sorted({"string", *map(str, types)})}
        return {**about, **told, **_all_of(rules)}

    def _resolved(self, branch: Schema) -> Schema:
        name = branch.get("$ref", "").removeprefix(_REF)
        return self.defs[name] if name else branch

    def _list(self, branches: list[Schema], place: str) -> Schema:
        """Little is said of lists with several forms, and of those whose items differ."""
        items = branches[0].get("items") if len(branches) == 1 else None
        if not isinstance(items, dict) or not (inner := self.of(items, place)):
            return {}
        return {"items": inner}

    def _mapping(self, branches: list[Schema], place: str) -> Schema:
        if len(branches) == 1:
            return self._part(branches[0], place)
        parts = {key: self._by(key, branches, place) for key in _discriminators(branches)}
        return next(iter(parts.values()), {})

    def _part(self, part: Schema, place: str) -> Schema:
        if "properties" not in part:
            values = part.get("additionalProperties")
            inner = self.of(values, place) if isinstance(values, dict) else {}
            return {"additionalProperties": inner} if inner else {}
        own = {key: self.of(found, f"{place}/{key}") for key, found in part["properties"].items()}
        spelled: Schema = {key: {} for key in self._spellings(place)}
        said = {"properties": {**spelled, **own}}
        if part.get("additionalProperties") is not False:
            return said
        return {**said, "patternProperties": {"^x-": {}}, "additionalProperties": False}

    def _by(self, key: str, branches: list[Schema], place: str) -> Schema:
        """Parts that are told apart by what stands under `key`, in any spelling."""
        spellings = (key, *self._spellings(place, key))
        known = {str(part["properties"][key]["const"]): self._part(part, place) for part in branches}
        names: Schema = {"anyOf": [_TEMPLATE, {"enum": sorted(known)}]}
        rules: list[Schema] = [{"properties": dict.fromkeys(spellings, names)}]
        for written in spellings:
            for name, then in known.items():
                one: Schema = {"properties": {written: {"const": name}}, "required": [written]}
                rules.append({"if": one, "then": then})
        return {"allOf": rules}

    def _spellings(self, place: str, meaning: str = "") -> list[str]:
        """Of the keys at `place`, or of one of them."""
        return [
            written.rpartition("/")[2]
            for written, canonical in self.spelled.items()
            if written.rpartition("/")[0] == place and (not meaning or canonical == f"{place}/{meaning}")
        ]


def _flat(found: Schema) -> list[Schema]:
    inner = found.get("anyOf") or found.get("oneOf")
    return [found] if inner is None else [branch for one in inner for branch in _flat(one)]


def _type(branch: Schema) -> str | None:
    """None where it may be anything."""
    found = branch.get("type")
    return found if isinstance(found, str) else None


def _discriminators(branches: list[Schema]) -> list[str]:
    """Keys that all parts have, each with another constant."""
    if not branches or not all("properties" in part for part in branches):
        return []
    shared = [key for key in branches[0]["properties"] if all(_const(part, key) for part in branches)]
    return [key for key in shared if len({_const(part, key) for part in branches}) == len(branches)]


def _const(part: Schema, key: str) -> object:
    return part["properties"].get(key, {}).get("const")


def _text(branches: list[Schema]) -> Schema:
    """A template, or a text that is read as one of `branches`."""
    texts = [_bare(branch) for branch in branches if branch["type"] == "string"]
    if {"type": "string"} in texts:
        return {}
    read = [_AS_TEXT[name] for branch in branches if (name := branch["type"]) in _AS_TEXT]
    return {"anyOf": [_TEMPLATE, *read, *texts]}


def _bare(branch: Schema) -> Schema:
    return {key: branch[key] for key in ("type", "enum", "const", "pattern") if key in branch}


def _bounds(branches: list[Schema]) -> Schema:
    """Of numbers in one form."""
    return {key: branches[0][key] for key in _BOUNDS if key in branches[0]} if len(branches) == 1 else {}


def _if_type(name: str, then: Schema) -> Schema:
    return {"if": {"type": name}, "then": then} if then else {}


def _all_of(rules: Iterable[Schema]) -> Schema:
    said = [rule for rule in rules if rule]
    return {"allOf": said} if said else {}
