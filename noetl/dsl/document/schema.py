"""The JSON Schema of playbooks, for editors: what the document model accepts, and the keys of each
kind of tool."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any, Final

from noetl.dsl.document import Document, DocumentPart, Router, TrialFile
from noetl.dsl.document.base import Key, declared_keys, keys_near, parts_by_name
from noetl.dsl.document.docstrings import described_schema
from noetl.dsl.document.keychain import add_keychain
from noetl.dsl.document.schema_forms import CLOSED, Schema, tell_apart
from noetl.dsl.document.schema_tools import add_kinds, of_workbook
from noetl.facts.durations import LOOKS
from noetl.facts.json import Json
from noetl.net.model import KindInfo

#: What is a number or a text, and of texts only some are.
_DURATION: Final = rf"\{{\{{|\{{%|{LOOKS}"
_COUNT: Final = r"\{\{|\{%|^\s*\d+\s*$"
#: Unit → what texts with it look like, and the least number.
_UNITS: Final = {"duration": (_DURATION, 0), "count": (_COUNT, 1)}
#: What pydantic says of mappings that take anything.
_ANY_MORE: Final = ("additionalProperties", True)


def json_schema(kinds: Mapping[str, KindInfo]) -> dict[str, Json]:
    """A draft 2020-12 schema of the whole document. Unknown keys are refused but for `x-...`, and
    so are kinds of tools other than `kinds`; what is at fault is found where it stands."""
    schema = _schema_of(Document)
    add_kinds(schema["$defs"], kinds)
    add_keychain(schema)
    schema["properties"]["workbook"] = of_workbook(schema["properties"]["workbook"])
    return _as_document("NoETL playbook", schema)


def schema_of_tests() -> dict[str, Json]:
    """The same of files of tests."""
    return _as_document("NoETL tests", _schema_of(TrialFile))


def _as_document(title: str, schema: Schema) -> dict[str, Json]:
    schema.pop("title", None)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": title,
        **deepcopy(schema),
    }


def _schema_of(root: type[DocumentPart]) -> Schema:
    schema = described_schema(root)
    parts = {root.__name__: schema, **schema["$defs"]}
    for name, part in parts.items():
        model = parts_by_name()[name]
        keys = declared_keys(model)
        part.update(_demands(keys))
        _close(model, part)
        for key, found in part["properties"].items():
            given = _without_null(found) if key in part.get("required", ()) else found
            unit = keys[key].unit if key in keys else None
            part["properties"][key] = tell_apart(_tidy(given, unit), parts)
    return schema


def _demands(keys: Mapping[str, Key]) -> Schema:
    """Which keys must be there, and which of them beside others."""
    required = [key for key, one in keys.items() if one.required]
    made: Schema = {"required": required} if required else {}
    for key, one in keys.items():
        if one.required_unless:
            made["if"], made["then"] = {"not": {"required": [one.required_unless]}}, {"required": [key]}
        if one.required_if is not None:
            other, value = one.required_if
            made["if"] = {"properties": {other: {"const": value}}, "required": [other]}
            made["then"] = {"required": [key]}
    return made


def _close(model: type[DocumentPart], part: Schema) -> None:
    """Only declared keys are known, and those that are rewritten before the model reads them; of a
    router these are the keys of arcs."""
    del part["title"]
    _put_on_one_line(part)
    part.pop("additionalProperties", None)
    if not model.is_open:
        part |= CLOSED
    for key in sorted(keys_near(model)) if model is not Router else ():
        part["properties"].setdefault(key, {})


def _without_null(found: dict[str, Any]) -> dict[str, Any]:
    """What must be there is something."""
    forms = found.get("anyOf")
    return found if forms is None else {**found, "anyOf": [one for one in forms if one.get("type") != "null"]}


def _put_on_one_line(node: dict[str, Any]) -> None:
    """The description, whose lines end where those of the docstring do."""
    if isinstance(text := node.get("description"), str):
        node["description"] = " ".join(text.split())


def _tidy(node: Any, unit: str | None) -> Any:
    """Without what pydantic says of its own models, and no author of a playbook needs; numbers and
    texts have to be of the `unit`."""
    if isinstance(node, list):
        return [_tidy(inner, unit) for inner in node]
    if not isinstance(node, dict):
        return node
    kept = {
        key: _tidy(inner, unit)
        for key, inner in node.items()
        if key != "title" and not (key == "default" and inner is None) and (key, inner) != _ANY_MORE
    }
    _put_on_one_line(kept)
    if unit is not None:
        pattern, least = _UNITS[unit]
        if kept.get("type") == "string":
            kept["pattern"] = pattern
        elif kept.get("type") in ("integer", "number"):
            kept["minimum"] = least
    return kept
