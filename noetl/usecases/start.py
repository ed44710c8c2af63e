"""start: T1, for one request or many. Nothing is lost after it has returned."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Final, TypeAlias

from noetl.errors import Conflict, NoetlError, Unavailable
from noetl.facts.events import Caller, Draft, Requested
from noetl.facts.ids import execution_id
from noetl.facts.json import JsonMap
from noetl.net.model import Net
from noetl.usecases import catalog
from noetl.usecases.business_keys import WantedKey, find_holder, key_taken, take_key
from noetl.usecases.facets import write_facets, write_inputs
from noetl.usecases.input_secrets import keep_given
from noetl.usecases.ports import Descent, ExecutionRow, KeyOwner, NamedKey, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.signals import write_signal
from noetl.usecases.start_request import FoundPlaybook, PlaybookFinder
from noetl.usecases.start_request import StartRequest as StartRequest
from noetl.usecases.wakes import wake

#: Requests that one transaction records: enough to share a commit, few enough to hold no lock for
#: long.
CHUNK: Final = 100
#: How often a transaction is tried whose execution ids another process drew in the same
#: millisecond.
TRIES: Final = 3


@dataclass(frozen=True, slots=True)
class StartedExecution:
    """An execution that was asked for, as it is in the store. `warnings` is what is known to be
    wrong before anything runs, with the playbook and with the payload: the report will say it as
    well. `existing`: it was there before the request came, under its idempotency key or business
    key."""

    row: ExecutionRow
    warnings: Sequence[JsonMap]
    existing: bool = False

    @property
    def execution_id(self) -> str:
        return self.row.execution_id


#: What becomes of one request: its execution, or why it has none.
Answer: TypeAlias = StartedExecution | NoetlError


def start(rt: Runtime, request: StartRequest) -> StartedExecution:
    """Records the request and wakes the scheduler.

    With an idempotency key the same request returns the same execution, and another one under that
    key raises Conflict. Where an open execution has the business key, that one is the answer, is
    asked to cancel, or KeyTaken is raised, as `on_conflict` says. Raises NotFound, LimitExceeded,
    PlaybookInvalid, Unavailable, InputsInvalid with everything that is not as the playbook declares
    it, PrerequisitesMissing with everything that it names and that is not there, and BadRequest
    also for overrides that the playbook does not know, and for what is no key.
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
        playbooks = PlaybookFinder(rt, tx, now)
        found = [playbooks.find(*asked) for asked in zip(requests, ids, strict=True)]
        owners = _claim_idempotency_keys(tx, zip(requests, ids, found, strict=True), now)
        recording = _Recording(rt, tx, now, owners)
        recording.claim_business_keys(zip(requests, ids, found, strict=True))
        # In the order of the keys: who cancels the executions that have them locks those, and two
        # batches with the same keys must not wait for one another.
        for asked in sorted(zip(ids, requests, found, strict=True), key=lambda one: _key_of(one[2])):
            recording.record(*asked)
        return [recording.answers[new_id] for new_id in ids]


def _key_of(found: FoundPlaybook | NoetlError) -> tuple[str, str]:
    if isinstance(found, NoetlError) or found.key is None:
        return "", ""
    return found.key.name.path, found.key.name.key


def draw_ids(rt: Runtime, now: datetime, count: int) -> list[str]:
    """Different ids of one instant, in ascending order, so that lists show requests in theirs."""
    ids: set[str] = set()
    while len(ids) < count:
        ids.add(execution_id(int(now.timestamp() * 1000), rt.entropy()))
    return sorted(ids, key=int)


def _claim_idempotency_keys(
    tx: Transaction, requests: Iterable[tuple[StartRequest, str, FoundPlaybook | NoetlError]], now: datetime
) -> Mapping[str, KeyOwner]:
    """Whose each idempotency key is. Of requests with the same key the first one may get it.

    They are claimed in their own order: two batches with the same keys then wait for one another,
    and never both.
    """
    claims: dict[str, KeyOwner] = {}
    for request, new_id, found in requests:
        key = request.idempotency_key
        if key is not None and key not in claims and isinstance(found, FoundPlaybook):
            claims[key] = KeyOwner(found.fingerprint, new_id)
    return tx.idempotency.claim(dict(sorted(claims.items())), now) if claims else {}


