"""The JSON Schema of playbooks, for editors: what the document model accepts, and the keys of each kind of tool."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from noetl.dsl.document import Document, Part, Router
from noetl.dsl.document.keys import COUNTS, DURATIONS, keys_near, models_below
from noetl.dsl.document.schema_forms import told_apart
from noetl.dsl.document.schema_keychain import add_keychain
from noetl.dsl.document.schema_kinds import add_kinds, of_workbook
from noetl.facts.json import Json
from noetl.net.model import KindInfo

#: What editors should demand, though the reader only reports it.
_REQUIRED: Final = {
    "Document": ["apiVersion", "kind", "workflow"],
    "Step": ["step"],
    "Loop": ["iterator"],
    "TaskLoop": ["in", "iterator"],
    "Repeat": ["next"],
}
#: And what it should demand beside other keys.
_CONDITIONAL: Final[Mapping[str, Json]] = {
    "Loop": {"if": {"not": {"required": ["cursor"]}}, "then": {"required": ["in"]}},
    "Then": {
        "if": {"properties": {"do": {"const": "jump"}}, "required": ["do"]},
        "then": {"required": ["to"]},
    },
}
#: Parts whose other keys are those of a tool.
_OPEN: Final = frozenset({"Tool", "Action", "Sink", "Cursor", "Metadata"})
#: What is a number or a text, and of texts only some are.
_DURATION: Final = (
    r"\{\{|\{%|^\s*(\d+([.,]\d+)?|(\d+([.,]\d+)?\s*([mM][sS]|[sSmMhHdDwW])\s*)+|[pP][0-9WDTHMSwdthms.,]+)\s*$"
)
_COUNT: Final = r"\{\{|\{%|^\s*\d+\s*$"
_TEXTS: Final[Mapping[str, str]] = {
    **dict.fromkeys(DURATIONS, _DURATION),
    **dict.fromkeys(COUNTS, _COUNT),
}
_MODELS: Final[Mapping[str, type[Part]]] = {model.__name__: model for model in models_below(Part)}
#: What pydantic says of mappings that take anything.
_ANY_MORE: Final = ("additionalProperties", True)


def json_schema(kinds: Mapping[str, KindInfo]) -> dict[str, Json]:
    """A draft 2020-12 schema of the whole document. Unknown keys are refused but for `x-...`, and so are kinds of tools
    other than `kinds`; what is at fault is found where it stands."""
    schema = Document.model_json_schema(by_alias=True)
    parts = {"Document": schema, **schema["$defs"]}
    for name, required in _REQUIRED.items():
        parts[name]["required"] = required
    for name, condition in _CONDITIONAL.items():
        parts[name] |= condition
    for name, part in parts.items():
        _close(part, is_open=name in _OPEN)
        _add_spellings(name, part)
        for key, found in part["properties"].items():
            given = _without_null(found) if key in part.get("required", ()) else found
            part["properties"][key] = told_apart(_tidy(given, _TEXTS.get(key)), parts)
    add_kinds(schema["$defs"], kinds)
    add_keychain(schema)
    schema["properties"]["workbook"] = of_workbook(schema["properties"]["workbook"])
    schema.pop("title", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "NoETL playbook",
        **deepcopy(schema),
    }


def _close(part: dict[str, Any], *, is_open: bool) -> None:
    del part["title"]
    part.pop("additionalProperties", None)
    if not is_open:
        part["patternProperties"] = {"^x-": {}}
        part["additionalProperties"] = False


def _add_spellings(name: str, part: dict[str, Any]) -> None:
    """Keys that are rewritten before the model reads them. A router's are none: they are those of arcs."""
    model = _MODELS.get(name)
    for key in sorted(keys_near(model)) if model not in (None, Router) else ():
        part["properties"].setdefault(key, {})


def _without_null(found: dict[str, Any]) -> dict[str, Any]:
    """What must be there is something."""
    forms = found.get("anyOf")
    return found if forms is None else {**found, "anyOf": [one for one in forms if one.get("type") != "null"]}


def _tidy(node: Any, pattern: str | None) -> Any:
    """Without what pydantic says of its own models, and no author of a playbook needs; texts have to match `pattern`."""
    if isinstance(node, list):
        return [_tidy(inner, pattern) for inner in node]
    if not isinstance(node, dict):
        return node
    kept = {
        key: _tidy(inner, pattern)
        for key, inner in node.items()
        if key != "title" and not (key == "default" and inner is None) and (key, inner) != _ANY_MORE
    }
    if pattern is not None and kept.get("type") == "string":
        kept["pattern"] = pattern
    elif pattern is not None and kept.get("type") in ("integer", "number"):
        kept["minimum"] = 1 if pattern == _COUNT else 0
    return kept
