"""Rows as the JSON that `answers` describes."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from noetl.facts.json import Json, JsonMap
from noetl.usecases.catalog import warnings_of
from noetl.usecases.ports import CredentialRow, ExecutionRow, PlaybookRow, WorkerRow


def instant(value: datetime | None) -> str | None:
    """ISO 8601."""
    return value.isoformat() if value is not None else None


def links(execution_id: str) -> dict[str, Json]:
    here = f"/api/executions/{execution_id}"
    parts = {name: f"{here}/{name}" for name in ("events", "logs", "state", "result", "graph")}
    return {"self": here, **parts, "children": f"/api/executions?parent={execution_id}"}


def execution(row: ExecutionRow) -> dict[str, Json]:
    return {
        "execution_id": row.execution_id,
        "parent_id": row.parent_id,
        "path": row.path,
        "version": row.playbook_version,
        "status": row.status,
        "events": row.head_version,
        **execution_times(row),
        "error": row.error,
        "errors_passed_over": row.errors_passed_over,
        "warnings_count": row.warnings_count,
    }


def execution_times(row: ExecutionRow) -> dict[str, Json]:
    return {
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
        "ended_at": instant(row.ended_at),
    }


def accepted(row: ExecutionRow, warnings: Sequence[JsonMap]) -> dict[str, Json]:
    return {
        "execution_id": row.execution_id,
        "status": row.status,
        "warnings": list(warnings),
        "links": links(row.execution_id),
    }


def stands(row: ExecutionRow) -> dict[str, Json]:
    return {"execution_id": row.execution_id, "status": row.status, "version": row.head_version}


def playbook(row: PlaybookRow) -> dict[str, Json]:
    return {
        "path": row.path,
        "version": row.version,
        "name": row.name,
        "description": row.description,
        "created_at": instant(row.created_at),
    }


def registered(row: PlaybookRow) -> dict[str, Json]:
    return {**playbook(row), "warnings": warnings_of(row)}


def credential(row: CredentialRow) -> dict[str, Json]:
    """Without its data."""
    return {
        "name": row.name,
        "type": row.type,
        "scope": row.scope,
        "place": row.place,
        "created_at": instant(row.created_at),
        "updated_at": instant(row.updated_at),
    }


def worker(row: WorkerRow) -> dict[str, Json]:
    return {
        "name": row.name,
        "role": row.role,
        "queues": list(row.queues),
        "started_at": instant(row.started_at),
        "seen_at": instant(row.seen_at),
        "skew_s": row.skew_s,
    }
