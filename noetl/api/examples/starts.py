"""Examples of the routes that begin executions: new ones, and those that descend from others."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.api.examples.example import ID, JSON, LINKS, PATH, PLAYBOOK, YAML, Example, in_json

_ACCEPTED: Final = {
    "execution_id": ID,
    "status": "pending",
    "existing": False,
    "warnings": [],
    "links": LINKS,
}
_DESCENDANT: Final = {
    "execution_id": "1234567890124",
    "status": "pending",
    "source_id": ID,
    "descent": "retry",
    "links": LINKS,
}
_START: Final = {"path": PATH, "payload": {"n": 21}}
#: By the route.
STARTS: Final[Mapping[str, Example]] = {
    "POST /api/executions": Example(
        {JSON: {**_START, "key": "order-7", "labels": {"team": "billing"}}, YAML: PLAYBOOK}, {JSON: _ACCEPTED}
    ),
    "POST /api/executions/batch": in_json(
        {
            "accepted": 1,
            "refused": 0,
            "executions": [
                {"status": 202, "execution_id": ID, "existing": False, "warnings": [], "links": LINKS}
            ],
        },
        {"executions": [{**_START, "idempotency_key": "order-7"}]},
    ),
    "POST /api/executions/{execution_id}/retry": in_json(_DESCENDANT, {"from": "double"}),
    "POST /api/executions/{execution_id}/migrate": in_json(
        {**_DESCENDANT, "descent": "migration"}, {"version": "latest"}
    ),
    "POST /api/executions/{execution_id}/fork": in_json({**_DESCENDANT, "descent": "fork"}, {"at": 6}),
    "POST /api/workflows/run": Example(
        {JSON: {"workflow": PATH, "input": {"n": 21}}, YAML: PLAYBOOK}, {JSON: _ACCEPTED}
    ),
}
