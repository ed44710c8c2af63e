"""T8: executions that call one another: the playbook that a task means, and the row of a new
child."""

from __future__ import annotations

from datetime import datetime

from noetl.engine.children import depth_below
from noetl.engine.decision import NewChild
from noetl.engine.inputs import Playbook
from noetl.engine.state import State
from noetl.errors import NotFound, PlaybookInvalid
from noetl.facts.events import Draft, Parent, Requested
from noetl.facts.outcome import ErrorInfo
from noetl.usecases import catalog
from noetl.usecases.ports import ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime


def find(rt: Runtime, tx: Transaction, path: str, version: int | None) -> Playbook | ErrorInfo:
    """The playbook that a task calls: from the catalog, else from the library."""
    try:
        row = catalog.find_to_call(rt, tx, path, version)
        digest = catalog.net_digest(rt, tx, row)
    except (NotFound, PlaybookInvalid) as error:
        return ErrorInfo("client_error", error.message, type=type(error).__name__)
    return Playbook(row.path, row.version, digest, rt.plan(tx, digest).net.steps)


def create(tx: Transaction, caller: State, new: NewChild, now: datetime) -> None:
    """Writes the child's row and its first event, in the transaction that records that it was asked
    for."""
    fact, child = new.fact, new.call
    tx.executions.create(
        ExecutionRow(
            execution_id=fact.child_id,
            path=fact.path,
            playbook_version=fact.playbook_version,
            digest=fact.digest,
            status="pending",
            head_version=0,
            decided_version=0,
            created_at=now,
            updated_at=now,
            parent_id=caller.execution_id,
        )
    )
    call = child.call
    parent = Parent(
        caller.execution_id,
        child.step,
        child.run_id,
        child.iteration,
        child.task,
        depth_below(caller),
        call.return_step,
        call.detached,
        call.iter,
    )
    request = Requested(fact.path, fact.playbook_version, fact.digest, call.payload, parent=parent)
    tx.events.append(fact.child_id, 0, [Draft(request, source="server", dedup_key="requested")], now)
