"""What each kind of tool adds to the schema of a task: its keys, which of them must be there, and
what they may hold.

A kind says what its tool takes once templates are rendered. An editor sees them unrendered, and in
other spellings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Final

from noetl.dsl.document.schema_forms import CLOSED, REF, Schema, branches_of, if_then
from noetl.net.kinds import of_kind
from noetl.net.model import KindInfo

#: Parts that name a kind.
_NAMING: Final = ("Tool", "WorkbookTool", "Sink", "Action")
_OF_WORKBOOKS: Final = "#/$defs/WorkbookTool"
#: A text whose value is known only once the playbook runs.
_TEMPLATE: Final[Schema] = {"type": "string", "pattern": r"\{\{|\{%"}
_NUMBER: Final = r"^\s*[-+]?[\d.]+([eE][-+]?\d+)?\s*$"
#: Texts that are read as what a key takes.
_AS_TEXT: Final[Mapping[str, Schema]] = {
    **{key: {"type": "string", "pattern": _NUMBER} for key in ("integer", "number")},
    "boolean": {"type": "string", "pattern": "^([Tt]rue|[Ff]alse|[Yy]es|[Nn]o|[Oo]n|[Oo]ff|0|1)$"},
}
_OF_TEXTS: Final = ("type", "enum", "const", "pattern")
_BOUNDS: Final = ("minimum", "exclusiveMinimum", "maximum", "exclusiveMaximum")


def add_kinds(parts: dict[str, Schema], kinds: Mapping[str, KindInfo]) -> None:
    """Makes `parts` know the tools of `kinds` and no others. In the workbook a task may lack what
    its callers say."""
    _add_tools(parts, kinds)
    parts["NamedTask"]["properties"]["tool"] = of_workbook(parts["NamedTask"]["properties"]["tool"])
    _add_cursors(parts["Cursor"], kinds)
    tools = parts["Requires"]["properties"]["tools"]
    parts["Requires"]["properties"]["tools"] = {**tools, "items": {"enum": [*sorted(kinds), "workbook"]}}
    around = {key for kind in kinds.values() for key in kind.defaults}
    for name in ("StepSpec", "LoopSpec", "ExecutorSpec", "CallSpec"):
        _allow(parts[name], around)
    own = {key for kind in kinds.values() for key in _keys(kind)}
    _allow(parts["CallSpec"], own | {"input", "args", "with"})


def _add_tools(parts: dict[str, Schema], kinds: Mapping[str, KindInfo]) -> None:
    tool = parts["Tool"]
    common = list(tool["properties"])
    tool["required"] = ["kind"]
    parts["WorkbookTool"] = deepcopy(tool)
    parts |= {f"kind.{kind}": _of_kind(kinds[kind], common) for kind in sorted(kinds)}
    for name, complete in (("Tool", True), ("WorkbookTool", False)):
        parts[name]["allOf"] = [
            _if_kind(kinds[kind], {"$ref": f"#/$defs/kind.{kind}"}, complete=complete)
            for kind in sorted(kinds)
        ]
    known = [*sorted(kinds), "workbook"]
    for name in _NAMING:
        # Sinks and actions may say it otherwise.
        parts[name]["properties"]["kind"] = {"enum": known if "required" in parts[name] else [*known, None]}


def _allow(part: Schema, keys: Iterable[str]) -> None:
    for key in sorted(keys):
        part["properties"].setdefault(key, {})


def _add_cursors(cursor: Schema, kinds: Mapping[str, KindInfo]) -> None:
    """Rows are claimed by the kinds that bind parameters."""
    common = list(cursor["properties"])
    claiming = [kinds[kind] for kind in sorted(kinds) if kinds[kind].verbatim_with_params]
    cursor["properties"]["kind"] = {"enum": [kind.kind for kind in claiming]}
    cursor["required"] = ["kind", "claim"]
    cursor["allOf"] = [_if_kind(kind, _of_kind(kind, common)) for kind in claiming]


def of_workbook(schema: Schema) -> Schema:
    """`schema` of a workbook, whose tasks are Tools, with theirs."""
    return dict(_rename_tools(schema))


def _rename_tools(node: Any) -> Any:
    match node:
        case {"$ref": "#/$defs/Tool"}:
            return {**node, "$ref": _OF_WORKBOOKS}
        case dict():
            return {key: _rename_tools(inner) for key, inner in node.items()}
        case list():
            return [_rename_tools(inner) for inner in node]
        case _:
            return node


def _keys(kind: KindInfo) -> Mapping[str, Schema]:
    """Those of its configuration, and other spellings of them."""
    found: Mapping[str, Schema] = kind.schema.get("properties", {})
    spelled = {key: {"description": one.meaning} for key, one in of_kind(kind).items() if "/" not in key}
    return {**spelled, **found}


def _of_kind(kind: KindInfo, common: list[str]) -> Schema:
    """What is to hold for a mapping of that kind, which may have `common` keys as well."""
    spelled = {written: one.canonical for written, one in of_kind(kind).items()}
    values = Values(kind.schema.get("$defs", {}), spelled)
    own = {key: values.of(found, key) for key, found in _keys(kind).items() if key not in common}
    if kind.schema.get("additionalProperties") is not False:
        return {"properties": own}
    known = {**{key: {} for key in common}, **own}
    return {"properties": known, **CLOSED}


def _if_kind(kind: KindInfo, then: Schema, *, complete: bool = False) -> Schema:
    """`then` for mappings of that kind; with `complete`, what it needs is there."""
    if complete and kind.required:
        then = {**then, "allOf": [_one_of(group, kind) for group in kind.required]}
    return if_then({"properties": {"kind": {"const": kind.kind}}, "required": ["kind"]}, then)


def _one_of(group: tuple[str, ...], kind: KindInfo) -> Schema:
    """One key of the group is there, in any spelling, at the task or under its spec."""
    spelled = [key for key, one in of_kind(kind).items() if one.canonical in group]
    there = [{"required": [key]} for key in (*group, *spelled)]
    below: Schema = {"required": ["spec"], "properties": {"spec": {"type": "object", "anyOf": there}}}
    return if_then({"not": {"anyOf": [*there, below]}}, {"required": [group[0]]})


@dataclass(frozen=True, slots=True)
class Values:
    """Reads the schemas of one kind; `defs` are their parts, `spelled` other spellings of keys in
    them (`source/type`) → the canonical one (`source/kind`)."""

    defs: Mapping[str, Schema]
    spelled: Mapping[str, str]

    def of(self, found: Schema, place: str) -> Schema:
        """What may stand at `place`."""
        about = {"description": found["description"]} if found.get("description") else {}
        branches = [self.defs.get(one.get("$ref", "").removeprefix(REF), one) for one in branches_of(found)]
        types = [branch.get("type") for branch in branches]
        if not all(isinstance(name, str) for name in types):
            return about
        by_type = {name: [one for one in branches if one["type"] == name] for name in types}
        rules = [_if_type("object", self._mapping(by_type.get("object", []), place))]
        rules.append(_if_type("array", self._list(by_type.get("array", []), place)))
        rules.append(_if_type("string", _text(branches)))
        rules += [_if_type(name, _bounds(by_type.get(name, []))) for name in ("integer", "number")]
        said = [rule for rule in rules if rule]
        return {**about, "type": sorted({"string", *types}), **({"allOf": said} if said else {})}

    def _list(self, branches: list[Schema], place: str) -> Schema:
        """Little is said of lists with several forms, and of those whose items differ."""
        items = branches[0].get("items") if len(branches) == 1 else None
        if not isinstance(items, dict) or not (inner := self.of(items, place)):
            return {}
        return {"items": inner}

    def _mapping(self, branches: list[Schema], place: str) -> Schema:
        if len(branches) == 1:
            return self._part(branches[0], place)
        keys = _discriminators(branches)
        return self._by(keys[0], branches, place) if keys else {}

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
        return {**said, **CLOSED}

    def _by(self, key: str, branches: list[Schema], place: str) -> Schema:
        """Parts that differ in what stands under `key`, in any spelling."""
        spellings = (key, *self._spellings(place, key))
        known = {str(part["properties"][key]["const"]): self._part(part, place) for part in branches}
        names: Schema = {"anyOf": [_TEMPLATE, {"enum": sorted(known)}]}
        rules: list[Schema] = [{"properties": dict.fromkeys(spellings, names)}]
        for written in spellings:
            for name, then in known.items():
                one: Schema = {"properties": {written: {"const": name}}, "required": [written]}
                rules.append(if_then(one, then))
        return {"allOf": rules}

    def _spellings(self, place: str, meaning: str = "") -> list[str]:
        """Of the keys at `place`, or of one of them."""
        return [
            written.rpartition("/")[2]
            for written, canonical in self.spelled.items()
            if written.rpartition("/")[0] == place and (not meaning or canonical == f"{place}/{meaning}")
        ]


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
    texts = [
        {key: branch[key] for key in _OF_TEXTS if key in branch}
        for branch in branches
        if branch["type"] == "string"
    ]
    if {"type": "string"} in texts:
        return {}
    read = [_AS_TEXT[name] for branch in branches if (name := branch["type"]) in _AS_TEXT]
    return {"anyOf": [_TEMPLATE, *read, *texts]}


def _bounds(branches: list[Schema]) -> Schema:
    """Of numbers in one form."""
    return {key: branches[0][key] for key in _BOUNDS if key in branches[0]} if len(branches) == 1 else {}


def _if_type(name: str, then: Schema) -> Schema:
    return if_then({"type": name}, then) if then else {}