@dataclass(frozen=True, slots=True)
class _Recording:
    """Records requests, each in its turn. `owners` says whose each idempotency key is; `answers`
    are those so far, by the id that each request was to have."""

    rt: Runtime
    tx: Transaction
    now: datetime
    owners: Mapping[str, KeyOwner]
    answers: dict[str, Answer] = field(default_factory=dict)

    def claim_business_keys(
        self, requests: Iterable[tuple[StartRequest, str, FoundPlaybook | NoetlError]]
    ) -> None:
        """Of requests with the same key the first one may get it; they are claimed in their own
        order, as idempotency keys are."""
        claims: dict[NamedKey, str] = {}
        for request, new_id, found in requests:
            if isinstance(found, FoundPlaybook) and found.key is not None and self._is_new(request, new_id):
                claims.setdefault(found.key.name, new_id)
        if claims:
            self.tx.business_keys.claim(dict(sorted(claims.items())))

    def _is_new(self, request: StartRequest, new_id: str) -> bool:
        key = request.idempotency_key
        return key is None or self.owners[key].execution_id == new_id

    def record(self, new_id: str, request: StartRequest, found: FoundPlaybook | NoetlError) -> None:
        if isinstance(found, NoetlError):
            self.answers[new_id] = found
        elif not self._is_new(request, new_id):
            self.answers[new_id] = self._of_owner(request.idempotency_key or "", found)
        else:
            self.answers[new_id] = self._record_new(new_id, request, found)

    def _record_new(self, new_id: str, request: StartRequest, found: FoundPlaybook) -> Answer:
        if found.missing is not None and self._find_open(found.key, new_id) is None:
            return self._refuse(request, found.missing)
        holder = None if found.key is None else take_key(self.rt, self.tx, found.key, new_id)
        if found.key is not None and holder is not None:
            return self._of_holder(request, found, found.key, holder)
        row, places = found.row, request.directories
        net = self.rt.plan(self.tx, row.digest).net
        given = keep_given(self.rt, self.tx, net, found.given, new_id)
        key = None if found.key is None else found.key.name.key
        fact = Requested(
            row.path,
            row.version,
            row.digest,
            given.payload,
            given.overrides,
            directories=places,
            key=key,
            labels=found.labels,
        )
        made = create_execution(self.tx, new_id, net, self.rt.ask_for(fact), self.now)
        return StartedExecution(self._tell(request, made), found.warnings)

    def _find_open(self, wanted: WantedKey | None, new_id: str) -> str | None:
        """The open execution that is the answer in the place of a new one."""
        if wanted is None or wanted.on_conflict != "return":
            return None
        return find_holder(self.tx, wanted.name, new_id)

    def _refuse(self, request: StartRequest, error: NoetlError) -> NoetlError:
        if request.idempotency_key is not None:
            self.tx.idempotency.release(request.idempotency_key)
        return error

    def _tell(self, request: StartRequest, row: ExecutionRow) -> ExecutionRow:
        """The execution as it is once it was told what comes with the request."""
        if request.signal is None:
            return row
        sent = write_signal(self.rt, self.tx, row, request.signal)
        return replace(row, head_version=max(row.head_version, sent.version))

    def _of_holder(self, request: StartRequest, found: FoundPlaybook, key: WantedKey, holder: str) -> Answer:
        """What is answered where an open execution keeps its business key."""
        row = self.tx.executions.get(holder) if request.signal is None else self.tx.executions.lock(holder)
        assert row is not None, "it is open"
        if key.on_conflict == "return":
            row = self._tell(request, row)
            if request.idempotency_key is not None:
                self.tx.idempotency.give(request.idempotency_key, holder)
            return StartedExecution(row, found.warnings, existing=True)
        return self._refuse(request, key_taken(key.name, holder))

    def _of_owner(self, key: str, found: FoundPlaybook) -> Answer:
        """The execution that the same request has already started; Conflict where it was another
        request."""
        owner = self.owners[key]
        if owner.request_sha256 != found.fingerprint:
            return Conflict(
                f"Idempotency key {key!r} belongs to another request (execution {owner.execution_id})."
            )
        answer = self.answers.get(owner.execution_id)
        if answer is not None:
            return replace(answer, existing=True) if isinstance(answer, StartedExecution) else answer
        row = self.tx.executions.get(owner.execution_id)
        assert row is not None, "a key that is kept has an execution"
        return StartedExecution(row, found.warnings, existing=True)


def create_execution(
    tx: Transaction,
    new_id: str,
    net: Net,
    draft: Draft,
    now: datetime,
    operation_id: str | None = None,
) -> ExecutionRow:
    """Writes an execution of `net` and its first event, a `Requested`, for an operation where one
    is named. Its row as it is then."""
    assert isinstance(draft.fact, Requested)
    inputs = write_inputs(net, draft.fact)
    row = replace(row_of(new_id, draft.fact, now, draft.caller), operation_id=operation_id, inputs=inputs)
    tx.executions.create(row)
    tx.events.append(new_id, 0, [replace(draft, dedup_key="requested")], now)
    return replace(row, head_version=1)


def row_of(new_id: str, request: Requested, now: datetime, caller: Caller | None) -> ExecutionRow:
    """The row of an execution before its first event, without its inputs."""
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
        descent=_descent(request),
        key=request.key,
        principal=None if caller is None else caller.principal,
        labels=write_facets(request.labels),
    )


def _descent(request: Requested) -> Descent | None:
    if request.retry is None:
        return None
    return "migration" if request.retry.migrates else "retry"
