"""Examples of the routes that are about results which are kept."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.api.examples.example import AT, END, ID, PATH, Example, in_json

#: By the route.
RESULTS: Final[Mapping[str, Example]] = {
    "GET /api/cache": in_json(
        {
            "cached": [
                {
                    "key": "0d1c7f2ab19f4a6c8b0f5e2d3c4b5a69",
                    "path": PATH,
                    "scope": "playbook",
                    "kind": "http",
                    "execution_id": ID,
                    "run_id": "fetch#1",
                    "iteration": None,
                    "task": "fetch",
                    "bytes": 118,
                    "created_at": AT,
                    "expires_at": END,
                }
            ]
        }
    ),
    "DELETE /api/cache": in_json({"removed": 1}),
    "GET /api/results/{name}": in_json([{"n": 1}, {"n": 2}]),
}
