"""The JSON Schema of playbooks, for editors."""

from __future__ import annotations

from noetl.dsl.document import Document
from noetl.dsl.foreign import schema_properties
from noetl.facts.json import Json

#: What editors should demand, though the reader only reports it.
_REQUIRED = {
    "Document": ["apiVersion", "kind", "workflow"],
    "Step": ["step"],
    "Loop": ["iterator"],
    "TaskLoop": ["in", "iterator"],
    "Repeat": ["next"],
}


def json_schema() -> dict[str, Json]:
    """A draft 2020-12 schema of the whole document, generated from the document model."""
    schema = Document.model_json_schema(by_alias=True)
    parts = {"Document": schema, **schema["$defs"]}
    for name, properties in schema_properties().items():
        parts[name].setdefault("properties", {}).update(properties)
    for name, required in _REQUIRED.items():
        parts[name]["required"] = required
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema, "title": "NoETL playbook"}
