"""Examples of the routes that say why an execution went as it did, and in what two differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.api.examples.example import AT, END, ID, PATH, Example, in_json

_ENTRY: Final = {
    "arc": "entry",
    "source": None,
    "step": "double",
    "fate": "taken",
    "why": "the execution begins here",
    "guard": None,
    "asked": 1,
    "taken": 1,
    "run": None,
    "version": None,
    "line": None,
}
_RUN: Final = {
    "run": "double#1",
    "version": 4,
    "scheduled_at": AT,
    "status": "done",
    "because": [_ENTRY],
    "admission": [],
    "ended_at": END,
    "duration_ms": 41.0,
    "worker": "io@host",
    "reuse": "",
    "reason": "",
    "error": None,
    "tasks": [
        {
            "task": "task_0",
            "status": "done",
            "attempts": 1,
            "went_on": False,
            "duration_ms": 0.2,
            "error": None,
        },
    ],
    "policies": [],
    "policies_more": 0,
    "loop": None,
    "children": [],
    "child_count": 0,
    "undone": [],
    "next": [],
}
_EXPLANATION: Final = {
    "execution_id": ID,
    "path": PATH,
    "playbook_version": 1,
    "version": 11,
    "status": "completed",
    "file": "double.yaml",
    "error": None,
    "steps": [
        {
            "step": "double",
            "line": 6,
            "standing": "done",
            "why": "It ran as the entry.",
            "run_count": 1,
            "runs": [_RUN],
            "ways": [_ENTRY],
            "stopped_at": [],
            "dropped": [],
            "waits": [],
        }
    ],
    "retry": None,
}
_SIDE: Final = {
    "execution_id": ID,
    "path": PATH,
    "playbook_version": 1,
    "digest": "19b07233…",
    "status": "completed",
    "version": 11,
    "duration_ms": 41.0,
    "error": None,
}
_NONE: Final = {"shown": [], "more": 0}
_COMPARISON: Final = {
    "summary": "They differ in: inputs, results.",
    "a": _SIDE,
    "b": {**_SIDE, "execution_id": "186824917024604162", "duration_ms": 43.5},
    "same": False,
    "playbook": _NONE,
    "inputs": {"shown": [{"path": "workload.n", "change": "changed", "a": 21, "b": 2}], "more": 0},
    "path": _NONE,
    "parting": None,
    "guards": _NONE,
    "steps": _NONE,
    "results": {"shown": [{"path": "double.double", "change": "changed", "a": 42, "b": 4}], "more": 0},
    "errors": _NONE,
    "durations": {"shown": [{"step": "double", "a": 41.0, "b": 43.5}], "more": 0},
}
_TIMELINE: Final = {
    "execution_id": ID,
    "version": 11,
    "status": "completed",
    "begin": AT,
    "at_ms": [0, 3, 3, 3, 3, 40, 40, 40, 44, 44, 44],
    "statuses": [[1, "pending"], [3, "running"], [11, "completed"]],
    "steps": {
        "double": {
            "changes": [[4, "running"], [8, "done"]],
            "runs": [
                {
                    "run_id": "double#1",
                    "status": "done",
                    "begin_version": 4,
                    "end_version": 8,
                    "begin_ms": 3,
                    "end_ms": 40,
                    "critical": True,
                    "segments": [["queued", 3, 9, None, False], ["running", 9, 40, 1, False]],
                    "loop": None,
                }
            ],
            "runs_left_out": 0,
        }
    },
    "arcs": {},
    "critical": ["double#1"],
}
#: By the route.
HISTORY: Final[Mapping[str, Example]] = {
    "GET /api/executions/{execution_id}/explain": in_json(_EXPLANATION),
    "GET /api/executions/{execution_id}/diff/{other}": in_json(_COMPARISON),
    "GET /api/executions/{execution_id}/timeline": in_json(_TIMELINE),
}
