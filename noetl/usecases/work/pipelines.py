"""The pipeline of a command, placed, and what the interpreter needs to run it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any

from noetl.engine.names import loop_mode
from noetl.engine.plan import Plan
from noetl.facts.ids import event_id
from noetl.facts.logs import Log
from noetl.pipeline.model import PipelinePorts, Program, Suspend, ToolPort, Where
from noetl.usecases.large_values import keep_outcome
from noetl.usecases.ports import CommandRow
from noetl.usecases.runtime import Runtime
from noetl.usecases.work.scopes import whole_context


def program(plan: Plan, command: CommandRow, iteration: int | None) -> Program:
    """The pipeline of the command's step, placed."""
    step = plan.step(command.step)
    where = Where(
        command.execution_id,
        command.run_id,
        command.step,
        iteration,
        command.context["digest"],
        event=issued_by(command),
    )
    parallel = loop_mode(command.context, step) == "parallel"
    reducers = frozenset(step.loop.reduce) if step.loop else frozenset()
    iterator = step.loop.iterator if step.loop and iteration is not None else ""
    return Program(step.tasks, where, plan.net.file, parallel, iterator, reducers)


def issued_by(command: CommandRow) -> str:
    """The id of the event that issued the command; empty where an earlier version wrote the row."""
    version = command.context.get("issued")
    return "" if version is None else event_id(command.execution_id, version)


def pipeline_ports(
    rt: Runtime, command: CommandRow, tools: ToolPort, log: Log | None = None
) -> PipelinePorts:
    """The tool, references, jitter, and the whole context for code that asks for it."""

    def everything() -> Mapping[str, Any]:
        return whole_context(rt, command)

    context = everything if "everything" in command.context else None
    return PipelinePorts(
        tool=tools,
        load=rt.load,
        random=rt.random,
        context=context,
        now=lambda: rt.clock().isoformat(),
        is_large=rt.is_large,
        log=log,
        quoting=rt.quoting,
        kept=lambda outcome, task: keep_outcome(rt, outcome, task.result, command.execution_id),
    )


def due_at(rt: Runtime, move: Suspend) -> str | None:
    """When a suspended pipeline goes on; None where it waits for something else than time."""
    return None if move.seconds is None else (rt.clock() + timedelta(seconds=move.seconds)).isoformat()
