"""T9: what one execution has to tell another. No transaction locks two executions that existed
before it."""

from __future__ import annotations

from contextlib import suppress

from noetl.errors import Conflict, NotFound, UnknownPurpose
from noetl.facts.events import ChildEnded, ChildUndone, ChildWaiting, Draft
from noetl.facts.limits import region_of
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Retention
from noetl.usecases import control
from noetl.usecases.ports import ENDED, CommandRow
from noetl.usecases.runtime import Runtime
from noetl.usecases.undos import undo_given_up
from noetl.usecases.wakes import wake
from noetl.usecases.work.leases import Delivery, End, Worker


def notify(worker: Worker, command_id: str) -> Delivery:
    """Tells another execution what the command is about, once. Raises UnknownPurpose,
    Unavailable."""
    with worker.rt.store.read() as tx:
        command = tx.commands.get(command_id)
    if command is not None and command.state != "closed":
        _notify(worker.rt, command)
    return Delivery(End.DONE)


def _notify(rt: Runtime, command: CommandRow) -> None:
    match command.purpose:
        case "cancel":
            _cancel_other(rt, command)
        case "answer":
            _notify_parent(rt, command, _make_answer(rt, command), _key_of_end(command))
        case "waits":
            context = command.context
            fact = ChildWaiting(context["task"], command.execution_id, context["waiting"], context["at"])
            _notify_parent(rt, command, fact, f"{_key_of_end(command)}/{fact.at}")
        case _:
            raise UnknownPurpose(command.command_id, command.purpose)


def _cancel_other(rt: Runtime, command: CommandRow) -> None:
    reason = command.context.get("reason", f"execution {command.execution_id} does not wait for it any more")
    # It may have ended meanwhile.
    with suppress(Conflict, NotFound):
        run = command.context.get("run", "")
        if (region := region_of(run)) is not None:
            control.cancel_region(rt, command.part, region, reason)
        elif run:
            control.cancel_step(rt, command.part, run, reason=reason)
        else:
            control.cancel(rt, command.part, reason)
    with rt.store.begin() as tx:
        undoes = not command.context and undo_given_up(rt, tx, command.part)
        tx.commands.close([command.command_id])
    if undoes:
        wake(rt)


def _make_answer(rt: Runtime, command: CommandRow) -> ChildEnded | ChildUndone:
    context = command.context
    error = ErrorInfo(**context["error"]) if context["error"] else None
    # Commands that were written by an earlier version have no `undoes`, and no `undoable`.
    if undoes := context.get("undoes"):
        return ChildUndone(context["task"], command.execution_id, undoes, error)
    # That of a loop is made of the results of its iterations, and may be large where none of them
    # is.
    result = rt.hold(context["result"], Retention(command.execution_id))
    # Nor warnings.
    warnings = tuple(context.get("warnings", ()))
    undoable = context.get("undoable", False)
    return ChildEnded(
        context["task"], command.execution_id, context["status"], result, error, warnings, undoable
    )


def _key_of_end(command: CommandRow) -> str:
    return f"child:{command.execution_id}"


def _notify_parent(
    rt: Runtime, command: CommandRow, fact: ChildEnded | ChildUndone | ChildWaiting, key: str
) -> None:
    """Records `fact` in the caller's log, where the caller still waits to hear of the child."""
    caller, context = command.part, command.context
    draft = Draft(
        fact, step=context["step"], run_id=context["run_id"], iteration=context["iteration"], dedup_key=key
    )
    with rt.store.begin() as tx:
        row = tx.executions.lock(caller)
        heard = any(tx.events.recorded(caller, one) for one in {key, _key_of_end(command)})
        if row is not None and row.status not in ENDED and not heard:
            tx.events.append(caller, row.head_version, [draft], rt.clock())
        tx.commands.close([command.command_id])
    wake(rt)
