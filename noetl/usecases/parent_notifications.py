"""T9: what one execution has to tell another. No transaction locks two executions that existed before it."""

from __future__ import annotations

from contextlib import suppress
from typing import assert_never

from noetl.errors import BadRequest, Conflict, NotFound
from noetl.facts.events import ChildEnded, ChildWaiting, Draft
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import Keep
from noetl.usecases import control
from noetl.usecases.ports import ENDED, CommandRow
from noetl.usecases.runtime import Runtime
from noetl.usecases.work.run import wake


def tell(rt: Runtime, command_id: str) -> None:
    """Tells what the command is about, once. Raises Unavailable."""
    with rt.store.read() as tx:
        command = tx.command(command_id)
    if command is None or command.state == "closed":
        return
    match command.purpose:
        case "cancel":
            _tell_child(rt, command)
        case "answer":
            _tell_caller(rt, command, _ended(rt, command), _ending(command))
        case "waits":
            told = command.context
            fact = ChildWaiting(told["task"], command.execution_id, told["waiting"], told["at"])
            _tell_caller(rt, command, fact, f"{_ending(command)}/{fact.at}")
        case "pipeline" | "lane" | "iteration" | "abandon":
            raise BadRequest(f"Command {command_id} is work, and nothing to tell.")
        case _:
            assert_never(command.purpose)


def _tell_child(rt: Runtime, command: CommandRow) -> None:
    # It may have ended meanwhile.
    with suppress(Conflict, NotFound):
        control.cancel(rt, command.part, f"execution {command.execution_id} does not wait for it any more")
    with rt.store.begin() as tx:
        tx.close_commands([command.command_id])


def _ended(rt: Runtime, command: CommandRow) -> ChildEnded:
    told = command.context
    # That of a loop is made of the results of its iterations, and may be large where none of them is.
    result = rt.hold(told["result"], Keep(command.execution_id))
    error = ErrorInfo(**told["error"]) if told["error"] else None
    # Commands that were written by an earlier version have no warnings.
    warnings = tuple(told.get("warnings", ()))
    return ChildEnded(told["task"], command.execution_id, told["status"], result, error, warnings)


def _ending(command: CommandRow) -> str:
    """The key of the child's end in the caller's log."""
    return f"child:{command.execution_id}"


def _tell_caller(rt: Runtime, command: CommandRow, fact: ChildEnded | ChildWaiting, key: str) -> None:
    """Records `fact` in the caller's log, where the caller still waits to hear of the child."""
    caller, told = command.part, command.context
    draft = Draft(fact, step=told["step"], run_id=told["run_id"], iteration=told["iteration"], dedup_key=key)
    with rt.store.begin() as tx:
        row = tx.lock(caller)
        heard = any(tx.recorded(caller, one) for one in {key, _ending(command)})
        if row is not None and row.status not in ENDED and not heard:
            tx.append(caller, row.head_version, [draft], rt.clock())
        tx.close_commands([command.command_id])
    wake(rt)
