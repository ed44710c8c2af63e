"""Examples of the routes that are about approvals."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from noetl.api.examples.example import AT, ID, Example, in_json
from noetl.facts.json import JsonMap

_OPEN: Final[JsonMap] = {
    "execution_id": ID,
    "path": "billing/payouts",
    "key": "order-7",
    "id": "sign#1/-/1/approval",
    "step": "sign",
    "run_id": "sign#1",
    "iteration": None,
    "task": "sign",
    "name": "approval",
    "since": AT,
    "expires_at": "2026-11-26T09:00:00+00:00",
    "by": ["alice", "group:finance"],
    "count": 1,
    "message": "Pay 120 EUR to the harbour master?",
    "show": {"order": 7, "amount": 120},
    "form": {
        "type": "object",
        "properties": {"amount": {"type": "number", "default": 120}},
        "additionalProperties": False,
    },
    "four_eyes": True,
    "shown": "#34250d818060337e8fe2617aeb2bd688",
    "reminded": 0,
    "answers": [],
    "may_answer": True,
    "why_not": None,
    "answered": None,
}
_GIVEN: Final[JsonMap] = {
    "execution_id": ID,
    "step": "sign",
    "iteration": None,
    "task": "sign",
    "name": "approval",
    "answer": "approve",
    "version": 9,
    "existing": False,
}
#: By the route.
APPROVALS: Final[Mapping[str, Example]] = {
    "GET /api/approvals": in_json({"approvals": [_OPEN], "next": None}),
    "GET /api/executions/{execution_id}/approvals": in_json({"approvals": [_OPEN]}),
    "POST /api/executions/{execution_id}/approvals": in_json(
        _GIVEN,
        {"answer": "approve", "step": "sign", "values": {"amount": 120}, "reason": "as agreed"},
    ),
}
