"""T9: what one execution has to tell another. No transaction locks two executions that existed before it."""

from __future__ import annotations

from contextlib import suppress

from noetl.errors import Conflict, NotFound
from noetl.facts.events import ChildEnded, Draft
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Keep
from noetl.usecases import control
from noetl.usecases.ports import ENDED, CommandRow
from noetl.usecases.runtime import Runtime
from noetl.usecases.work import wake


def tell(rt: Runtime, command_id: str) -> None:
    """Tells what the command is about, once. Raises Unavailable."""
    with rt.store.read() as tx:
        command = tx.command(command_id)
    if command is None or command.state == "closed":
        return
    if command.purpose == "cancel":
        # It may have ended meanwhile.
        with suppress(Conflict, NotFound):
            control.cancel(
                rt, command.part, f"execution {command.execution_id} does not wait for it any more"
            )
        with rt.store.begin() as tx:
            tx.close_commands([command_id])
    else:
        _tell_caller(rt, command)


def _tell_caller(rt: Runtime, command: CommandRow) -> None:
    caller, child_id, told = command.part, command.execution_id, command.context
    key = f"child:{child_id}"
    error = told["error"]
    # That of a loop is made of the results of its iterations, and may be large where none of them is.
    result = rt.hold(told["result"], Keep(child_id))
    fact = ChildEnded(
        told["task"],
        child_id,
        told["status"],
        result,
        ErrorInfo(**error) if error else None,
        # Commands that were written by an earlier version say nothing of them.
        tuple(told.get("warnings", ())),
    )
    draft = Draft(fact, step=told["step"], run_id=told["run_id"], iteration=told["iteration"], dedup_key=key)
    with rt.store.begin() as tx:
        row = tx.lock(caller)
        if row is not None and row.status not in ENDED and not tx.recorded(caller, key):
            tx.append(caller, row.head_version, [draft], rt.clock())
        tx.close_commands([command.command_id])
    wake(rt)
