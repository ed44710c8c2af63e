"""Examples of the routes that are about many executions at once."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.api.examples.example import AT, END, ID, PATH, Example, in_json
from noetl.facts.json import JsonMap

_WHERE: Final = "status = 'failed' and error ~ 'timed out'"
_FAILURES: Final[JsonMap] = {
    "fingerprint": "58d2c1d0a6f3",
    "kind": "timeout",
    "type": "",
    "step": "load",
    "task": "task_0",
    "shape": "<path> timed out after <number> s",
    "sample": "https://shop.example/orders/17 timed out after 30 s",
    "count": 12,
    "retried": 2,
    "first_at": AT,
    "last_at": END,
    "newest": [ID],
    "paths": [PATH],
}
_OPERATION: Final[JsonMap] = {
    "operation_id": "1234567890125",
    "kind": "retry",
    "status": "running",
    "where": _WHERE,
    "how": {"version": 0},
    "concurrency": 5,
    "principal": "ci",
    "reason": "",
    "created_at": AT,
    "updated_at": AT,
    "ended_at": None,
    "items": {
        "total": 10,
        "pending": 3,
        "started": 5,
        "completed": 1,
        "failed": 0,
        "partial": 0,
        "cancelled": 0,
        "refused": 1,
        "dropped": 0,
    },
}
_TALLY: Final[JsonMap] = {
    "counts": {"completed": 40, "failed": 2, "running": 1},
    "since": AT,
    "until": "2026-11-24T09:20:00+00:00",
    "spans": [{"completed": 25}, {"completed": 15, "failed": 2, "running": 1}],
    "more": False,
}
_ITEM: Final = {
    "position": 0,
    "execution_id": ID,
    "state": "started",
    "begun_id": "1234567890124",
    "reason": "",
}
#: By the route.
OPERATIONS: Final[Mapping[str, Example]] = {
    "GET /api/executions/failures": in_json({"groups": [_FAILURES], "count": 12, "more": False}),
    "GET /api/tally": in_json(_TALLY),
    "POST /api/operations": in_json(_OPERATION, {"where": _WHERE, "version": "latest", "concurrency": 5}),
    "GET /api/operations": in_json({"operations": [_OPERATION], "next": None}),
    "GET /api/operations/{operation_id}": in_json(_OPERATION),
    "GET /api/operations/{operation_id}/items": in_json({"items": [_ITEM], "next": None}),
    "POST /api/operations/{operation_id}/cancel": in_json(
        {**_OPERATION, "status": "cancelling", "reason": "not needed any more"},
        {"reason": "not needed any more"},
    ),
    "POST /api/operations/{operation_id}/pause": in_json(
        {**_OPERATION, "status": "paused", "reason": "the warehouse is being moved"},
        {"reason": "the warehouse is being moved"},
    ),
    "POST /api/operations/{operation_id}/resume": in_json(_OPERATION),
}
