"""What each kind of tool adds to the schema of a task: its keys, which of them must be there, and what they may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final, TypeAlias

from noetl.net.model import KindInfo
from noetl.net.spellings import of_kind

Schema: TypeAlias = dict[str, Any]

#: A text that is none before the playbook runs.
_TEMPLATE: Final[Schema] = {"type": "string", "pattern": r"\{\{|\{%"}
_NUMBER: Final = r"^\s*[-+]?[\d.]+([eE][-+]?\d+)?\s*$"
#: Texts that are read as what a key takes.
_AS_TEXT: Final[Mapping[str, Schema]] = {
    **{key: {"type": "string", "pattern": _NUMBER} for key in ("integer", "number")},
    "boolean": {"type": "string", "pattern": "^([Tt]rue|[Ff]alse|[Yy]es|[Nn]o|[Oo]n|[Oo]ff|0|1)$"},
}
_SCALARS: Final = frozenset({"string", "integer", "number", "boolean", "null"})
#: Parts that name a kind.
_NAMING: Final = ("Tool", "WorkbookTool", "Sink", "Action")
_OF_WORKBOOKS: Final = "#/$defs/WorkbookTool"


def add_kinds(parts: dict[str, Schema], kinds: Mapping[str, KindInfo]) -> None:
    """Makes `parts` know the tools of `kinds` and no others. In the workbook a task may lack what its callers say."""
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
    return dict(_renamed(schema))


def _renamed(node: Any) -> Any:
    match node:
        case {"$ref": "#/$defs/Tool"}:
            return {**node, "$ref": _OF_WORKBOOKS}
        case dict():
            return {key: _renamed(inner) for key, inner in node.items()}
        case list():
            return [_renamed(inner) for inner in node]
        case _:
            return node


def _keys(kind: KindInfo) -> Mapping[str, Schema]:
    """Those of its configuration, and other spellings of them."""
    found: Mapping[str, Schema] = kind.schema.get("properties", {})
    spelled = {key: {"description": one.meaning} for key, one in of_kind(kind).items() if "/" not in key}
    return {**spelled, **found}


def _of_kind(kind: KindInfo, common: list[str]) -> Schema:
    """What is to hold for a mapping of that kind, which may have `common` keys as well."""
    defs: Mapping[str, Schema] = kind.schema.get("$defs", {})
    own = {key: _value(found, defs) for key, found in _keys(kind).items() if key not in common}
    if kind.schema.get("additionalProperties") is not False:
        return {"properties": own}
    known = {**{key: {} for key in common}, **own}
    return {"properties": known, "patternProperties": {"^x-": {}}, "additionalProperties": False}


def _if_kind(kind: KindInfo, then: Schema, *, complete: bool = False) -> Schema:
    """`then` for mappings of that kind; with `complete`, what it needs is there."""
    if complete and kind.required:
        then = {**then, "allOf": [_one_of(group, kind) for group in kind.required]}
    return {"if": {"properties": {"kind": {"const": kind.kind}}, "required": ["kind"]}, "then": then}


def _one_of(group: tuple[str, ...], kind: KindInfo) -> Schema:
    """One key of the group is there, in any spelling, at the task or under its spec."""
    spelled = [key for key, one in of_kind(kind).items() if one.canonical in group]
    there = [{"required": [key]} for key in (*group, *spelled)]
    below: Schema = {"required": ["spec"], "properties": {"spec": {"type": "object", "anyOf": there}}}
    return {"if": {"not": {"anyOf": [*there, below]}}, "then": {"required": [group[0]]}}


def _value(found: Schema, defs: Mapping[str, Schema]) -> Schema:
    """What may stand under a key: a number where it takes numbers, a template anywhere. Of lists and mappings little is
    said: they have other spellings, and templates inside."""
    about = {"description": found["description"]} if found.get("description") else {}
    branches = found.get("anyOf", [found])
    types = {_type(branch) for branch in branches}
    if None in types:
        return about
    if types <= _SCALARS:
        return {**about, **_scalar(branches)}
    parts = [branch["$ref"].rpartition("/")[2] for branch in branches if "$ref" in branch]
    below = {"if": {"type": "object"}, "then": _part(defs[parts[0]], defs)} if len(parts) == 1 else {}
    texts = [_TEMPLATE, *(_AS_TEXT[str(name)] for name in sorted(map(str, types)) if name in _AS_TEXT)]
    lone: Schema = {} if "string" in types else {"if": {"type": "string"}, "then": {"anyOf": texts}}
    rules = [rule for rule in (below, lone) if rule]
    return {**about, **({"allOf": rules} if rules else {})}


def _type(branch: Schema) -> str | None:
    """None where it may be anything."""
    found = "object" if "$ref" in branch else branch.get("type")
    return found if isinstance(found, str) else None


def _part(part: Schema, defs: Mapping[str, Schema]) -> Schema:
    return {"properties": {key: _value(found, defs) for key, found in part.get("properties", {}).items()}}


def _scalar(branches: list[Schema]) -> Schema:
    """A template, a text that is read as one of `branches`, or one of these."""
    types = [str(branch["type"]) for branch in branches]
    texts = [_TEMPLATE, *(_AS_TEXT[name] for name in types if name in _AS_TEXT)]
    texts += [_bare(branch) for branch in branches if branch["type"] == "string"]
    rules: Schema = (
        {} if {"type": "string"} in texts else {"if": {"type": "string"}, "then": {"anyOf": texts}}
    )
    return {"type": sorted({"string", *types}), **rules}


def _bare(branch: Schema) -> Schema:
    return {key: branch[key] for key in ("type", "enum", "const", "pattern") if key in branch}
