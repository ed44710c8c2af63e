"""retry: an ended execution is run again from its start, and what it recorded stands in for calls
that nothing has changed for."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import Final, Literal

from noetl.engine.admission import Admitted, admit
from noetl.engine.plan import Plan
from noetl.engine.request import check_overrides
from noetl.engine.source import SourceLog
from noetl.errors import BadRequest, Conflict, PrerequisitesMissing
from noetl.facts.events import Draft, Requested
from noetl.facts.json import JsonMap, deep_merge
from noetl.facts.lineage import RetryOf
from noetl.facts.nearest import did_you_mean
from noetl.facts.reference import Retention
from noetl.forecast.again import UNDRAWN, RetryPlan, plan_retry
from noetl.net.model import Net
from noetl.usecases import catalog, moment
from noetl.usecases.business_keys import take_free
from noetl.usecases.decision_inputs import inputs_of
from noetl.usecases.input_secrets import seal_given
from noetl.usecases.lineage import call_off, find_source
from noetl.usecases.ports import ENDED, CredentialRow, ExecutionRow, NamedKey, PlaybookRow, Transaction
from noetl.usecases.prerequisites import find_missing
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import create_execution, draw_ids
from noetl.usecases.wakes import wake

#: The version that is the newest one.
NEWEST: Final = 0


@dataclass(frozen=True, slots=True)
class RetryRequest:
    """What to run again, and how. `from_step` is the name of a step, whose last run is meant, or
    `<step>#<k>`. `version` None: the one that it ran. `payload` and `overrides` lie
    over those that it had. With `confirmed`, calls with effects outside of NoETL that had gone well
    may be made again. `attempt` is its number where the policy of the playbook asks for it."""

    execution_id: str
    from_step: str = ""
    iterations: Literal["", "failed", "all"] = ""
    payload: JsonMap = field(default_factory=dict)
    overrides: JsonMap = field(default_factory=dict)
    version: int | None = None
    path: str | None = None
    directories: tuple[str, ...] = ()
    confirmed: bool = False
    attempt: int = 1
    #: The operation that asks for it, of many at once.
    operation_id: str | None = None


@dataclass(frozen=True, slots=True)
class PlannedRetry:
    """What a retry would do: the net that it would run, the request that its log would begin with,
    the secrets that it is given, and the plan."""

    source: ExecutionRow
    net: Net
    request: Requested
    plan: RetryPlan
    kept: Sequence[CredentialRow] = ()

    def as_json(self) -> JsonMap:
        """`{retry_of, path, version, runs: [{step, verdict, reason, of, iterations, repeats}],
        error}`."""
        error = self.plan.error
        return {
            "retry_of": self.source.execution_id,
            "path": self.request.path,
            "version": self.request.playbook_version,
            "runs": [run.as_json() for run in self.plan.runs],
            "error": error.as_json() if error is not None else None,
        }


def plan(rt: Runtime, request: RetryRequest) -> PlannedRetry:
    """What a retry would do; nothing is written. Raises what `retry` raises but for what has to be
    confirmed."""
    with catalog.keeping_nets(rt) as tx:
        planned = plan_within(rt, tx, request, UNDRAWN)
        _check_prerequisites(rt, tx, planned)
        return planned


def playbook_of(rt: Runtime, request: RetryRequest) -> PlaybookRow:
    """The version of the playbook that a retry runs. Raises NotFound, BadRequest."""
    with rt.store.read() as tx:
        return _find_playbook(tx, moment.find(tx, request.execution_id), request)


def retry(rt: Runtime, request: RetryRequest) -> ExecutionRow:
    """Starts the execution that runs the other one again.

    Raises NotFound for what is not there, PrerequisitesMissing for what the playbook names that is
    not; Conflict where the other has not ended, is being retried
    already, effects would have to be confirmed, or an open one has its business key; BadRequest
    where the request fits neither the playbook nor what has run.
    """
    with catalog.keeping_nets(rt) as tx:
        row = write_retry(rt, tx, request)
    wake(rt)
    return row


def write_retry(rt: Runtime, tx: Transaction, request: RetryRequest) -> ExecutionRow:
    """The same within a transaction that may store nets; who commits it wakes the scheduler."""
    now = rt.clock()
    new_id = draw_ids(rt, now, 1)[0]
    planned = plan_within(rt, tx, request, new_id)
    _check_prerequisites(rt, tx, planned)
    check_confirmed(planned, confirmed=request.confirmed)
    if request.operation_id is not None:
        _check_begins(planned)
    source = tx.executions.lock(request.execution_id)
    _check_alone(tx, request.execution_id)
    if source is not None:
        call_off(rt, tx, source, f"execution {new_id} retries it")
    take_key(rt, tx, planned, new_id)
    return begin(tx, planned, new_id, rt.ask_for(planned.request), now, request.operation_id)


def plan_next(rt: Runtime, tx: Transaction, request: RetryRequest, new_id: str) -> PlannedRetry:
    """The next attempt, that the policy of a playbook asks for. Raises what `retry` raises but for
    what has to be confirmed."""
    _check_alone(tx, request.execution_id)
    planned = plan_within(rt, tx, request, new_id)
    if new_id != UNDRAWN:
        take_key(rt, tx, planned, new_id)
    return planned


def take_key(rt: Runtime, tx: Transaction, planned: PlannedRetry, new_id: str) -> None:
    """Gives the execution of that id the business key of the other one, which has ended. Raises
    KeyTaken where another open one has it."""
    if planned.request.key is not None:
        take_free(rt, tx, NamedKey(planned.request.path, planned.request.key), new_id)


def begin(
    tx: Transaction,
    planned: PlannedRetry,
    new_id: str,
    draft: Draft,
    now: datetime,
    operation_id: str | None = None,
) -> ExecutionRow:
    """Writes the execution that was planned, with its request on its way to the log, for an
    operation where one is named, and what is to be kept for it. Its row as it is then."""
    for secret in planned.kept:
        tx.credentials.save(secret)
    return create_execution(tx, new_id, planned.net, draft, now, operation_id)


def _check_alone(tx: Transaction, execution_id: str) -> None:
    """One open retry of an execution: two would have its effects twice."""
    for other in tx.executions.find(source=execution_id, limit=1000):
        if other.descent == "migration":
            raise Conflict(f"Execution {execution_id} was migrated to {other.execution_id}: retry that.")
        if other.descent == "retry" and other.status not in ENDED:
            raise Conflict(
                f"Execution {execution_id} is being retried by {other.execution_id} ({other.status}): wait "
                "for that, or cancel it."
            )


def _refuse_undone(tx: Transaction, row: ExecutionRow) -> None:
    """What stands in its log does not any more where it was undone."""
    if by := moment.find_undo(tx, row.execution_id):
        raise Conflict(
            f"Execution {row.execution_id} was undone by {by.execution_id}: retry {by.parent_id}, which "
            "called it."
        )


def check_confirmed(planned: PlannedRetry, *, confirmed: bool) -> None:
    """Raises Conflict where effects may happen again and nobody has said that they may."""
    if (repeats := name_repeats(planned.plan)) and not confirmed:
        raise Conflict(
            f"Calls of {planned.source.execution_id} would be made again that may have had effects: "
            f"{repeats}. Look at the plan (--dry-run, ?dry_run=true), and confirm (--yes, ?confirm=true)."
        )


def _check_prerequisites(rt: Runtime, tx: Transaction, planned: PlannedRetry) -> None:
    missing = find_missing_again(rt, tx, planned)
    if missing is not None:
        raise missing


def find_missing_again(rt: Runtime, tx: Transaction, planned: PlannedRetry) -> PrerequisitesMissing | None:
    """Why it cannot begin: of what is not there, that which steps name that run again, or for the
    first time; what stands needs nothing."""
    again = {run.step for run in planned.plan.runs if run.verdict in ("rerun", "new")}
    playbook = catalog.find(tx, planned.request.path, planned.request.playbook_version)
    plan = rt.plan(tx, planned.request.digest)
    return find_missing(rt, tx, playbook, plan, again | planned.net.handlers)


def _check_begins(planned: PlannedRetry) -> None:
    """Of many at once none is started that is known to come to nothing."""
    error = planned.plan.error
    if error is not None:
        raise Conflict(f"The retry would end before its first step: {error.message}")


def name_repeats(plan: RetryPlan) -> str:
    """The calls with effects that would be made again, as messages name them; empty where there are
    none."""
    repeats = plan.repeats
    named = ", ".join(f"{'/'.join(run.repeats)} of step '{run.step}'" for run in repeats[:5])
    return f"{named} and {len(repeats) - 5} others" if len(repeats) > 5 else named


def plan_within(rt: Runtime, tx: Transaction, request: RetryRequest, new_id: str) -> PlannedRetry:
    """What the retry of that id would do, as `tx` sees the world. Raises as `plan` does."""
    row = moment.find(tx, request.execution_id)
    moment.refuse_specimen(row)
    moment.refuse_undo(row)
    _refuse_undone(tx, row)
    if row.status not in ENDED:
        raise Conflict(
            f"Execution {row.execution_id} is {row.status}: a retry begins where it has ended. Cancel it, or "
            "fork it to go on from an earlier moment."
        )
    again = RetryOf(row.execution_id, "", request.iterations, request.attempt)
    source = find_source(rt, tx, again)
    assert source is not None, "its row is there"
    return plan_taking(rt, tx, request, row, source, new_id)


def plan_taking(
    rt: Runtime, tx: Transaction, request: RetryRequest, row: ExecutionRow, source: SourceLog, new_id: str
) -> PlannedRetry:
    """What an execution of that id would take of `source`, the log of `row`, and do. Raises as
    `plan` does."""
    playbook = _find_playbook(tx, row, request)
    digest = row.digest if _is_same(row, playbook) else catalog.renew(rt, tx, playbook).digest
    net_plan = rt.plan(tx, digest)
    first = moment.requested(tx, row.execution_id)
    again = source.retry
    _check_fits(net_plan, source, row)
    if request.from_step:
        again = replace(again, from_run=_find_run(net_plan, source, request.from_step))
        source = find_source(rt, tx, again) or source
        _refuse_ignored(source, request)
    rt.check_payload([request.payload, request.overrides], "payload")
    sealed = seal_given(rt, net_plan.net, _admit(net_plan, first, request), new_id)
    begins = replace(
        first,
        path=playbook.path,
        playbook_version=playbook.version,
        digest=digest,
        payload=sealed.given.payload,
        overrides=sealed.given.overrides,
        parent=None,
        directories=request.directories or first.directories,
        retry=again,
    )
    foreseen = _foresee(rt, tx, net_plan, begins, source)
    return PlannedRetry(row, net_plan.net, begins, foreseen, sealed.kept)


def _is_same(row: ExecutionRow, playbook: PlaybookRow) -> bool:
    return (row.path, row.playbook_version) == (playbook.path, playbook.version)


def _find_playbook(tx: Transaction, row: ExecutionRow, request: RetryRequest) -> PlaybookRow:
    path = request.path or row.path
    if path != row.path:
        raise BadRequest(
            f"Execution {row.execution_id} ran playbook {row.path!r}, and {path!r} is another one: a retry "
            "runs a version of the same."
        )
    version = row.playbook_version if request.version is None else request.version
    return catalog.find(tx, path, None if version == NEWEST else version)


def _check_fits(plan: Plan, source: SourceLog, row: ExecutionRow) -> None:
    gone = [name for name in source.by_step if name not in plan.net.steps]
    if gone and len(gone) == len(source.by_step):
        raise BadRequest(
            f"Playbook {row.path!r} has none of the steps that execution {row.execution_id} ran "
            f"({', '.join(gone[:5])}): there is nothing to go on from."
        )


def _find_run(plan: Plan, source: SourceLog, asked: str) -> str:
    """The id of the run that `step` or `step#k` means. Raises BadRequest."""
    step = asked.partition("#")[0]
    runs = source.by_step.get(step)
    if runs is None:
        verb = "did not run" if step in plan.net.steps else "is no step of the playbook"
        raise BadRequest(
            f"Step {step!r} {verb} in execution {source.execution_id}, so nothing can be run again from "
            f"there.{did_you_mean(step, source.by_step)}"
        )
    if step not in plan.net.steps:
        raise BadRequest(f"This version of the playbook has no step {step!r} to begin from.")
    return moment.pick_run(runs, asked).id


def _refuse_ignored(source: SourceLog, request: RetryRequest) -> None:
    """Raises BadRequest where `iterations` would keep some of loops that `from` runs again
    whole."""
    loops = [run for run in source.runs.values() if run.loop is not None and not run.stands]
    if request.iterations == "failed" and loops and all(run.id in source.asked_for for run in loops):
        named = ", ".join(sorted({f"'{run.step}'" for run in loops})[:5])
        raise BadRequest(
            f"`from` {request.from_step[:200]} runs every iteration of {named} again, and "
            "`iterations: failed` would keep those that went well: leave one of the two out."
        )


def _admit(plan: Plan, first: Requested, request: RetryRequest) -> Admitted:
    """What the other one was given, and over it what the retry is. Raises BadRequest,
    InputsInvalid."""
    payload: JsonMap = deep_merge(first.payload, request.payload)
    if plan.net.inputs:
        return admit(plan, payload, deep_merge(first.overrides, request.overrides))
    # What was known then may be read by nothing today.
    new = check_overrides(plan, payload, request.overrides) if request.overrides else {}
    return Admitted(payload, deep_merge(first.overrides, new))


def _foresee(rt: Runtime, tx: Transaction, plan: Plan, request: Requested, source: SourceLog) -> RetryPlan:
    # What is too large for the log was so before: the same content lies there already.
    inputs = inputs_of(rt, tx, plan, UNDRAWN, rt.clock(), Retention(source.execution_id))
    file_digest = partial(rt.file_digest, source.execution_id)
    inputs = replace(inputs, source=source, most_copies=sys.maxsize, file_digest=file_digest)
    return plan_retry(plan, request, inputs, source)
