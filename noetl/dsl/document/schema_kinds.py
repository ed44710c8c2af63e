"""What each kind of tool adds to the schema of a task: its keys, which of them must be there, and
what they may hold."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from copy import deepcopy
from typing import Any, Final, TypeAlias

from noetl.dsl.document.schema_values import Values
from noetl.net.kinds import of_kind
from noetl.net.model import KindInfo

Schema: TypeAlias = dict[str, Any]

#: Parts that name a kind.
_NAMING: Final = ("Tool", "WorkbookTool", "Sink", "Action")
_OF_WORKBOOKS: Final = "#/$defs/WorkbookTool"


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
    spelled = {written: one.canonical for written, one in of_kind(kind).items()}
    values = Values(kind.schema.get("$defs", {}), spelled)
    own = {key: values.of(found, key) for key, found in _keys(kind).items() if key not in common}
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
