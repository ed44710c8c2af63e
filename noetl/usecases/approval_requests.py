"""Which approval an answer means, and what is said where that is none or not one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from noetl.engine.approvals import decided_approvals, find_answers
from noetl.engine.state import State
from noetl.engine.waits import waiting_for
from noetl.errors import Conflict, NotFound
from noetl.facts.approvals import Verdict
from noetl.facts.events import Draft
from noetl.facts.json import JsonMap
from noetl.facts.nearest import did_you_mean
from noetl.usecases import moment
from noetl.usecases.open_approvals import OpenApproval, capital
from noetl.usecases.ports import ENDED, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime

#: Children that are looked at for the approval that was meant, and approvals that a sentence names.
_CHILDREN: Final = 50
_FEW: Final = 5


@dataclass(frozen=True, slots=True)
class ApprovalRequest:
    """An answer. `id` says which approval is meant whatever else is asked meanwhile; else `step`
    (or `step#k`), `task`, `name` and `iteration` do, as far as more than one is open. `values` are
    those of the form."""

    answer: Verdict
    step: str | None = None
    task: str | None = None
    name: str | None = None
    iteration: int | None = None
    reason: str = ""
    values: JsonMap = field(default_factory=dict)
    id: str | None = None

    def is_about(self, draft: Draft, task: str, name: str) -> bool:
        """Whether an event of that place can be meant."""
        return (
            self.step in (None, draft.step, draft.run_id)
            and self.iteration in (None, draft.iteration)
            and self.task in (None, task)
            and self.name in (None, name)
        )


def find_meant(found: list[OpenApproval], request: ApprovalRequest) -> list[OpenApproval]:
    """Those of the open ones that the request can mean."""
    if request.id is not None:
        found = [one for one in found if one.id == request.id]
    return [one for one in found if _is_meant(one, request)]


def _is_meant(one: OpenApproval, request: ApprovalRequest) -> bool:
    wait = one.wait
    return (
        request.step in (None, wait.step, wait.run_id)
        and request.iteration in (None, wait.iteration)
        and request.task in (None, wait.task)
        and request.name in (None, one.awaited.name)
    )


def explain_none_meant(
    rt: Runtime, tx: Transaction, row: ExecutionRow, found: list[OpenApproval], request: ApprovalRequest
) -> Conflict | NotFound:
    """Why no open approval is meant, in a sentence."""
    here = f"Execution {row.execution_id}"
    if row.status in ENDED:
        return Conflict(f"{here} has ended ({row.status}): there is nothing to approve any more.")
    steps = rt.plan(tx, row.digest).net.steps
    step = (request.step or "").partition("#")[0]
    if step and step not in steps:
        return NotFound(f"The playbook {row.path!r} has no step {step[:80]!r}.{did_you_mean(step, steps)}")
    at_step = [one for one in found if request.step in (None, one.wait.step, one.wait.run_id)]
    names = [one.awaited.name for one in at_step]
    if request.id is None and names and request.name is not None and request.name not in names:
        hint = did_you_mean(request.name, names) or f" Open there: {', '.join(sorted(set(names))[:_FEW])}."
        return NotFound(f"{here} waits for no approval {request.name[:80]!r}.{hint}")
    if found:
        return Conflict(f"{here} does not wait for that approval (any more); open are {list_open(found)}.")
    state = moment.look(tx, row).state()
    for one in (OpenApproval(row, state, *pair) for pair in decided_approvals(state)):
        if _is_meant(one, request):
            return Conflict(
                f"{capital(one.place)} of execution {row.execution_id} has been answered already "
                f"({_tell_answers(one)}); it goes on with the next turn of a scheduler."
            )
    return Conflict(f"{here} waits for no approval; {_tell_waiting(tx, row, state)}.")


def _tell_answers(one: OpenApproval) -> str:
    answers = find_answers(one.state, one.wait, one.awaited)
    return ", ".join(f"{answer.fact.answer} by {answer.principal}" for answer in answers)


def _tell_waiting(tx: Transaction, row: ExecutionRow, state: State) -> str:
    """What it waits for instead: of approvals of executions that it called it is told where."""
    children = tx.executions.find(parent=row.execution_id, limit=_CHILDREN)
    asking = [child.execution_id for child in children if child.approvals]
    if asking:
        return f"{', '.join(asking[:_FEW])}, which it called, {'do' if len(asking) > 1 else 'does'}"
    if state.cancelling:
        return "it is being cancelled"
    text = waiting_for(state)
    return f"it is {row.status}" if text is None else f"it waits for {text}"


def list_open(found: list[OpenApproval]) -> str:
    """The first few, as they can be named."""
    return ", ".join(_names(found)) + (f" and {len(found) - _FEW} more" if len(found) > _FEW else "")


def _names(found: list[OpenApproval]) -> Iterator[str]:
    for one in found[:_FEW]:
        tasks = {other.wait.task for other in found if other.wait.step == one.wait.step}
        yield f"{one.place}, task {one.wait.task!r}" if len(tasks) > 1 else one.place
