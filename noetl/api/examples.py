"""One example for each body and each answer of the API, as the OpenAPI document shows them.

By the route: what may be sent (by media type), and what is answered when it went well. Tests hold
all of them against the schemas, and send what may be sent.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Final

from noetl.api.access_examples import ACCESS
from noetl.api.approval_examples import APPROVALS
from noetl.api.example import AT as _AT
from noetl.api.example import END as _END
from noetl.api.example import ID as _ID
from noetl.api.example import JSON as _JSON
from noetl.api.example import LINES as _LINES
from noetl.api.example import Example
from noetl.api.example import in_json as _json
from noetl.facts.events import Draft, Event, Requested
from noetl.facts.json import JsonMap
from noetl.net.codec import digest, to_json
from noetl.net.model import Net, Transition
from noetl.usecases.specimen_chain import FORMAT, VERSION, write
from noetl.usecases.views import envelope

_YAML: Final = "application/yaml"
_PATH: Final = "examples/double"
PLAYBOOK: Final = f"""\
apiVersion: noetl.io/v2
kind: Playbook
metadata: {{name: double, path: {_PATH}}}
workload: {{n: 2}}
workflow:
  - step: double
    tool: {{kind: noop, input: {{double: "{{{{ n * 2 }}}}"}}}}
"""


_HERE: Final = f"/api/executions/{_ID}"
_LINKS: Final = {
    "self": _HERE,
    **{part: f"{_HERE}/{part}" for part in ("events", "logs", "state", "result", "graph")},
    "children": f"/api/executions?parent={_ID}",
}
_ACCEPTED: Final = {
    "execution_id": _ID,
    "status": "pending",
    "existing": False,
    "warnings": [],
    "links": _LINKS,
}
_RESULT: Final = {"execution_id": _ID, "status": "completed", "result": {"double": 42}, "error": None}
_STANDS: Final = {"execution_id": _ID, "status": "running", "version": 8}
_PAUSED: Final = {"kind": "key", "name": "reports", "since": _AT, "principal": "ops", "reason": "too slow"}
_KEY_VIEW: Final = {
    "key": "reports",
    "limit": 3,
    "per_s": None,
    "paused": _PAUSED,
    "held": 1,
    "waiting": 0,
    "holders": [
        {
            "execution_id": _ID,
            "path": _PATH,
            "run_id": "load#1",
            "part": "-",
            "priority": 5,
            "since": _AT,
            "shares_with": None,
            "until": None,
        }
    ],
    "waiters": [],
}
_SUMMARY: Final = {
    "execution_id": _ID,
    "parent_id": None,
    "source_id": None,
    "descent": None,
    "operation_id": None,
    "key": "order-7",
    "principal": "ci",
    "waiting_for": None,
    "path": _PATH,
    "version": 1,
    "status": "completed",
    "events": 11,
    "created_at": _AT,
    "updated_at": _END,
    "ended_at": _END,
    "imported_at": None,
    "error": None,
    "errors_passed_over": 0,
    "warnings_count": 0,
}
_STEPS: Final = {"double": {"status": "done", "runs": 1, "result": {"double": 42}}}
_REPORT: Final[JsonMap] = {
    **{name: value for name, value in _SUMMARY.items() if name not in ("warnings_count", "waiting_for")},
    "waits": [],
    "result": {"double": 42},
    "ctx": {},
    "steps": _STEPS,
    "retry": None,
    "warnings": [],
    "duration_ms": 41.0,
    "children": [],
    "links": _LINKS,
}
_EVENT: Final = {
    "event_id": f"{_ID}-6",
    "execution_id": _ID,
    "version": 6,
    "type": "task.done",
    "step": "double",
    "step_run_id": "double#1",
    "iteration": None,
    "attempt": 1,
    "source": "worker",
    "status": "completed",
    "payload": {"task": "task_0", "result": {"double": 42}},
    "recorded_at": _AT,
    "duration_ms": 0.2,
    "dedup_key": "task:double#1/task_0/1",
    "schema": 1,
    "origin": None,
    "principal": None,
    "request_id": None,
}
_DESCENDANT: Final = {
    "execution_id": "1234567890124",
    "status": "pending",
    "source_id": _ID,
    "descent": "retry",
    "links": _LINKS,
}
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
    "first_at": _AT,
    "last_at": _END,
    "newest": [_ID],
    "paths": [_PATH],
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
    "created_at": _AT,
    "updated_at": _AT,
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
_ITEM: Final = {
    "position": 0,
    "execution_id": _ID,
    "state": "started",
    "begun_id": "1234567890124",
    "reason": "",
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
    "recorded_at": _AT,
}
_PLAYBOOK: Final = {"path": _PATH, "version": 1, "name": "double", "description": "", "created_at": _AT}
_CREDENTIAL: Final = {
    "name": "warehouse",
    "type": "postgres",
    "scope": "global",
    "place": "",
    "created_at": _AT,
    "updated_at": _AT,
}
_START: Final = {"path": _PATH, "payload": {"n": 21}}
_EVENT_PAGE: Final = {"status": "completed", "version": 11, "idle": True, "events": [_EVENT], "next": 6}

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
    "scheduled_at": _AT,
    "status": "done",
    "because": [_ENTRY],
    "admission": [],
    "ended_at": _END,
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
    "next": [],
}
_EXPLANATION: Final = {
    "execution_id": _ID,
    "path": _PATH,
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
    "execution_id": _ID,
    "path": _PATH,
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


def _file() -> str:
    """The shortest file of an execution: it was asked for, and that was all."""
    net = Net("double", _PATH, "double", (Transition("double"),))
    asked = Event(_ID, 1, datetime.fromisoformat(_AT), Draft(Requested(_PATH, 1, digest(net), {"n": 21})))
    head = {
        "execution_id": _ID,
        "path": _PATH,
        "playbook_version": 1,
        "digest": digest(net),
        "status": "pending",
        "events": 1,
        "created_at": _AT,
        "updated_at": _AT,
        "ended_at": None,
        "parent_id": None,
        "error": None,
        "errors_passed_over": 0,
        "warnings_count": 0,
        "exported_at": _END,
        "noetl": "1.0.0",
    }
    parts: list[JsonMap] = [
        {"format": FORMAT, "version": VERSION, **head},
        {"playbook": {"path": _PATH, "version": 1, "content": PLAYBOOK}},
        {"net": to_json(net)},
        {"event": envelope(asked)},
        {"end": {"events": 1, "results": 0, "left_out": []}},
    ]
    return "".join(write(parts))


_FILE: Final = _file()
_SPECIMEN: Final[JsonMap] = {
    "execution_id": _ID,
    "status": "pending",
    "path": _PATH,
    "version": 1,
    "events": 1,
    "results": 0,
    "left_out": 0,
    "is_new": True,
    "links": _LINKS,
}

_TEST: Final = f"""\
# Made of execution {_ID} of {_PATH}@1.
playbook: double.yaml
tests:
- name: as execution {_ID} went
  inputs:
    n: 21
  stand_ins:
    double:
      recorded:
        total: 42
  expect:
    status: completed
    path:
    - double
    result:
      total: 42
