"""Examples of the routes that look at an execution, and change it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.api.examples.example import AT, END, ID, JSON, LINKS, PATH, Example, in_json
from noetl.facts.json import JsonMap

_RESULT: Final = {"execution_id": ID, "status": "completed", "result": {"double": 42}, "error": None}
_STANDS: Final = {"execution_id": ID, "status": "running", "version": 8}
_ASSIGNED: Final = {
    "type": "boolean",
    "recorded_at": AT,
    "source": {
        "cause": "task",
        "version": 7,
        "step": "ask",
        "run_id": "ask#1",
        "iteration": None,
        "task": "check",
        "principal": None,
    },
}
_SUMMARY: Final = {
    "execution_id": ID,
    "parent_id": None,
    "source_id": None,
    "descent": None,
    "operation_id": None,
    "key": "order-7",
    "labels": {"team": "billing"},
    "principal": "ci",
    "waiting_for": None,
    "hold": None,
    "path": PATH,
    "version": 1,
    "status": "completed",
    "events": 11,
    "created_at": AT,
    "updated_at": END,
    "ended_at": END,
    "imported_at": None,
    "error": None,
    "errors_passed_over": 0,
    "warnings_count": 0,
}
_STEPS: Final = {"double": {"status": "done", "runs": 1, "result": {"double": 42}}}
_REPORT: Final[JsonMap] = {
    **{name: value for name, value in _SUMMARY.items() if name not in ("warnings_count", "waiting_for")},
    "waits": [],
    "stop": None,
    "inputs": {"n": 21},
    "result": {"double": 42},
    "ctx": {},
    "steps": _STEPS,
    "retry": None,
    "warnings": [],
    "duration_ms": 41.0,
    "children": [],
    "descendants": [],
    "links": LINKS,
}
_EVENT: Final = {
    "event_id": f"{ID}-6",
    "execution_id": ID,
    "version": 6,
    "type": "task.done",
    "step": "double",
    "step_run_id": "double#1",
    "iteration": None,
    "attempt": 1,
    "source": "worker",
    "status": "completed",
    "payload": {"task": "task_0", "result": {"double": 42}},
    "recorded_at": AT,
    "duration_ms": 0.2,
    "dedup_key": "task:double#1/task_0/1",
    "schema": 1,
    "origin": None,
    "principal": None,
    "request_id": None,
}
_CHUNK: Final = {
    "seq": 1,
    "step": "load",
    "run_id": "load#1",
    "iteration": None,
    "task": "task_0",
    "attempt": 1,
    "delivery": 1,
    "stream": "stdout",
    "start": 0,
    "text": "42 rows\n",
    "recorded_at": AT,
}
_EVENT_PAGE: Final = {"status": "completed", "version": 11, "idle": True, "events": [_EVENT], "next": 6}
#: By the route.
EXECUTIONS: Final[Mapping[str, Example]] = {
    "GET /api/executions": in_json({"executions": [_SUMMARY], "next": None}),
    "GET /api/executions/{execution_id}": in_json(_REPORT),
    "GET /api/executions/{execution_id}/result": in_json(_RESULT),
    "GET /api/executions/{execution_id}/state": in_json(
        {**_STANDS, "inputs": {"n": 2}, "ctx": {}, "steps": _STEPS, "marking": {"tokens": [], "running": []}}
    ),
    "GET /api/executions/{execution_id}/graph": Example(
        answered={"text/vnd.mermaid": "flowchart TD\n  double[double]\n"}
    ),
    "POST /api/executions/{execution_id}/cancel": in_json(_STANDS, {"reason": "not needed any more"}),
    "POST /api/executions/{execution_id}/signals/{name}": in_json(
        {"execution_id": ID, "id": "payment-17", "version": 9, "existing": False},
        {"payload": {"order": 7, "amount": 120}, "id": "payment-17"},
    ),
    "POST /api/signals/{name}": in_json(
        {"id": "payment-17", "sent": []},
        {"correlate": "7", "payload": {"amount": 120}, "id": "payment-17", "expires": "7d"},
    ),
    "POST /api/executions/{execution_id}/pause": in_json(_STANDS, {"reason": "the warehouse is being moved"}),
    "POST /api/executions/{execution_id}/resume": in_json(_STANDS, {"reason": "the warehouse is back"}),
    "PATCH /api/executions/{execution_id}/ctx": in_json(_STANDS, {"approved": True, "limits.rows": 100}),
    "GET /api/executions/{execution_id}/events": Example(
        answered={
            JSON: _EVENT_PAGE,
            "text/event-stream": 'id: 6\nevent: task.done\ndata: {"version": 6, "type": "task.done"}\n\n',
        }
    ),
    "GET /api/executions/{execution_id}/logs": Example(
        answered={
            JSON: {"status": "completed", "chunks": [_CHUNK], "next": None},
            "text/event-stream": 'id: 1\nevent: log\ndata: {"seq": 1, "text": "42 rows\\n"}\n\n',
        }
    ),
    "GET /api/vars/{execution_id}": in_json(
        {"execution_id": ID, "version": 8, "vars": {"approved": True}, "about": {"approved": _ASSIGNED}}
    ),
    "GET /api/vars/{execution_id}/{name}": in_json(
        {"execution_id": ID, "name": "approved", "value": True, **_ASSIGNED}
    ),
    "PUT /api/vars/{execution_id}/{name}": in_json(_STANDS, {"value": True}),
    "GET /api/workflows/status/{execution_id}": in_json(_SUMMARY),
    "GET /api/workflows/result/{execution_id}": in_json(_RESULT),
}
