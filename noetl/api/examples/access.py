"""Examples of the routes that are about who asks, and about credentials."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from noetl.api.called import FORM
from noetl.api.examples.example import AT, END, ID, JSON, LINES, Example, in_json
from noetl.facts.json import JsonMap

_TOKEN_VIEW: Final[JsonMap] = {
    "token_id": "k7w2mq4hxa",
    "principal": "ci",
    "groups": ["builders"],
    "scopes": ["run:etl/*", "read"],
    "rate": "100/minute",
    "created_at": AT,
    "created_by": "admin",
    "expires_at": "2027-02-22T09:00:00+00:00",
    "revoked_at": None,
    "used_at": END,
}
_WHOAMI: Final[JsonMap] = {
    "principal": "ci",
    "groups": ["builders"],
    "scopes": ["run:etl/*", "read"],
    "token_id": "k7w2mq4hxa",
    "open": False,
}
_ENTRY: Final[JsonMap] = {
    "number": 41,
    "recorded_at": AT,
    "principal": "ci",
    "request_id": "4bf92f3577b34da6a3ce929d0e0e4736",
    "action": "playbook.execution.requested",
    "subject": ID,
    "version": 1,
    "detail": {},
}
_CREDENTIAL: Final = {
    "name": "warehouse",
    "type": "postgres",
    "scope": "global",
    "place": "",
    "created_at": AT,
    "updated_at": AT,
}
#: By the route.
ACCESS: Final[Mapping[str, Example]] = {
    "GET /api/tokens": in_json({"tokens": [_TOKEN_VIEW]}),
    "POST /api/tokens": in_json(
        {**_TOKEN_VIEW, "used_at": None, "token": "noetl_k7w2mq4hxa_…"},
        {
            "principal": "ci",
            "scopes": ["run:etl/*", "read"],
            "groups": ["builders"],
            "expires_s": 7_776_000,
            "rate": "100/minute",
        },
    ),
    "DELETE /api/tokens/{token_id}": in_json({**_TOKEN_VIEW, "revoked_at": END}),
    "GET /api/whoami": in_json(_WHOAMI),
    "POST /api/callbacks/{token}": Example(
        sent={JSON: {"paid": True}, FORM: "paid=true&amount=7", "text/plain": "paid"},
        answered={JSON: {"accepted": True, "at": AT}},
    ),
    "GET /api/audit": Example(
        answered={JSON: {"entries": [_ENTRY], "next": None}, LINES: json.dumps(_ENTRY) + "\n"}
    ),
    "GET /api/credentials": in_json({"credentials": [_CREDENTIAL]}),
    "POST /api/credentials": in_json(
        _CREDENTIAL,
        {"name": "warehouse", "type": "postgres", "data": {"dsn": "postgresql://user:password@db/warehouse"}},
    ),
    "DELETE /api/credentials/{name}": Example(),
}
