"""start: T1, for one request or many. Nothing is lost after it has returned."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, TypeAlias

from noetl.engine.admission import Admitted, admit
from noetl.errors import (
    BadRequest,
    ConfigError,
    Conflict,
    NoetlError,
    NotFound,
    PlaybookInvalid,
    Unavailable,
)
from noetl.facts.events import Draft, Requested, Source
from noetl.facts.ids import execution_id
from noetl.facts.json import JsonMap
from noetl.net.model import Net
from noetl.usecases import catalog
from noetl.usecases.findings import start_warnings
from noetl.usecases.input_secrets import keep_given, seal_given
from noetl.usecases.ports import ExecutionRow, KeyOwner, PlaybookRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.wakes import wake

#: Requests that one transaction records: enough to share a commit, few enough to hold no lock for
#: long.
CHUNK: Final = 100
#: How often a transaction is tried whose execution ids another process drew in the same
#: millisecond.
TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class StartRequest:
    """What to run and with what. `payload` is merged over the workload, `overrides` over that:
    their keys are those of the workload, or begin with `+` and are added to it."""

    path: str
    version: int | None = None
    payload: JsonMap = field(default_factory=dict)
    overrides: JsonMap = field(default_factory=dict)
    idempotency_key: str | None = None
    #: Of a playbook that came with the request: what counts is then its text, not the version it
    #: got.
    content_sha256: str | None = None
    #: Where relative names of files start: absolute paths on the machine of the workers.
    directories: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StartedExecution:
    """An execution that was asked for, as it is in the store. `warnings` is what is known to be
    wrong before anything runs, with the playbook and with the payload: the report will say it as
    well."""

    row: ExecutionRow
    warnings: Sequence[JsonMap]

    @property
    def execution_id(self) -> str:
        return self.row.execution_id


#: What becomes of one request: its execution, or why it has none.
Answer: TypeAlias = StartedExecution | NoetlError


def start(rt: Runtime, request: StartRequest) -> StartedExecution:
    """Records the request and wakes the scheduler.

    With an idempotency key the same request returns the same execution, and another one under that
    key raises Conflict. Raises NotFound, LimitExceeded, PlaybookInvalid, Unavailable, InputsInvalid
    with everything that is not as the playbook declares it, and BadRequest also for overrides that
    the playbook does not know.
    """
    (answer,) = start_all(rt, [request])
    if isinstance(answer, NoetlError):
        raise answer
    return answer


def start_all(rt: Runtime, requests: Sequence[StartRequest]) -> list[Answer]:
    """Starts each request as `start` does; an error is the answer to its own request and to no
    other.

    Up to `CHUNK` requests share a transaction. Where the store fails, those of that transaction and
    all behind it are answered with Unavailable; what earlier transactions recorded stays
    acknowledged.
    """
    answers: list[Answer] = []
    for first in range(0, len(requests), CHUNK):
        try:
            answers += _start_chunk(rt, requests[first : first + CHUNK])
        except Unavailable as error:
            return answers + [error] * (len(requests) - first)
        # Without a broker the sweeper finds the executions that owe a turn.
        wake(rt)
    return answers


def _start_chunk(rt: Runtime, requests: Sequence[StartRequest]) -> list[Answer]:
    """One transaction, tried again where another process drew one of its ids in the same
    millisecond.

    Raises Unavailable.
    """
    for _ in range(TRIES):
        with suppress(Conflict):
            return _record_all(rt, requests)
    raise Unavailable("No free execution id was found; try again.")


def _record_all(rt: Runtime, requests: Sequence[StartRequest]) -> list[Answer]:
    """Records in one transaction whatever can be recorded. Nothing is written of a request that has
    an error."""
    now = rt.clock()
    ids = draw_ids(rt, now, len(requests))
    with catalog.keeping_nets(rt) as tx:
        playbooks = _Playbooks(rt, tx)
        found = [playbooks.find(request) for request in requests]
        owners = _claim_keys(tx, zip(requests, ids, found, strict=True), now)
        return [
            _record(rt, tx, new_id, request, one, owners, now)
            for new_id, request, one in zip(ids, requests, found, strict=True)
        ]


def draw_ids(rt: Runtime, now: datetime, count: int) -> list[str]:
    """Different ids of one instant, in ascending order, so that lists show requests in theirs."""
    ids: set[str] = set()
    while len(ids) < count:
        ids.add(execution_id(int(now.timestamp() * 1000), rt.entropy()))
    return sorted(ids, key=int)


@dataclass(frozen=True, slots=True)
class _Found:
    """The playbook of a request, the digest of its net, what it is given as the playbook takes it,
    and what there is to be warned of. The fingerprint is that of the request without secrets."""

    row: PlaybookRow
    digest: str
    given: Admitted
    warnings: Sequence[JsonMap]
    fingerprint: str


class _Playbooks:
    def __init__(self, rt: Runtime, tx: Transaction) -> None:
        self._rt = rt
        self._tx = tx
        self._known: dict[tuple[str, int | None], tuple[PlaybookRow, str]] = {}

    def find(self, request: StartRequest) -> _Found | NoetlError:
        try:
            self._rt.check_payload([request.payload, request.overrides], "payload")
            row, digest = self._look_up(request.path, request.version)
            plan = self._rt.plan(self._tx, digest)
            given = admit(plan, request.payload, request.overrides)
            warnings = start_warnings(row, plan, request.payload)
            asked = seal_given(self._rt, plan.net, given, "").given
            return _Found(row, digest, given, warnings, _fingerprint(request, plan.net, asked))
        except (BadRequest, NotFound, PlaybookInvalid) as error:
            return error
        except ConfigError as error:
            return Unavailable(f"Playbook {request.path!r} is given a secret, which cannot be kept: {error}")

    def _look_up(self, path: str, version: int | None) -> tuple[PlaybookRow, str]:
        """Raises NotFound, PlaybookInvalid."""
        name = (path, version)
        if name not in self._known:
            row = catalog.find(self._tx, path, version)
            self._known[name] = row, catalog.net_digest(self._rt, self._tx, row)
        return self._known[name]


def _claim_keys(
    tx: Transaction, requests: Iterable[tuple[StartRequest, str, _Found | NoetlError]], now: datetime
) -> Mapping[str, KeyOwner]:
    """Whose each idempotency key is. Of requests with the same key the first one may get it.

    They are claimed in their own order: two batches with the same keys then wait for one another,
    and never both.
    """
    claims: dict[str, KeyOwner] = {}
    for request, new_id, found in requests:
        key = request.idempotency_key
        if key is not None and key not in claims and isinstance(found, _Found):
            claims[key] = KeyOwner(found.fingerprint, new_id)
    return tx.idempotency.claim(dict(sorted(claims.items())), now) if claims else {}


def _record(
    rt: Runtime,
    tx: Transaction,
    new_id: str,
    request: StartRequest,
    found: _Found | NoetlError,
    owners: Mapping[str, KeyOwner],
    now: datetime,
) -> Answer:
    if isinstance(found, NoetlError):
        return found
    key = request.idempotency_key
    if key is not None and owners[key].execution_id != new_id:
        return _of_owner(tx, key, owners[key], found)
    row, places = found.row, request.directories
    given = keep_given(rt, tx, rt.plan(tx, found.digest).net, found.given, new_id)
    fact = Requested(row.path, row.version, found.digest, given.payload, given.overrides, directories=places)
    return StartedExecution(create_execution(tx, new_id, fact, "client", now), found.warnings)


def create_execution(
    tx: Transaction,
    new_id: str,
    request: Requested,
    source: Source,
    now: datetime,
    operation_id: str | None = None,
) -> ExecutionRow:
    """Writes an execution and its first event, for an operation where one is named. Its row as it
    is then."""
    row = replace(row_of(new_id, request, now), operation_id=operation_id)
    tx.executions.create(row)
    tx.events.append(new_id, 0, [Draft(request, source=source, dedup_key="requested")], now)
    return replace(row, head_version=1)


def row_of(new_id: str, request: Requested, now: datetime) -> ExecutionRow:
    """The row of an execution before its first event."""
    return ExecutionRow(
        execution_id=new_id,
        path=request.path,
        playbook_version=request.playbook_version,
        digest=request.digest,
        status="pending",
        head_version=0,
        decided_version=0,
        created_at=now,
        updated_at=now,
        parent_id=request.parent.execution_id if request.parent else None,
        source_id=request.retry.execution_id if request.retry else None,
        descent="retry" if request.retry else None,
    )


def _of_owner(tx: Transaction, key: str, owner: KeyOwner, found: _Found) -> Answer:
    """The execution that the same request has already started; Conflict where it was another
    request."""
    row = tx.executions.get(owner.execution_id)
    if owner.request_sha256 == found.fingerprint and row is not None:
        return StartedExecution(row, found.warnings)
    return Conflict(f"Idempotency key {key!r} belongs to another request (execution {owner.execution_id}).")


def _fingerprint(request: StartRequest, net: Net, asked: Admitted) -> str:
    """Of a request with an idempotency key. `asked` is what is given to declared inputs, without
    secrets: a hash of one could be guessed."""
    if request.idempotency_key is None:
        return ""
    given = [asked.payload, asked.overrides] if net.inputs else [request.payload, request.overrides]
    body: list[object] = [request.path, request.content_sha256 or request.version, *given]
    if request.directories:
        body.append(request.directories)
    return hashlib.sha256(json.dumps(body, sort_keys=True).encode()).hexdigest()