"""

#: By method and path.
EXAMPLES: Final[Mapping[str, Example]] = {
    "GET /api/health": _json({"status": "ok", "database": {"status": "ok"}, "broker": {"status": "ok"}}),
    "GET /api/runtime": _json(
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
                    "started_at": _AT,
                    "seen_at": _AT,
                }
            ],
            "dead_letters": [],
        }
    ),
    "POST /api/context/render": _json(
        {"result": {"total": 42}, "warnings": []},
        {"template": {"total": "{{ 2 * n }}"}, "context": {"n": 21}},
    ),
    "GET /api/catalog": _json({"playbooks": [_PLAYBOOK]}),
    "POST /api/catalog": Example(
        {_JSON: {"content": PLAYBOOK}, _YAML: PLAYBOOK}, {_JSON: {**_PLAYBOOK, "warnings": []}}
    ),
    "GET /api/catalog/{path}": _json(
        {**_PLAYBOOK, "warnings": [], "content": PLAYBOOK, "content_sha256": "9f86d081…", "versions": [1]}
    ),
    "GET /api/catalog/{path}/openapi.json": _json(
        {
            "openapi": "3.1.0",
            "info": {"title": "double", "version": "1"},
            "paths": {"/api/executions": {"post": {"operationId": "start"}}},
            "components": {"schemas": {"Payload": {"type": "object"}}},
        }
    ),
    "GET /api/executions": _json({"executions": [_SUMMARY], "next": None}),
    "POST /api/executions": _json(_ACCEPTED, {**_START, "key": "order-7"}),
    "POST /api/executions/batch": _json(
        {
            "accepted": 1,
            "refused": 0,
            "executions": [
                {"status": 202, "execution_id": _ID, "existing": False, "warnings": [], "links": _LINKS}
            ],
        },
        {"executions": [{**_START, "idempotency_key": "order-7"}]},
    ),
    "GET /api/executions/failures": _json({"groups": [_FAILURES], "count": 12, "more": False}),
    "GET /api/executions/{execution_id}": _json(_REPORT),
    "GET /api/executions/{execution_id}/result": _json(_RESULT),
    "GET /api/executions/{execution_id}/state": _json(
        {**_STANDS, "ctx": {}, "steps": _STEPS, "marking": {"tokens": [], "running": []}}
    ),
    "GET /api/executions/{execution_id}/explain": _json(_EXPLANATION),
    "GET /api/executions/{execution_id}/diff/{other}": _json(_COMPARISON),
    "GET /api/executions/{execution_id}/graph": Example(
        answered={"text/vnd.mermaid": "flowchart TD\n  double[double]\n"}
    ),
    "POST /api/executions/{execution_id}/retry": _json(_DESCENDANT, {"from": "double"}),
    "POST /api/executions/{execution_id}/migrate": _json(
        {**_DESCENDANT, "descent": "migration"}, {"version": "latest"}
    ),
    "POST /api/executions/{execution_id}/fork": _json({**_DESCENDANT, "descent": "fork"}, {"at": 6}),
    "GET /api/executions/{execution_id}/export": Example(answered={_LINES: _FILE}),
    "GET /api/executions/{execution_id}/fixture": Example(answered={_YAML: _TEST}),
    "POST /api/executions/import": Example({_LINES: _FILE}, {_JSON: _SPECIMEN}),
    "POST /api/executions/{execution_id}/cancel": _json(_STANDS, {"reason": "not needed any more"}),
    "POST /api/executions/{execution_id}/signals/{name}": _json(
        {"execution_id": _ID, "id": "payment-17", "version": 9, "existing": False},
        {"payload": {"order": 7, "amount": 120}, "id": "payment-17"},
    ),
    "POST /api/signals/{name}": _json(
        {"id": "payment-17", "sent": []},
        {"correlate": "7", "payload": {"amount": 120}, "id": "payment-17", "expires": "7d"},
    ),
    "POST /api/executions/{execution_id}/pause": _json(_STANDS, {"reason": "the warehouse is being moved"}),
    "POST /api/executions/{execution_id}/resume": _json(_STANDS, {"reason": "the warehouse is back"}),
    "PATCH /api/executions/{execution_id}/ctx": _json(_STANDS, {"approved": True, "limits.rows": 100}),
    "GET /api/executions/{execution_id}/events": Example(
        answered={
            _JSON: _EVENT_PAGE,
            "text/event-stream": 'id: 6\nevent: task.done\ndata: {"version": 6, "type": "task.done"}\n\n',
        }
    ),
    "GET /api/executions/{execution_id}/logs": Example(
        answered={
            _JSON: {"status": "completed", "chunks": [_CHUNK], "next": None},
            "text/event-stream": 'id: 1\nevent: log\ndata: {"seq": 1, "text": "42 rows\\n"}\n\n',
        }
    ),
    "POST /api/operations": _json(_OPERATION, {"where": _WHERE, "version": "latest", "concurrency": 5}),
    "GET /api/operations": _json({"operations": [_OPERATION], "next": None}),
    "GET /api/operations/{operation_id}": _json(_OPERATION),
    "GET /api/operations/{operation_id}/items": _json({"items": [_ITEM], "next": None}),
    "POST /api/operations/{operation_id}/cancel": _json(
        {**_OPERATION, "status": "cancelling", "reason": "not needed any more"},
        {"reason": "not needed any more"},
    ),
    "POST /api/operations/{operation_id}/pause": _json(
        {**_OPERATION, "status": "paused", "reason": "the warehouse is being moved"},
        {"reason": "the warehouse is being moved"},
    ),
    "POST /api/operations/{operation_id}/resume": _json(_OPERATION),
    "GET /api/vars/{execution_id}": _json({"execution_id": _ID, "version": 8, "vars": {"approved": True}}),
    "GET /api/vars/{execution_id}/{name}": _json({"execution_id": _ID, "name": "approved", "value": True}),
    "PUT /api/vars/{execution_id}/{name}": _json(_STANDS, {"value": True}),
    "GET /api/credentials": _json({"credentials": [_CREDENTIAL]}),
    "POST /api/credentials": _json(
        _CREDENTIAL,
        {"name": "warehouse", "type": "postgres", "data": {"dsn": "postgresql://user:password@db/warehouse"}},
    ),
    "DELETE /api/credentials/{name}": Example(),
    **ACCESS,
    **APPROVALS,
    "GET /api/cache": _json(
        {
            "cached": [
                {
                    "key": "0d1c7f2ab19f4a6c8b0f5e2d3c4b5a69",
                    "path": _PATH,
                    "scope": "playbook",
                    "kind": "http",
                    "execution_id": _ID,
                    "run_id": "fetch#1",
                    "iteration": None,
                    "task": "fetch",
                    "bytes": 118,
                    "created_at": _AT,
                    "expires_at": _END,
                }
            ]
        }
    ),
    "DELETE /api/cache": _json({"removed": 1}),
    "GET /api/limits": _json({"limits": [_KEY_VIEW], "paused": [_PAUSED]}),
    "POST /api/limits/{key}/pause": _json({"name": "reports", "paused": True}, {"reason": "too slow"}),
    "POST /api/limits/{key}/resume": _json({"name": "reports", "paused": False}),
    "POST /api/queues/{queue}/pause": _json({"name": "http", "paused": True}, {"reason": "it is down"}),
    "POST /api/queues/{queue}/resume": _json({"name": "http", "paused": False}),
    "GET /api/results/{name}": _json([{"n": 1}, {"n": 2}]),
    "POST /api/workflows/run": _json(_ACCEPTED, {"workflow": _PATH, "input": {"n": 21}}),
    "GET /api/workflows/status/{execution_id}": _json(_SUMMARY),
    "GET /api/workflows/result/{execution_id}": _json(_RESULT),
}
