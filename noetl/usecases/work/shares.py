"""What a lane has of its loop: the indices it runs, and what earlier deliveries left of them in the
log."""

from __future__ import annotations

from collections.abc import Iterable

from noetl.engine.names import loop_mode
from noetl.engine.plan import Plan
from noetl.facts.events import CtxPatched, Draft
from noetl.facts.json import JsonMap
from noetl.net.model import Task
from noetl.pipeline.patches import extend
from noetl.usecases.ports import CommandRow, LoopRow, Transaction


def first(
    tx: Transaction, command: CommandRow, plan: Plan, row: LoopRow
) -> tuple[tuple[int, ...], dict[int, list[Draft]]]:
    """The indices that a delivery begins with, and what earlier deliveries recorded of them: those
    that it has to finish, else new ones."""
    step = plan.step(command.step)
    sequential = loop_mode(command.context, step) == "sequential"
    unfinished: tuple[int, ...] = ()
    if sequential and (command.attempt > 1 or command.iteration is not None):
        # Those that come later see what these write: they may not be overtaken.
        unfinished = _handed_out(tx, row)
    elif command.iteration is not None and not _has_ended(tx, row, command.iteration):
        unfinished = (command.iteration,)
    if unfinished:
        return unfinished, _history(tx, command, unfinished)
    return take(tx, command, 1)


def take(tx: Transaction, command: CommandRow, count: int) -> tuple[tuple[int, ...], dict[int, list[Draft]]]:
    """New indices. In the first generation nobody has begun them."""
    taken = tx.loops.take(command.execution_id, command.run_id, command.generation, count)
    return taken, _history(tx, command, taken) if command.generation > 1 else {}


def _history(tx: Transaction, command: CommandRow, indices: tuple[int, ...]) -> dict[int, list[Draft]]:
    events = {index: tx.events.of_run(command.execution_id, command.run_id, index) for index in indices}
    return {index: [event.draft for event in found] for index, found in events.items()}


def _has_ended(tx: Transaction, row: LoopRow, index: int) -> bool:
    return tx.events.recorded(row.execution_id, f"iteration:{row.run_id}/{index}")


def _handed_out(tx: Transaction, row: LoopRow) -> tuple[int, ...]:
    """What the only lane of a sequential loop took and did not end."""
    indices = range(row.count) if row.indices is None else row.indices
    position = row.next_index
    while position > 0 and not _has_ended(tx, row, indices[position - 1]):
        position -= 1
    return tuple(indices[position : row.next_index])


def own_patches(tx: Transaction, command: CommandRow, plan: Plan) -> JsonMap:
    """What earlier iterations of a sequential loop wrote to ctx: its own patches, across
    deliveries."""
    step = plan.step(command.step)
    if loop_mode(command.context, step) != "sequential" or not _writes_ctx(step.tasks):
        return {}
    patches: JsonMap = {}
    for event in tx.events.read(command.execution_id, types=(CtxPatched.type,)):
        if event.draft.run_id == command.run_id and isinstance(event.fact, CtxPatched):
            patches = extend(patches, event.fact.patch)
    return patches


def _writes_ctx(tasks: Iterable[Task]) -> bool:
    """Whether a `set` of these tasks, or of their rules, assigns to ctx."""
    assigned = (
        one
        for task in tasks
        for group in (task.set, *(rule.then.set for rule in task.rules or ()))
        for one in group
    )
    return any(one.scope == "ctx" for one in assigned)
