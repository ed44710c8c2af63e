"""What the tasks of a run were handed: their inputs, rendered again from what the log says was true
then. The log has the arguments of steps; those of tasks follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from noetl.engine.names import command_context
from noetl.engine.plan import Plan
from noetl.engine.state import State
from noetl.errors import NoetlError
from noetl.expressions import names_used
from noetl.facts import events as e
from noetl.facts.events import Draft, Event
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import load_value
from noetl.facts.secret import omit_seal
from noetl.history.run_details import find_items
from noetl.pipeline.calls import TaskCaller
from noetl.pipeline.failures import CannotGoOn
from noetl.pipeline.fold import evolve, initial
from noetl.pipeline.model import PipelineProgress, PipelineSpec
from noetl.pipeline.names import outer_scope
from noetl.usecases import inspect
from noetl.usecases.ports import CommandRow
from noetl.usecases.runtime import Runtime
from noetl.usecases.work.pipelines import names, pipeline_ports, program, scope_around

_ENV: Final = "env"


@dataclass(frozen=True, slots=True)
class TaskInputs:
    """The inputs that a task has of its own, beside those of its step. `fault` says why they are
    not known; empty where they are."""

    task: str
    values: JsonMap = field(default_factory=dict)
    fault: str = ""


def inputs_of_tasks(
    rt: Runtime, plan: Plan, events: Sequence[Event], iteration: int | None = None
) -> list[TaskInputs]:
    """Of the tasks that have been called, or are, in order, as they were called last. `events` are
    those of one run. No secret can be opened with what is there."""
    issued = _find_issued(events)
    if issued is None or issued.draft.run_id is None:
        return []
    run_id, closed = issued.draft.run_id, replace(rt, seal=omit_seal)
    state = inspect.state_at(closed, issued.execution_id, issued.version)
    if run_id not in state.runs:
        return []
    command = _restore(plan, state, issued)
    spec = program(plan, command, iteration)
    drafts = [one.draft for one in events if one.draft.iteration == iteration]
    due = _find_due(spec, drafts)
    try:
        seen = names(closed, plan, command, _scope(closed, plan, command, events, iteration))
    except NoetlError as error:
        return [TaskInputs(spec.tasks[pc].name, fault=error.message) for pc in due]
    caller = TaskCaller(spec, outer_scope(spec, seen), pipeline_ports(closed, command, closed.tools))
    return [_render(caller, progress) for progress in due.values()]


def _find_issued(events: Sequence[Event]) -> Event | None:
    """The first order for work of the run."""
    return next((one for one in events if isinstance(one.fact, e.CommandIssued)), None)


def _restore(plan: Plan, state: State, issued: Event) -> CommandRow:
    """The command as it was once issued, with what its worker was told."""
    fact, run = issued.fact, state.runs[str(issued.draft.run_id)]
    assert isinstance(fact, e.CommandIssued), "that was looked for"
    return CommandRow(
        fact.command_id,
        issued.execution_id,
        run.id,
        run.step,
        fact.purpose,
        fact.part,
        fact.queue,
        fact.issue,
        command_context(plan, state, run),
    )


def _scope(
    rt: Runtime, plan: Plan, command: CommandRow, events: Sequence[Event], index: int | None
) -> JsonMap | None:
    """`iter` of the iteration of that index. Raises NoetlError where its item is gone."""
    loop = plan.step(command.step).loop
    if index is None or loop is None:
        return None
    items = find_items(events)
    start, chunk = next(one for one in reversed([(0, items.first), *items.added]) if one[0] <= index)
    loaded = load_value(chunk, rt.load)
    item: Json = (
        loaded[index - start] if isinstance(loaded, Sequence) and index - start < len(loaded) else None
    )
    parent = scope_around(rt, command.context) or command.context.get("caller")
    return {loop.iterator: item, "index": index, "parent": parent}


def _find_due(spec: PipelineSpec, drafts: Sequence[Draft]) -> Mapping[int, PipelineProgress]:
    """How far the pipeline had come whenever a task of it was called last, by the task's place."""
    due, progress = dict[int, PipelineProgress](), initial(spec)
    for draft in drafts:
        if progress.ending is None and _is_of_call(draft.fact):
            due[progress.pc] = progress
        progress = evolve(spec, progress, draft)
    return dict(sorted(due.items()))


def _is_of_call(fact: e.Fact) -> bool:
    """Whether it tells of a call of the task that is due."""
    return isinstance(
        fact,
        e.TaskStarted
        | e.TaskDone
        | e.TaskFailed
        | e.AttemptFailed
        | e.TaskCheckpointed
        | e.StepSuspended
        | e.IterationSuspended,
    )


def _render(caller: TaskCaller, progress: PipelineProgress) -> TaskInputs:
    task = caller.program.tasks[progress.pc]
    if any(name[0] == _ENV for name in names_used([*task.args.values(), *task.given.values()])):
        return TaskInputs(
            task.name, fault="They are made of the environment of the worker, which is not kept."
        )
    try:
        values = caller.inputs(progress)
    except CannotGoOn as fault:
        return TaskInputs(task.name, fault=fault.error.message)
    own = {*task.args, *task.given}
    return TaskInputs(task.name, {name: value for name, value in values.items() if name in own})
