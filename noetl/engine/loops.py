"""Loops: fanning out, closing, and issuing again what was lost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from noetl.engine.inputs import Inputs
from noetl.engine.iterations import loop_result, loop_stats
from noetl.engine.plan import Plan
from noetl.engine.reducers import reduced
from noetl.engine.state import LoopState, Run, State
from noetl.errors import TemplateError
from noetl.expressions import evaluate
from noetl.facts.events import (
    CommandIssued,
    CtxPatched,
    Draft,
    IterationFailed,
    LoopDone,
    LoopStarted,
    StepDone,
    StepFailed,
)
from noetl.facts.ids import command_id
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import as_items, is_reference
from noetl.net.model import Loop, Transition


def start_loop(
    state: State, inputs: Inputs, step: Transition, run: Run, names: Mapping[str, Any]
) -> list[Draft]:
    """Evaluates the collection and fans out, or fails the step."""
    loop = step.loop
    if loop is None:
        raise ValueError(f"step {step.name} has no loop")
    warnings: list[str] = []
    try:
        collection = evaluate(loop.collection, names, load=inputs.load, warn=warnings.append)
        count, items = as_items(collection, inputs.load)
        width = _width(loop, names, inputs)
    except TemplateError as error:
        return [failed(run, ErrorInfo("template", error.message, step=step.name, line=step.line or None))]
    if count > inputs.max_items:
        message = f"The loop of step {step.name!r} has {count} items; at most {inputs.max_items} are allowed."
        return [failed(run, ErrorInfo("limit", message, step=step.name, line=step.line or None))]
    started = LoopStarted(count, inputs.hold(items), loop.mode, width, tuple(warnings))
    drafts = [Draft(started, step=step.name, run_id=run.id, dedup_key=f"loop:{run.id}")]
    return drafts + _lanes(state, step, run, min(width, count), generation=1)


def _width(loop: Loop, names: Mapping[str, Any], inputs: Inputs) -> int:
    if loop.mode == "sequential":
        return 1
    if loop.max_in_flight is None:
        return inputs.max_in_flight
    value = evaluate(loop.max_in_flight, names, load=inputs.load)
    try:
        width = int(value)
    except (TypeError, ValueError):
        width = 0
    if width < 1:
        raise TemplateError(f"`max_in_flight` must be a number from 1, not {value!r}.")
    return width


def _lanes(state: State, step: Transition, run: Run, count: int, generation: int) -> list[Draft]:
    return [
        Draft(
            CommandIssued(
                command_id=command_id(state.execution_id, run.id, f"l{lane}", generation),
                purpose="lane",
                part=f"l{lane}",
                queue=step.queue,
                issue=generation,
                ctx_version=state.version,
                generation=generation,
            ),
            step=step.name,
            run_id=run.id,
            dedup_key=f"issued:{run.id}/l{lane}/{generation}",
        )
        for lane in range(count)
    ]


def tend_loop(plan: Plan, state: State, inputs: Inputs, run: Run) -> list[Draft]:
    """What a running loop needs now: its end, resumptions, or another generation of lanes."""
    loop = run.loop
    if loop is None or loop.closed:
        return []
    step = plan.step(run.step)
    stop = stop_reason(step, loop)
    busy = any(inputs.commands.get(command) is not None for command in run.commands.values())
    if loop.complete or (stop is not None and not busy):
        return _close(step, state, inputs, run, loop, stop)
    if stop is not None or state.pause_requested or (state.stopping and not run.final):
        return []
    resumed = _resume(state, step, run, loop)
    if resumed or busy:
        return resumed
    return _again(state, inputs, step, run, loop)


def stop_reason(step: Transition, loop: LoopState) -> ErrorInfo | None:
    """The error that fails the loop: the first failure that its policy does not tolerate."""
    if not loop.errors or step.loop is None:
        return None
    if step.loop.failure.tolerates(loop.failed_count, loop.count):
        return None
    return next(iter(loop.errors.values()))


def _close(
    step: Transition, state: State, inputs: Inputs, run: Run, loop: LoopState, stop: ErrorInfo | None
) -> list[Draft]:
    stats = loop_stats(loop)
    done = LoopDone(stats["total"], stats["completed"], stats["failed"])
    drafts = [Draft(done, step=run.step, run_id=run.id, dedup_key=f"loop.done:{run.id}")]
    if stop is not None:
        return [*drafts, failed(run, replace(stop, stats=stats))]
    try:
        patch = reduced(step.loop.reduce if step.loop else {}, loop.writes, state.ctx, inputs)
    except TemplateError as error:
        problem = ErrorInfo("template", error.message, step=step.name, line=step.line or None)
        return [*drafts, failed(run, replace(problem, stats=stats))]
    if patch:
        drafts.append(Draft(CtxPatched(patch, "loop"), step=run.step, run_id=run.id))
    result = loop_result(loop, inputs.paged)
    # What the events of the iterations say already is not said again.
    end = StepDone(result=result if _is_paged(result) else None)
    return [*drafts, Draft(end, step=run.step, run_id=run.id, dedup_key=f"end:{run.id}")]


def _is_paged(result: JsonMap) -> bool:
    return is_reference(result["results"]) or is_reference(result.get("errors"))


def _resume(state: State, step: Transition, run: Run, loop: LoopState) -> list[Draft]:
    return [
        resume_command(state, step, run, f"i{index}", due or None, index)
        for index, due in loop.suspended.items()
    ]


def resume_command(
    state: State, step: Transition, run: Run, part: str, due_at: str | None, iteration: int | None
) -> Draft:
    """The order to go on with a suspended pipeline or iteration, not before `due_at`."""
    issue = run.issues.get(part, 0) + 1
    fact = CommandIssued(
        command_id=command_id(state.execution_id, run.id, part, issue),
        purpose="pipeline" if iteration is None else "iteration",
        part=part,
        queue=step.queue,
        issue=issue,
        ctx_version=state.version,
        generation=run.loop.generation if run.loop else 0,
        due_at=due_at,
    )
    key = f"issued:{run.id}/{part}/{issue}"
    return Draft(fact, step=step.name, run_id=run.id, iteration=iteration, dedup_key=key)


def missing(run: Run, loop: LoopState, commands: Iterable[str]) -> tuple[int, ...]:
    """Indices that neither ended, nor wait, nor have a command of their own among `commands`."""
    away = {*loop.suspended, *loop.calling}
    own = {part for part, command in run.commands.items() if part.startswith("i") and command in commands}
    return tuple(
        index
        for index in range(loop.count)
        if not loop.ended >> index & 1 and index not in away and f"i{index}" not in own
    )


def _again(state: State, inputs: Inputs, step: Transition, run: Run, loop: LoopState) -> list[Draft]:
    """Every lane is gone and iterations are missing: a new generation, or their failure. An iteration that
    waits for a playbook keeps its slot."""
    lost, free = missing(run, loop, inputs.commands), loop.max_in_flight - len(loop.calling)
    if not lost or free < 1:
        return []
    if loop.generation >= inputs.max_generations:
        return [_lost(run, index) for index in lost]
    return _lanes(state, step, run, min(free, len(lost)), loop.generation + 1)


def _lost(run: Run, index: int) -> Draft:
    message = f"Iteration {index} of step {run.step!r} never reported: its workers were lost again and again."
    error = ErrorInfo("internal", message, type="WorkerLost", step=run.step, iteration=index)
    return Draft(
        IterationFailed(error),
        step=run.step,
        run_id=run.id,
        iteration=index,
        dedup_key=f"iteration:{run.id}/{index}",
    )


def failed(run: Run, error: ErrorInfo) -> Draft:
    return Draft(StepFailed(error), step=run.step, run_id=run.id, dedup_key=f"end:{run.id}")
