"""What is known of a call: for `record.py` and `test_repeats.py`."""

from __future__ import annotations

import hashlib
import json
from sqlite3 import Connection
from typing import Any, TypeAlias

from noetl.pipeline.model import Call

Calls: TypeAlias = list[dict[str, Any]]


def called(call: Call) -> dict[str, Any]:
    """JSON. A parameter without a value is not sent, so it is left out."""
    config = {key: value for key, value in call.config.items() if key != "code"}
    if isinstance(params := config.get("params"), dict):
        config["params"] = {name: value for name, value in params.items() if value is not None}
    if not config.get("params"):
        config.pop("params", None)
    shown: dict[str, Any] = json.loads(
        json.dumps(
            {
                "execution": call.where.execution_id,
                "kind": call.kind,
                "step": call.where.step,
                "run": call.where.run_id,
                "iteration": call.where.iteration,
                "claim": call.where.claim,
                "task": call.task,
                "attempt": call.attempt,
                "checkpoint": call.checkpoint,
                "config": config,
                "args": dict(call.args),
                "key": call.idempotency_key,
            }
        )
    )
    return shown


def key_of(call: dict[str, Any], occasion: str) -> str:
    """What services can tell a repetition by: whoever makes a call again hands over the same key."""
    place = (call["claim"] or "-") if call["iteration"] is None else str(call["iteration"])
    return hashlib.sha256(f"{call['execution']}/{call['run']}/{place}/{occasion}".encode()).hexdigest()[:32]


def parents(connection: Connection) -> dict[str, str]:
    """Execution → the one at the top of its family."""
    rows = connection.execute("SELECT execution_id, parent_id FROM execution").fetchall()
    up = {str(child): str(parent) for child, parent in rows if parent is not None}

    def top(one: str) -> str:
        return top(up[one]) if one in up else one

    return {child: top(child) for child in up}
