"""Answers to approvals. T7, one event each; the turn finds what they come to."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Final

from noetl.engine.approvals import find_answers
from noetl.errors import BadRequest, Conflict, Forbidden, InputsInvalid
from noetl.facts.approvals import ApprovalAnswered, Verdict
from noetl.facts.callers import Caller
from noetl.facts.events import Draft, Event
from noetl.facts.fingerprint import fingerprint
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Retention, holds_reference
from noetl.facts.secret import holds_secret
from noetl.net.forms import read_form
from noetl.net.input_values import MOST, InputFault, find_faults, read_values
from noetl.net.inputs import fill_keys
from noetl.usecases import moment
from noetl.usecases.access import Principal
from noetl.usecases.approval_requests import ApprovalRequest, explain_none_meant, find_meant, list_open
from noetl.usecases.large_values import hold_draft
from noetl.usecases.open_approvals import OpenApproval, capital, find_open
from noetl.usecases.ports import ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.wakes import wake

#: Characters of a reason.
LONGEST_REASON: Final = 1000


@dataclass(frozen=True, slots=True)
class AnsweredApproval:
    """An answer that is in the log of an execution, at `version`. `existing`: it was there before
    it was given again."""

    execution_id: str
    step: str
    iteration: int | None
    task: str
    name: str
    answer: Verdict
    version: int
    existing: bool = False

    def as_json(self) -> dict[str, Json]:
        return {
            "execution_id": self.execution_id,
            "step": self.step,
            "iteration": self.iteration,
            "task": self.task,
            "name": self.name,
            "answer": self.answer,
            "version": self.version,
            "existing": self.existing,
        }


def answer(
    rt: Runtime, principal: Principal, execution_id: str, request: ApprovalRequest
) -> AnsweredApproval:
    """Answers the approval that is meant. Answering the same again changes nothing.

    Raises NotFound for what there is not; Conflict where nothing waits for an approval (any more),
    it has expired, or that principal has answered otherwise; BadRequest where several are meant;
    Forbidden for who is not asked; InputsInvalid with all that is wrong with the values, and
    LimitExceeded.
    """
    _check(rt, request)
    if rt.caller is None:
        rt = rt.acting_for(Caller(principal.name, ""))
    with rt.store.begin() as tx:
        row = tx.executions.lock(execution_id)
        if row is None:
            raise moment.no_execution(execution_id)
        moment.refuse_specimen(row)
        found = list(find_open(rt, tx, row, principal))
        meant = find_meant(found, request)
        if not meant:
            given = _find_earlier(tx, row, principal, request)
            if given is None:
                raise explain_none_meant(rt, tx, row, found, request)
            return given
        if len(meant) > 1:
            raise BadRequest(f"Several approvals of execution {execution_id} are open: {list_open(meant)}.")
        given = _answer(rt, tx, meant[0], principal, request)
    wake(rt)
    return given


def _check(rt: Runtime, request: ApprovalRequest) -> None:
    rt.check_payload(request.values, "form")
    if len(request.reason) > LONGEST_REASON:
        raise BadRequest(f"A reason has up to {LONGEST_REASON} characters, not {len(request.reason)}.")
    if request.answer == "reject" and request.values:
        raise BadRequest("A rejection has no values; say why with `reason`.")
    if holds_reference(request.values) or holds_secret(request.values):
        raise BadRequest("The values of a form cannot be references to results or to secrets.")


def _answer(
    rt: Runtime, tx: Transaction, one: OpenApproval, principal: Principal, request: ApprovalRequest
) -> AnsweredApproval:
    if one.refusal is not None:
        raise Forbidden(one.refusal)
    now, row, wait = rt.clock(), one.row, one.wait
    if one.ends_at is not None and datetime.fromisoformat(one.ends_at) < now:
        raise Conflict(f"{capital(one.place)} could be answered until {one.ends_at}.")
    values = _fill(one, request)
    fact = ApprovalAnswered(
        wait.task,
        one.awaited.name,
        request.answer,
        now.isoformat(),
        one.asked.shown(row.execution_id),
        request.reason,
        values,
    )
    draft = rt.ask_for(fact, _key(one.id, principal))
    placed = replace(draft, step=wait.step, run_id=wait.run_id, iteration=wait.iteration)
    draft = hold_draft(rt, placed, Retention(row.execution_id))
    for earlier in find_answers(one.state, wait, one.awaited):
        if earlier.principal == principal.name:
            if not _is_same(row, draft, earlier.fact):
                raise Conflict(f"{principal.name} has answered {one.place} already: {_tell(earlier.fact)}.")
            return _given(row, draft, earlier.version, existing=True)
    if tx.events.recorded(row.execution_id, draft.dedup_key or ""):
        # In a fork: what it took over was answered to the other execution.
        draft = replace(draft, dedup_key=f"{draft.dedup_key} {row.head_version}")
    (event,) = tx.events.append(row.execution_id, row.head_version, [draft], now)
    return _given(row, draft, event.version)


def _given(row: ExecutionRow, draft: Draft, version: int, *, existing: bool = False) -> AnsweredApproval:
    fact = draft.fact
    assert isinstance(fact, ApprovalAnswered), "it is an answer"
    place = (row.execution_id, draft.step or "", draft.iteration, fact.task, fact.name)
    return AnsweredApproval(*place, fact.answer, version, existing)


def _is_same(row: ExecutionRow, draft: Draft, earlier: ApprovalAnswered) -> bool:
    fact = draft.fact
    assert isinstance(fact, ApprovalAnswered), "it is an answer"
    own, other = (
        fingerprint([one.answer, one.reason, one.values], row.execution_id, short=0)
        for one in (fact, earlier)
    )
    return own == other


def _tell(fact: ApprovalAnswered) -> str:
    return f"{fact.answer} ({fact.reason})" if fact.reason else fact.answer


# --- the form -------------------------------------------------------------------------------------


def _fill(one: OpenApproval, request: ApprovalRequest) -> JsonMap:
    """The values as the log has them: texts read by their types, defaults where nothing is given.
    Raises InputsInvalid."""
    if request.answer == "reject":
        return {}
    inputs, defaults = read_form(one.asked.form)
    values = {**defaults, **read_values(inputs, request.values)}
    faults = list(islice(find_faults(inputs, values), MOST))
    if faults:
        raise make_faulty(one.place, faults)
    return fill_keys(inputs, values)


def make_faulty(place: str, faults: list[InputFault]) -> InputsInvalid:
    """The error that tells of all that is wrong with the values of a form."""
    told = "; ".join(map(str, faults))
    end = "" if told.endswith("?") else "."
    return InputsInvalid(
        f"The form of {place} cannot be filled in so: {told}{end}", [one.as_json() for one in faults]
    )


# --- what was answered before ---------------------------------------------------------------------


def _find_earlier(
    tx: Transaction, row: ExecutionRow, principal: Principal, request: ApprovalRequest
) -> AnsweredApproval | None:
    """The same answer of that principal to what was decided since: a request may be sent twice."""
    for event in reversed(tx.events.read(row.execution_id, types=(ApprovalAnswered.type,))):
        fact, draft = event.fact, event.draft
        if not isinstance(fact, ApprovalAnswered) or not _is_by(event, principal, request.id):
            continue
        if request.is_about(draft, fact.task, fact.name):
            sent = replace(draft, fact=replace(fact, answer=request.answer, reason=request.reason))
            same = _is_same(row, sent, fact) and _agrees(request, fact)
            return _given(row, draft, event.version, existing=True) if same else None
    return None


def _is_by(event: Event, principal: Principal, approval_id: str | None) -> bool:
    caller, key = event.draft.caller, event.draft.dedup_key or ""
    if caller is None or caller.principal != principal.name:
        return False
    own = "" if approval_id is None else _key(approval_id, principal)
    return approval_id is None or key == own or key.startswith(f"{own} ")


def _key(approval_id: str, principal: Principal) -> str:
    """What an answer is recorded under, once."""
    return f"answer:{approval_id}:{principal.name}"


def _agrees(request: ApprovalRequest, fact: ApprovalAnswered) -> bool:
    """Whether the values that are given are among those that were. The form is not known any
    more: texts may have been read."""
    return all(str(fact.values.get(name)) == str(value) for name, value in request.values.items())
