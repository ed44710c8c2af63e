"""The OpenAPI document of one playbook: how it is started, and with what."""

from __future__ import annotations

from typing import Any, Final, get_args

from noetl.api.problems import MEDIA_TYPE
from noetl.facts.business_key import MOST, OnConflict
from noetl.facts.json import Json, JsonMap
from noetl.net.input_values import LATER, settle
from noetl.net.inputs import object_schema
from noetl.net.model import Net
from noetl.usecases.ports import PlaybookRow

_JSON: Final = "application/json"
_FAULT: Final = {
    "type": "object",
    "properties": {"path": {"type": "string"}, "message": {"type": "string"}},
    "required": ["path", "message"],
}
_PROBLEM: Final[JsonMap] = {
    "type": "object",
    "properties": {
        **{name: {"type": "string"} for name in ("type", "title", "detail", "instance")},
        "status": {"type": "integer"},
        "errors": {"type": "array", "items": _FAULT, "description": "everything that is wrong"},
    },
    "required": ["type", "title", "status", "detail"],
}
_STARTED: Final[JsonMap] = {
    "type": "object",
    "properties": {
        "execution_id": {"type": "string"},
        "status": {"type": "string"},
        "existing": {"type": "boolean"},
        "warnings": {"type": "array", "items": {"type": "object"}},
        "links": {"type": "object", "additionalProperties": {"type": "string"}},
    },
    "required": ["execution_id", "status", "existing", "warnings", "links"],
}


def playbook_document(row: PlaybookRow, net: Net) -> dict[str, Json]:
    """The document of that version. `payload` of its only operation has the schema of its inputs;
    of a playbook that declares none it is any object."""
    info = {"title": row.name, "version": str(row.version)}
    return {
        "openapi": "3.1.0",
        "info": info | ({"description": row.description} if row.description else {}),
        "paths": {"/api/executions": {"post": _operation(row, net)}},
        "components": {"schemas": {"Payload": payload_schema(net), "Started": _STARTED, "Problem": _PROBLEM}},
    }


def payload_schema(net: Net) -> dict[str, Json]:
    """The JSON Schema of what an execution may be given."""
    if not net.inputs:
        return {"type": "object"}
    defaults = {
        one.name: value
        for one in net.inputs
        if one.defaulted and not one.secret and _is_settled(value := settle(net.workload[one.name]))
    }
    made = object_schema(net.inputs, defaults)
    others: dict[str, Json] = {name: {} for name in net.workload if name not in made["properties"]}
    return {**made, "properties": made["properties"] | others}


def _is_settled(value: Any) -> bool:
    """Whether all of it is known before a run."""
    match value:
        case dict():
            return all(map(_is_settled, value.values()))
        case list():
            return all(map(_is_settled, value))
        case _:
            return value is not LATER


def _operation(row: PlaybookRow, net: Net) -> dict[str, Json]:
    needs = ["payload"] if any(one.required for one in net.inputs) else []
    body = {
        "type": "object",
        "properties": {
            "path": {"const": row.path},
            "version": {"const": row.version},
            "payload": _reference("Payload"),
            "key": {"type": "string", "maxLength": MOST},
            "on_conflict": {"enum": list(get_args(OnConflict))},
            "labels": {
                "type": "object",
                "additionalProperties": {"type": ["string", "number", "boolean"]},
            },
        },
        "required": ["path", *needs],
        "additionalProperties": False,
    }
    return {
        "operationId": "start",
        "summary": f"Start an execution of {row.path}",
        "parameters": [{"name": "Idempotency-Key", "in": "header", "schema": {"type": "string"}}],
        "requestBody": {"required": True, "content": {_JSON: {"schema": body}}},
        "responses": {
            "202": _answer("The request is in the log.", _JSON, "Started"),
            "409": _answer(
                "An open execution has the key, or another request that header.", MEDIA_TYPE, "Problem"
            ),
            "422": _answer("What is given is not what the playbook takes.", MEDIA_TYPE, "Problem"),
        },
    }


def _reference(name: str) -> dict[str, Json]:
    return {"$ref": f"#/components/schemas/{name}"}


def _answer(description: str, media_type: str, schema: str) -> dict[str, Json]:
    return {"description": description, "content": {media_type: {"schema": _reference(schema)}}}
