"""The JSON Schema of playbooks, for editors: what the document model accepts, and the keys of each kind of tool."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl.dsl.document import Document
from noetl.facts.json import Json
from noetl.net.model import KindInfo
from noetl.net.spellings import of_kind

#: What editors should demand, though the reader only reports it.
_REQUIRED: Final = {
    "Document": ["apiVersion", "kind", "workflow"],
    "Step": ["step"],
    "Loop": ["iterator"],
    "TaskLoop": ["in", "iterator"],
    "Repeat": ["next"],
}
#: What pydantic says of its own models, and no author of a playbook needs.
_NOISE: Final = frozenset({"title", "additionalProperties"})


def json_schema(kinds: Mapping[str, KindInfo]) -> dict[str, Json]:
    """A draft 2020-12 schema of the whole document; tools of other kinds than `kinds` are accepted as they are."""
    schema = Document.model_json_schema(by_alias=True)
    parts = {"Document": schema, **schema["$defs"]}
    for name, required in _REQUIRED.items():
        parts[name]["required"] = required
    for part in parts.values():
        _tidy(part)
    _add_kinds(parts["Tool"], kinds)
    schema.pop("title", None)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "NoETL playbook", **schema}


def _tidy(node: Any) -> None:
    """Forms overlap where all their keys may be left out, so the first that fits is enough. Null is what stands
    where nothing does."""
    if isinstance(node, list):
        for inner in node:
            _tidy(inner)
    if not isinstance(node, dict):
        return
    for key in _NOISE & node.keys():
        # A property may be called so, and a mapping may say what its values are.
        if not isinstance(node[key], dict):
            del node[key]
    if "oneOf" in node:
        node["anyOf"] = node.pop("oneOf")
    if node.get("default", "") is None:
        del node["default"]
    for inner in list(node.values()):
        _tidy(inner)


def _add_kinds(tool: dict[str, Any], kinds: Mapping[str, KindInfo]) -> None:
    """What each kind takes beside the keys of every task. Values are not looked at: they may be templates."""
    properties = tool["properties"]
    properties["kind"] = {"anyOf": [{"enum": [*sorted(kinds), "workbook"]}, {"type": ["string", "null"]}]}
    tool["allOf"] = [
        {
            "if": {"properties": {"kind": {"const": kind}}, "required": ["kind"]},
            "then": {"properties": own},
        }
        for kind in sorted(kinds)
        if (own := _own(kinds[kind], properties))
    ]


def _own(kind: KindInfo, known: Mapping[str, Any]) -> dict[str, Any]:
    own = {
        key: {"description": found["description"]} if found.get("description") else {}
        for key, found in kind.schema.get("properties", {}).items()
    }
    spelled = {
        key: {"description": spelling.meaning} for key, spelling in of_kind(kind).items() if "/" not in key
    }
    return {key: one for key, one in (own | spelled).items() if key not in known}
