"""Approvals that are open: what is asked, and who may answer."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final

from noetl.engine.approvals import describe_approval, find_answers, find_end, open_approvals
from noetl.engine.state import State
from noetl.engine.suspensions import place_key
from noetl.engine.wait_state import PendingWait
from noetl.errors import BadRequest
from noetl.facts.approvals import GROUP, SoughtApproval, Verdict
from noetl.facts.json import Json, JsonMap
from noetl.facts.waits import Awaited
from noetl.net.forms import read_form
from noetl.net.inputs import object_schema
from noetl.usecases import kept_moments, moment
from noetl.usecases.access import ANONYMOUS, Principal
from noetl.usecases.large_values import Resolver
from noetl.usecases.ports import ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime

#: Executions that are looked at for one page of those that somebody may answer.
MOST_EXECUTIONS: Final = 1000


@dataclass(frozen=True, slots=True)
class OpenApproval:
    """One approval that is asked for and not decided. `refusal` is why the principal who looks may
    not answer it (None: it may), `answered` what it has answered."""

    row: ExecutionRow
    state: State
    wait: PendingWait
    awaited: Awaited
    refusal: str | None = None
    answered: Verdict | None = None

    @property
    def is_mine(self) -> bool:
        """Whether the principal is one of those whose answer is missing."""
        return self.refusal is None and self.answered is None

    @property
    def id(self) -> str:
        """Names it in its execution, whatever is asked there before or later."""
        return f"{place_key(self.wait.run_id, self.wait.iteration)}/{self.wait.number}/{self.awaited.name}"

    @property
    def asked(self) -> SoughtApproval:
        assert self.awaited.approval is not None, "it is an approval"
        return self.awaited.approval

    @property
    def place(self) -> str:
        """`step 'sign'`, `step 'sign' [3]`, and its name where there are others."""
        wait = self.wait
        part = "" if wait.iteration is None else f" [{wait.iteration}]"
        name = f" ({self.awaited.name})" if wait.wait.named else ""
        return f"step {wait.step!r}{part}{name}"

    @property
    def ends_at(self) -> str | None:
        """The last instant at which it can be answered."""
        return find_end(self.state, self.wait, self.awaited)

    def as_json(self) -> dict[str, Json]:
        """As `GET /api/approvals` shows it. `form` is a JSON Schema."""
        inputs, defaults = read_form(self.asked.form)
        return {
            "execution_id": self.row.execution_id,
            "path": self.row.path,
            "key": self.row.key,
            "id": self.id,
            "step": self.wait.step,
            "run_id": self.wait.run_id,
            "iteration": self.wait.iteration,
            "task": self.wait.task,
            "name": self.awaited.name,
            "since": self.wait.wait.since,
            "expires_at": self.ends_at,
            **describe_approval(self.state, self.wait, self.awaited),
            "form": object_schema(inputs, defaults) if inputs else None,
            "may_answer": self.refusal is None,
            "why_not": self.refusal,
            "answered": self.answered,
        }


@dataclass(frozen=True, slots=True)
class ApprovalPage:
    """Approvals, the oldest execution first, and where to go on (`after`) if there are more."""

    found: list[OpenApproval]
    next: str | None = None


def pending(
    rt: Runtime, principal: Principal, *, mine: bool = False, after: str | None = None, limit: int = 100
) -> ApprovalPage:
    """All open approvals of executions that the principal may look at, with whether it may answer;
    with `mine` only those. Raises BadRequest for an `after` that is none."""
    execution_id, place = _read_place(after)
    found: list[OpenApproval] = []
    with rt.store.read() as tx:
        rows = tx.executions.asking(principal.visible(), execution_id, MOST_EXECUTIONS)
        for row in rows:
            for one in find_open(rt, tx, row, principal):
                if row.execution_id == execution_id and _place_of(one) <= place:
                    continue
                if mine and not one.is_mine:
                    continue
                if len(found) == limit:
                    return ApprovalPage(found, _name_place(found[-1]))
                found.append(one)
    if len(rows) == MOST_EXECUTIONS:
        # Behind all of the last one.
        return ApprovalPage(found, f"{rows[-1].execution_id}.{rows[-1].head_version}.0")
    return ApprovalPage(found)


def open_in(rt: Runtime, principal: Principal, execution_id: str) -> list[OpenApproval]:
    """Those of one execution. Raises NotFound."""
    with rt.store.read() as tx:
        return list(find_open(rt, tx, moment.find(tx, execution_id), principal))


def show_open(rt: Runtime, found: list[OpenApproval]) -> list[JsonMap]:
    """As JSON, with what is shown in full in the place of references to it, as far as `Resolver`
    goes."""
    resolve = Resolver(rt)
    return [{**made, "show": resolve(made["show"])} for made in (one.as_json() for one in found)]


def find_open(
    rt: Runtime, tx: Transaction, row: ExecutionRow, principal: Principal
) -> Iterator[OpenApproval]:
    """Those of the execution, in the order in which they were asked for."""
    if row.is_over:
        return
    state = kept_moments.look(rt, tx, row).state()
    if state.cancelling:
        return
    askers: frozenset[str] | None = None
    for wait, awaited in open_approvals(state):
        one = OpenApproval(row, state, wait, awaited)
        if one.asked.four_eyes and askers is None:
            askers = find_askers(tx, row)
        refusal = _find_refusal(one, principal, askers or frozenset())
        own = (answer for answer in find_answers(state, wait, awaited) if answer.principal == principal.name)
        yield replace(one, refusal=refusal, answered=next((answer.fact.answer for answer in own), None))


# --- places of pages ------------------------------------------------------------------------------


def _place_of(one: OpenApproval) -> tuple[int, int]:
    """Where it stands among those of its execution."""
    return one.wait.version, one.wait.wait.awaited.index(one.awaited)


def _name_place(one: OpenApproval) -> str:
    version, number = _place_of(one)
    return f"{one.row.execution_id}.{version}.{number}"


def _read_place(text: str | None) -> tuple[str | None, tuple[int, int]]:
    if text is None:
        return None, (0, 0)
    execution_id, *rest = text.split(".")
    if not moment.is_id(execution_id) or len(rest) != 2 or not all(map(moment.is_id, rest)):
        raise BadRequest(f"{text[:80]!r} is no place to page on from: take `next` of the page before.")
    return execution_id, (int(rest[0]), int(rest[1]))


# --- who may answer -------------------------------------------------------------------------------


def find_askers(tx: Transaction, row: ExecutionRow) -> frozenset[str]:
    """Who asked for the execution: for itself, for what it runs again or goes on from, for what
    called it, and for the operation that began it; so on for each of them."""
    found: set[str] = set()
    seen, left = {row.execution_id}, [row]
    while left:
        one = left.pop()
        operation = None if one.operation_id is None else tx.operations.get(one.operation_id)
        found |= {name for name in (one.principal, operation and operation.principal) if name}
        for other in (one.parent_id, one.source_id):
            if other is not None and other not in seen:
                seen.add(other)
                left += filter(None, [tx.executions.get(other)])
    return frozenset(found)


def _find_refusal(one: OpenApproval, principal: Principal, askers: frozenset[str]) -> str | None:
    """Why the principal may not answer, in a sentence."""
    name, by, place = principal.name, one.asked.by, capital(one.place)
    if not principal.may("approve", one.row.path):
        return f"{name} has no scope `approve` for playbook {one.row.path!r}."
    groups = {f"{GROUP}{group}" for group in principal.groups}
    if by and (name == ANONYMOUS or not {name, *groups} & set(by)):
        who = "nobody knows who asks without a token" if name == ANONYMOUS else f"{name} is not among them"
        return f"{place} asks {' or '.join(by)}, and {who}."
    if one.asked.four_eyes and ANONYMOUS in {name, *askers}:
        return f"{place} asks others than who started it, and nobody knows who that is without tokens."
    if one.asked.four_eyes and name in askers:
        return f"{place} asks others than who started it, and that was {name}."
    return None


def capital(text: str) -> str:
    """As the beginning of a sentence."""
    return text[:1].upper() + text[1:]
