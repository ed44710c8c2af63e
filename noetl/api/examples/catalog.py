"""Examples of the routes that are about playbooks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.api.examples.example import AT, JSON, PATH, PLAYBOOK, YAML, Example, in_json

_PLAYBOOK: Final = {"path": PATH, "version": 1, "name": "double", "description": "", "created_at": AT}
#: By the route.
CATALOG: Final[Mapping[str, Example]] = {
    "GET /api/catalog": in_json({"playbooks": [_PLAYBOOK]}),
    "POST /api/catalog": Example(
        {JSON: {"content": PLAYBOOK}, YAML: PLAYBOOK}, {JSON: {**_PLAYBOOK, "warnings": []}}
    ),
    "GET /api/catalog/{path}": in_json(
        {**_PLAYBOOK, "warnings": [], "content": PLAYBOOK, "content_sha256": "9f86d081…", "versions": [1]}
    ),
    "GET /api/catalog/{path}/openapi.json": in_json(
        {
            "openapi": "3.1.0",
            "info": {"title": "double", "version": "1"},
            "paths": {"/api/executions": {"post": {"operationId": "start"}}},
            "components": {"schemas": {"Payload": {"type": "object"}}},
        }
    ),
}
