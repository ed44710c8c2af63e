"""Examples of the routes that are about NoETL itself: health, what runs, templates."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.api.examples.example import AT, Example, in_json

#: By the route.
SYSTEM: Final[Mapping[str, Example]] = {
    "GET /api/health": in_json({"status": "ok", "database": {"status": "ok"}, "broker": {"status": "ok"}}),
    "GET /api/runtime": in_json(
        {
            "version": "1.0.0",
            "kinds": [
                {"kind": "noop", "queue": "default", "effects": "none", "description": "Does nothing."}
            ],
            "queues": ["default"],
            "workers": [
                {
                    "name": "io@host",
                    "role": "worker",
                    "queues": ["default"],
                    "started_at": AT,
                    "seen_at": AT,
                }
            ],
            "dead_letters": [],
        }
    ),
    "POST /api/context/render": in_json(
        {"result": {"total": 42}, "warnings": []},
        {"template": {"total": "{{ 2 * n }}"}, "context": {"n": 21}},
    ),
}
