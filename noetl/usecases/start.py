"""start: T1. Nothing is lost after it has returned."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field

from noetl.errors import BadRequest, Conflict, LimitExceeded, Unavailable
from noetl.facts.events import Draft, Requested
from noetl.facts.ids import execution_id
from noetl.facts.json import JsonMap
from noetl.usecases import catalog
from noetl.usecases.ports import ExecutionRow, PlaybookRow, Transaction
from noetl.usecases.runtime import Runtime


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What to run and with what. `payload` is merged over the workload, `overrides` over that."""

    path: str
    version: int | None = None
    payload: JsonMap = field(default_factory=dict)
    overrides: JsonMap = field(default_factory=dict)
    idempotency_key: str | None = None
    #: Of a playbook that came with the request: what counts is then its text, not the version it got.
    content_sha256: str | None = None
    #: Where relative names of files start: absolute paths on the machine of the workers.
    directories: tuple[str, ...] = ()


def start(rt: Runtime, request: StartRequest) -> str:
    """Records the request and wakes the scheduler. Returns the execution's id.

    With an idempotency key the same request returns the same execution, and another one under that
    key raises Conflict. Raises NotFound, LimitExceeded, BadRequest.
    """
    _check(rt, request)
    now = rt.clock()
    new_id = execution_id(int(now.timestamp() * 1000), rt.entropy())
    with catalog.keeping_nets(rt) as tx:
        if request.idempotency_key is not None:
            owner = tx.remember(request.idempotency_key, _fingerprint(request), new_id, now)
            if owner is not None:
                return _same(request, owner)
        row = catalog.find(tx, request.path, request.version)
        _record(rt, tx, new_id, row, request)
    try:
        rt.dispatcher.wake()
    except Unavailable:
        # Acknowledged all the same: the request is in the log, and the sweeper wakes what owes a turn.
        return new_id
    return new_id


def _check(rt: Runtime, request: StartRequest) -> None:
    try:
        size = len(json.dumps([request.payload, request.overrides], allow_nan=False))
    except (TypeError, ValueError) as error:
        raise BadRequest(f"The payload is not JSON: {error}.") from error
    if size > rt.limits.max_payload_bytes:
        raise LimitExceeded(
            f"The payload has {size} bytes; at most {rt.limits.max_payload_bytes} are allowed."
        )


def _fingerprint(request: StartRequest) -> str:
    body: list[object] = [
        request.path,
        request.content_sha256 or request.version,
        request.payload,
        request.overrides,
    ]
    if request.directories:
        body.append(request.directories)
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()


def _same(request: StartRequest, owner: tuple[str, str]) -> str:
    fingerprint, execution = owner
    if fingerprint != _fingerprint(request):
        raise Conflict(
            f"Idempotency key {request.idempotency_key!r} belongs to another request (execution {execution})."
        )
    return execution


def _record(rt: Runtime, tx: Transaction, new_id: str, row: PlaybookRow, request: StartRequest) -> None:
    now = rt.clock()
    digest = catalog.net_digest(rt, tx, row)
    tx.create_execution(
        ExecutionRow(
            execution_id=new_id,
            path=row.path,
            playbook_version=row.version,
            digest=digest,
            status="pending",
            head_version=0,
            decided_version=0,
            created_at=now,
            updated_at=now,
        )
    )
    fact = Requested(
        row.path, row.version, digest, request.payload, request.overrides, directories=request.directories
    )
    tx.append(new_id, 0, [Draft(fact, source="client", dedup_key="requested")], now)
