"""T8: a turn makes the executions that its own calls, and says what it has to tell others.

What one execution has to tell another is a command like any other, so that it survives whoever was to send it:
`answer` tells the caller how its child has ended, `waits` that only somebody outside makes it go on (or not any
more), `cancel` tells a child that nobody waits for it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from noetl.engine.children import depth_below
from noetl.engine.decide import status_of
from noetl.engine.inputs import Playbook
from noetl.engine.state import Child, State, result_of
from noetl.errors import NotFound, PlaybookInvalid
from noetl.facts.events import ChildRequested, Draft, Parent, Requested
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.usecases import catalog
from noetl.usecases.ports import ENDED, CommandRow, ExecutionRow, Transaction
from noetl.usecases.runtime import Runtime

#: The queue of the scheduler: what executions tell one another is answered there.
SCHEDULER = "scheduler"
#: Only somebody outside makes an execution go on that is so.
_OUTSIDE = ("waiting", "paused")


def find(rt: Runtime, tx: Transaction, path: str, version: int | None) -> Playbook | ErrorInfo:
    """The playbook that a task calls: from the catalog, else from the library."""
    try:
        row = catalog.find_to_call(rt, tx, path, version)
        digest = catalog.net_digest(rt, tx, row)
    except (NotFound, PlaybookInvalid) as error:
        return ErrorInfo("client_error", error.message, type=type(error).__name__)
    return Playbook(row.path, row.version, digest, rt.plan(tx, digest).net.steps)


# --- T8: the caller's turn ---------------------------------------------------------------------------


def create(tx: Transaction, caller: State, fact: ChildRequested, child: Child, now: datetime) -> None:
    """The child's row and its first event, in the transaction that records `fact`."""
    tx.create_execution(
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
    tx.append(fact.child_id, 0, [Draft(request, source="server", dedup_key="requested")], now)


# --- what is to be told --------------------------------------------------------------------------------


def tidings(status: str, after: State, lost: Iterable[Child], now: datetime) -> list[CommandRow]:
    """What a turn that came to `after` has to tell other executions. `status` is that which the last turn left;
    `lost` are the children that this one gave up, those among them that it made itself included."""
    rows = [
        _row(after.execution_id, child.run_id, child.step, "cancel", str(child.id), {}, now) for child in lost
    ]
    parent = after.parent
    if parent is None or parent.detached or status in ENDED:
        return rows
    if after.ended:
        rows.append(_row(after.execution_id, "-", "-", "answer", parent.execution_id, _answer(after), now))
    elif (waits := status_of(after) in _OUTSIDE) is not (status in _OUTSIDE):
        told = {**_to_whom(parent), "waiting": waits, "at": after.version}
        row = _row(after.execution_id, "-", "-", "waits", parent.execution_id, told, now)
        rows.append(replace(row, command_id=f"{row.command_id}/{after.version}"))
    return rows


def _to_whom(parent: Parent) -> JsonMap:
    """The call, as the caller knows it."""
    return {
        "step": parent.step,
        "run_id": parent.run_id,
        "iteration": parent.iteration,
        "task": parent.task,
    }


def _row(
    execution_id: str, run_id: str, step: str, purpose: str, to: str, context: JsonMap, now: datetime
) -> CommandRow:
    return CommandRow(
        command_id=f"{execution_id}/{purpose}/{to}",
        execution_id=execution_id,
        run_id=run_id,
        step=step,
        purpose=purpose,  # type: ignore[arg-type]
        part=to,
        queue=SCHEDULER,
        issue=1,
        context=context,
        label=f"{purpose} {to}",
        sent_at=now,
    )


def _answer(child: State) -> JsonMap:
    """What the caller records: where, and `child.ended`."""
    parent = child.parent
    assert parent is not None, "somebody waits for it"
    error = None if child.status == "completed" else _error(child)
    warnings = [] if error else _unreached(child, parent)
    return {
        **_to_whom(parent),
        "status": child.status,
        "result": _result(child, parent) if error is None else None,
        "error": error.as_json() if error else None,
        "warnings": warnings,
    }


def _result(child: State, parent: Parent) -> object:
    if parent.return_step is None:
        return result_of(child)
    record = child.steps.get(parent.return_step)
    return record.result if record else None


def _unreached(child: State, parent: Parent) -> list[str]:
    name = parent.return_step
    record = child.steps.get(name or "")
    if name is None or (record is not None and record.runs):
        return []
    return [
        f"step {name!r} of playbook {child.path!r} (execution {child.execution_id}) did not run: its result is null"
    ]


def _error(child: State) -> ErrorInfo:
    whom = f"Playbook {child.path!r} (execution {child.execution_id})"
    if child.error is None:
        reason = f": {child.cancel_reason}" if child.status == "cancelled" and child.cancel_reason else ""
        return ErrorInfo("child", f"{whom} was {child.status}{reason}.", type="ChildEnded")
    error = child.error
    message = (
        f"{whom} was {child.status}: {error.message}"
        if child.status != "failed"
        else f"{whom} failed: {error.message}"
    )
    return ErrorInfo("child", message, type=error.type or error.kind, retryable=error.retryable)
