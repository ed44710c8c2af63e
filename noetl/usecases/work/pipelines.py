"""The pipeline of a command: what its templates and its code see, and what the interpreter needs to
run it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any

from noetl.engine.evolve import replay
from noetl.engine.names import StepNames, loop_mode
from noetl.engine.plan import Plan
from noetl.engine.state import State
from noetl.expressions.scope import bare_names, layer_names, of_step
from noetl.facts.callbacks import Callbacks
from noetl.facts.ids import event_id
from noetl.facts.json import Json, JsonMap
from noetl.facts.logs import Log
from noetl.facts.reference import load_value
from noetl.facts.secret import Keychain
from noetl.facts.waits import Wait
from noetl.net.callbacks import CALLBACK, tasks_with_address
from noetl.pipeline.model import CachePort, Names, PipelinePorts, PipelineSpec, Suspend, ToolPort, Where
from noetl.usecases.large_values import keep_outcome
from noetl.usecases.ports import CommandRow, Transaction
from noetl.usecases.runtime import Runtime
from noetl.usecases.snapshots import load_state


def names(rt: Runtime, plan: Plan, command: CommandRow, iteration: JsonMap | None = None) -> Names:
    """What the command's templates see, from the context in its row."""
    context = command.context
    around = scope_around(rt, context)
    # Outside of the playbook's loops: the iteration that called it, if one did, as `parent`.
    caller = {"parent": context["caller"]} if "caller" in context else None
    steps = {
        name: of_step(view.get("result"), view.get("results") or {})
        for name, view in context["steps"].items()
    }
    return Names(
        workload=context["workload"],
        ctx=context["ctx"],
        args=context["args"],
        steps=steps,
        builtins={
            **_bare_around(around, iteration),
            "execution_id": command.execution_id,
            "job": {"uuid": command.execution_id, "execution_id": command.execution_id},
            "env": rt.env,
            "keychain": Keychain(plan.net.keychain, command.execution_id, rt.seal),
            **_addresses(rt, plan, command, iteration),
        },
        iter=iteration or around or caller,
        absent=context.get("absent", {}),
    )


def _addresses(rt: Runtime, plan: Plan, command: CommandRow, iteration: JsonMap | None) -> JsonMap:
    """`callback`, where tasks of the step have an address; elsewhere other things may be called
    so."""
    tasks = tasks_with_address(plan.step(command.step))
    if not tasks:
        return {}
    index = None if iteration is None else iteration["index"]
    return {CALLBACK: Callbacks(tasks, command.execution_id, command.run_id, index, rt.seal)}


def scope_around(rt: Runtime, context: JsonMap) -> JsonMap | None:
    """The scope of the iteration, of several steps, that the command's step is a part of."""
    if "iteration" not in context:
        return None
    scope: JsonMap = load_value(context["iteration"], rt.load)
    return scope


def _bare_around(around: JsonMap | None, iteration: JsonMap | None) -> JsonMap:
    """What an iteration of one step reads bare of the one around it: what it has no name for
    itself."""
    if around is None or iteration is None:
        return {}
    own = bare_names(iteration)
    return {name: value for name, value in bare_names(around).items() if name not in own}


def whole_context(rt: Runtime, command: CommandRow) -> Mapping[str, Json]:
    """All that a template could see, as of the version that the command was issued at."""
    with rt.store.read() as tx:
        state = _state_at(tx, command.execution_id, int(command.context["everything"]))
    steps = {name: result.value for name, result in StepNames(state.steps).items()}
    view = layer_names(
        {"workload": state.workload, "ctx": state.ctx, "vars": state.ctx, "args": command.context["args"]},
        {"execution_id": state.execution_id, "steps": steps},
        steps,
        command.context["args"],
        state.ctx,
        state.workload,
    )
    return dict(view)


def _state_at(tx: Transaction, execution_id: str, version: int) -> State:
    state = load_state(tx, execution_id)
    if state.version > version:
        state = State(execution_id)
    events = tx.events.read(execution_id, after=state.version)
    return replay(state, (event for event in events if event.version <= version))


def program(plan: Plan, command: CommandRow, iteration: int | None) -> PipelineSpec:
    """The pipeline of the command's step, placed."""
    step = plan.step(command.step)
    where = Where(
        command.execution_id,
        command.run_id,
        command.step,
        iteration,
        command.context["digest"],
        event=issuing_event(command),
    )
    parallel = loop_mode(command.context, step) == "parallel"
    reducers = frozenset(step.loop.reduce) if step.loop else frozenset()
    iterator = step.loop.iterator if step.loop and iteration is not None else ""
    return PipelineSpec(step.tasks, where, plan.net.file, parallel, iterator, reducers)


def issuing_event(command: CommandRow) -> str:
    """The id of the event that issued the command; empty where an earlier version wrote the row."""
    version = command.context.get("issued")
    return "" if version is None else event_id(command.execution_id, version)


def pipeline_ports(
    rt: Runtime,
    command: CommandRow,
    tools: ToolPort,
    log: Log | None = None,
    cache: CachePort | None = None,
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
        cache=cache,
        kept=lambda outcome, task: keep_outcome(rt, outcome, task.result, command.execution_id),
    )


def resume_at(rt: Runtime, move: Suspend) -> str | None:
    """When a suspended pipeline goes on; None where it waits for something else than time."""
    return None if move.seconds is None else (rt.clock() + timedelta(seconds=move.seconds)).isoformat()


def begin_wait(rt: Runtime, move: Suspend) -> Wait | None:
    """What a pipeline waits for, from now on; in an execution that goes on with what another one
    waited for, since then."""
    if move.wait is None:
        return None
    return replace(move.wait, since=move.progress.since or rt.clock().isoformat())
