"""Examples of the routes that are about keys and queues, and pause them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.api.examples.example import AT, ID, PATH, Example, in_json

_PAUSED: Final = {"kind": "key", "name": "reports", "since": AT, "principal": "ops", "reason": "too slow"}
_KEY_VIEW: Final = {
    "key": "reports",
    "limit": 3,
    "per_s": None,
    "paused": _PAUSED,
    "held": 1,
    "waiting": 0,
    "holders": [
        {
            "execution_id": ID,
            "path": PATH,
            "run_id": "load#1",
            "part": "-",
            "priority": 5,
            "since": AT,
            "shares_with": None,
            "until": None,
        }
    ],
    "waiters": [],
}
_QUEUE: Final = {
    "name": "http",
    "waiting": 3,
    "ready": 3,
    "held": 1,
    "oldest": AT,
    "limit": 20,
    "paused": None,
    "workers": 1,
}
_WORKER: Final = {
    "name": "host:4711",
    "queues": ["http", "python"],
    "presence": "alive",
    "seen_at": AT,
    "started_at": AT,
    "held": [
        {
            "execution_id": ID,
            "path": PATH,
            "step": "load",
            "run_id": "load#1",
            "part": "-",
            "queue": "http",
            "since": AT,
        }
    ],
}
#: By the route.
SLOTS: Final[Mapping[str, Example]] = {
    "GET /api/limits": in_json({"limits": [_KEY_VIEW], "paused": [_PAUSED]}),
    "POST /api/limits/{key}/pause": in_json({"name": "reports", "paused": True}, {"reason": "too slow"}),
    "POST /api/limits/{key}/resume": in_json({"name": "reports", "paused": False}),
    "GET /api/queues": in_json({"queues": [_QUEUE], "workers": [_WORKER], "whole": True}),
    "POST /api/queues/{queue}/pause": in_json({"name": "http", "paused": True}, {"reason": "it is down"}),
    "POST /api/queues/{queue}/resume": in_json({"name": "http", "paused": False}),
}
