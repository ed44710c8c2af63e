"""T10: ends what a cancelled step has begun elsewhere.

A cancelled execution does not wait for it: the command is written in the turn that withdraws the
step (`turn.writing`), travels on the queue of the step, and is sent again until it has been carried
out. Twice does no harm.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Final, NoReturn

from noetl.engine.plan import Plan
from noetl.errors import NoetlError
from noetl.facts.events import Draft, TaskAbandoned, TaskCheckpointed
from noetl.facts.outcome import ErrorInfo, Outcome
from noetl.pipeline.fold import replay
from noetl.pipeline.interpreter import run
from noetl.pipeline.model import Call, Later, Names, PipelineProgress, PipelineSpec, ToolPort
from noetl.usecases.ports import CommandRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.work.leases import Delivery, End, Worker
from noetl.usecases.work.pipelines import names, pipeline_ports, program
from noetl.usecases.work.shares import LoopItems

#: How long a tool may take to end what it began, in seconds.
_PATIENCE_S: Final = 90.0


@dataclass(frozen=True, slots=True)
class _Left:
    """A pipeline, or one iteration of it, that stopped at a task which had recorded what it
    began."""

    program: PipelineSpec
    progress: PipelineProgress
    names: Names

    @property
    def task(self) -> str:
        return self.program.tasks[self.progress.pc].name


def abandon(worker: Worker, command_id: str) -> Delivery:
    """Lets the tools of a withdrawn run end what they began elsewhere, once. Raises Unavailable."""
    rt = worker.rt
    with rt.store.read() as tx:
        command = tx.commands.get(command_id)
        if command is None or command.state == "closed":
            return Delivery(End.DONE)
        left = list(_find_left(worker, tx, command))
    drafts = [_abandon(rt, command, one) for one in left]
    with rt.store.begin() as tx:
        row = tx.executions.lock(command.execution_id)
        new = [
            draft for draft in drafts if not tx.events.recorded(command.execution_id, draft.dedup_key or "")
        ]
        if row is not None and new:
            tx.events.append(command.execution_id, row.head_version, new, rt.clock())
        tx.commands.close([command.command_id])
    return Delivery(End.DONE)


def _find_left(worker: Worker, tx: Transaction, command: CommandRow) -> Iterator[_Left]:
    plan = worker.rt.plan(tx, command.context["digest"])
    kept = tx.events.read(command.execution_id, types=(TaskCheckpointed.type,))
    own = [event.draft.iteration for event in kept if event.draft.run_id == command.run_id]
    for iteration in dict.fromkeys(own):
        prog = program(plan, command, iteration)
        events = tx.events.of_run(command.execution_id, command.run_id, iteration)
        progress = replay(prog, [event.draft for event in events])
        if progress.ending is None and progress.checkpoint is not None:
            yield _Left(prog, progress, _names(worker, tx, plan, command, iteration))


def _names(worker: Worker, tx: Transaction, plan: Plan, command: CommandRow, iteration: int | None) -> Names:
    if iteration is None:
        return names(worker.rt, plan, command)
    row = tx.loops.get(command.execution_id, command.run_id)
    if row is None:
        raise NoetlError(f"The loop of step {command.step!r} is gone.")
    return LoopItems(worker, command, plan, row).names(iteration)


def _abandon(rt: Runtime, command: CommandRow, left: _Left) -> Draft:
    where = left.program.where
    return Draft(
        TaskAbandoned(left.task, _end(rt, command, left)),
        source="worker",
        step=where.step,
        run_id=where.run_id,
        iteration=where.iteration,
        dedup_key=f"abandoned:{where.run_id}/{'-' if where.iteration is None else where.iteration}",
    )


def _end(rt: Runtime, command: CommandRow, left: _Left) -> ErrorInfo | None:
    """Lets the tool end what the task began. Returns the error where some of it goes on, else
    None."""
    catch = _Catch()
    try:
        for _ in run(left.program, left.names, left.progress, pipeline_ports(rt, command, catch)):
            # It did not come as far as the tool: its templates cannot be rendered any more.
            break
    except _Caught as caught:
        outcome = _call(rt, caught.call)
        if outcome is None:
            message = f"Task '{left.task}' did not end in time what it has begun elsewhere."
            return ErrorInfo("timeout", message, step=command.step, task=left.task)
        error = outcome.error
        return (
            None
            if error is None or error.kind == "cancelled"
            else replace(error, step=command.step, task=left.task)
        )
    message = f"Task '{left.task}' cannot be called any more, and has not ended what it has begun elsewhere."
    return ErrorInfo("internal", message, step=command.step, task=left.task)


def _call(rt: Runtime, call: Call) -> Outcome | None:
    """What the tool says at last; None where that takes too long."""
    ends = time.monotonic() + _PATIENCE_S
    while time.monotonic() < ends:
        came = rt.tools.run(replace(call, abandoned=True, deadline_s=None))
        match came:
            case Outcome():
                return came
            case Later():
                call = replace(call, checkpoint=came.checkpoint)
                time.sleep(max(0.0, min(came.seconds, ends - time.monotonic())))
            case _:
                return None
    return None


class _Caught(Exception):
    def __init__(self, call: Call) -> None:
        super().__init__(call.task)
        self.call = call


class _Catch(ToolPort):
    def run(self, call: Call) -> NoReturn:
        raise _Caught(call)

    def interrupt(self, call: Call) -> None:
        """Nothing runs."""
