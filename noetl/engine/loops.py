"""Loops: fans out, closes, and issues lost iterations again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, Literal

from noetl.engine.copies import has_copies
from noetl.engine.inputs import Inputs
from noetl.engine.iterations import loop_result, loop_stats, reduce_writes
from noetl.engine.lanes import (
    fail_run,
    fail_template,
    has_lanes,
    issue_lanes,
    resume_iterations,
)
from noetl.engine.plan import Plan
from noetl.engine.slots import awaits_lanes, is_step_paused, lacks_slots
from noetl.engine.state import LoopState, Run, State
from noetl.errors import TemplateError
from noetl.expressions import evaluate, evaluate_at
from noetl.facts.brief import brief
from noetl.facts.events import (
    CtxPatched,
    Draft,
    IterationFailed,
    LoopClaimed,
    LoopDone,
    LoopStarted,
    StepDone,
)
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import as_items, is_reference, load_value
from noetl.facts.warnings import Warned
from noetl.net.model import Loop, Transition


def start_loop(
    plan: Plan, state: State, inputs: Inputs, loop: Loop, run: Run, names: Mapping[str, Any]
) -> list[Draft]:
    """Evaluates the collection of the `loop` of the run's step and fans out, or fails the step."""
    step = plan.step(run.step)
    warnings: list[Warned] = []
    try:
        count, items = _collection(loop, names, inputs, warnings)
        width = _width(loop, names, inputs)
    except TemplateError as error:
        return [fail_template(step, run, error)]
    if count > inputs.max_items:
        return [fail_run(run, too_many(step, count, inputs.max_items))]
    cursor = loop.cursor is not None
    mode = mode_of(loop, width)
    started = LoopStarted(count, inputs.hold(items), mode, width, tuple(warnings), cursor)
    drafts = [Draft(started, step=step.name, run_id=run.id, dedup_key=f"loop:{run.id}")]
    if run.takes or step.limits.asks:
        # What stands comes first, and lanes for what is missing then (`_reissue`); so does the slot
        # of the loop as a whole.
        return drafts
    return drafts + issue_lanes(plan, state, inputs, run, _first_width(cursor, width, count), 1)


def _first_width(cursor: bool, width: int, count: int) -> int:
    """Of a cursor's lanes the first one looks whether there is anything; rows that it finds bring
    the others."""
    return 1 if cursor else min(width, count)


def mode_of(loop: Loop, width: int) -> Literal["sequential", "parallel"]:
    """How the iterations of `loop` run, with `width` in flight at once."""
    if loop.mode == "cursor":
        return "sequential" if width == 1 else "parallel"
    return loop.mode


def too_many(step: Transition, count: int, allowed: int) -> ErrorInfo:
    """The error of a loop over more items than a loop may have."""
    message = f"The loop of step {step.name!r} has {count} items; at most {allowed} are allowed."
    return ErrorInfo("limit", message, step=step.name, line=step.line or None)


def _collection(
    loop: Loop, names: Mapping[str, Any], inputs: Inputs, warnings: list[Warned]
) -> tuple[int, Json]:
    """What `as_items` says of the collection. What a cursor will find is not known yet."""
    if loop.cursor is not None:
        return 0, []
    found = evaluate_at("loop.in", loop.collection, names, warnings, load=inputs.load)
    return as_items(found, inputs.load)


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


def tend_loop(plan: Plan, state: State, inputs: Inputs, run: Run) -> list[Draft]:
    """What a running loop needs now: its end, resumptions, or another generation of lanes."""
    loop = run.loop
    if loop is None or loop.closed:
        return []
    step = plan.step(run.step)
    stop = stop_reason(step, loop)
    if not loop.complete and has_copies(plan, state, inputs, run):
        return []
    busy = _at_work(run, inputs) > 0
    if (loop.complete and not (loop.cursor and busy)) or (stop is not None and not busy):
        # A lane that is at work may have claimed rows that are not in the log yet.
        return _close(step, state, inputs, run, loop, stop)
    if stop is not None or not _may_go_on(state, run):
        return []
    if step.limits.asks and lacks_slots(state, run):
        return []
    moved = resume_iterations(plan, state, inputs, run, loop) or _add_lanes(plan, state, inputs, run, loop)
    if moved or busy or awaits_lanes(state, run):
        return moved
    if not (run.takes or has_lanes(state, run)):
        width = _first_width(loop.cursor is not None, loop.max_in_flight, loop.count)
        return issue_lanes(plan, state, inputs, run, width, loop.generation)
    return _reissue(plan, state, inputs, run, loop)


def _may_go_on(state: State, run: Run) -> bool:
    """Whether anything of the loop may be issued."""
    ending = state.stopping and not run.final
    return not (state.pause_requested or ending or is_step_paused(state, run.step))


def _at_work(run: Run, inputs: Inputs) -> int:
    """How many of the run's commands are open."""
    return sum(inputs.commands.get(command) is not None for command in run.commands.values())


def _add_lanes(plan: Plan, state: State, inputs: Inputs, run: Run, loop: LoopState) -> list[Draft]:
    """Further lanes of a cursor's loop, where rows wait and there is room."""
    if loop.cursor is None or not loop.cursor.wanted:
        return []
    if run.takes and loop.generation == 1:
        # Rows that were claimed before are handed out as another generation.
        return []
    waiting = awaits_lanes(state, run)
    free = loop.max_in_flight - _at_work(run, inputs) - len(loop.calling) - waiting
    issued = sum(part.startswith("l") and issue == loop.generation for part, issue in run.issues.items())
    wanted = min(free, loop.cursor.wanted - waiting)
    return issue_lanes(plan, state, inputs, run, wanted, loop.generation, issued + waiting)


def stop_reason(step: Transition, loop: LoopState) -> ErrorInfo | None:
    """The error that fails the loop: that of a claim, or the first failure that its policy does not
    tolerate."""
    if loop.cursor is not None and loop.cursor.error is not None:
        return loop.cursor.error
    if not loop.errors or step.loop is None:
        return None
    if step.loop.failure.tolerates(loop.failed_count, loop.count):
        return None
    return next(iter(loop.errors.values()))


def find_failed_loops(plan: Plan, state: State) -> list[str]:
    """The runs whose loops begin no iteration any more: a claim, or too many iterations, failed."""
    return [
        run.id
        for run in state.runs.values()
        if run.loop is not None and stop_reason(plan.step(run.step), run.loop) is not None
    ]


def _close(
    step: Transition, state: State, inputs: Inputs, run: Run, loop: LoopState, stop: ErrorInfo | None
) -> list[Draft]:
    stats = loop_stats(loop)
    done = LoopDone(stats["total"], stats["completed"], stats["failed"], stats.get("cancelled", 0))
    drafts = [Draft(done, step=run.step, run_id=run.id, dedup_key=f"loop.done:{run.id}")]
    if stop is not None:
        return [*drafts, fail_run(run, replace(stop, stats=stats))]
    try:
        patch = reduce_writes(step.loop.reduce if step.loop else {}, loop.writes, state.ctx, inputs)
    except TemplateError as error:
        problem = ErrorInfo("template", error.message, step=step.name, line=step.line or None)
        return [*drafts, fail_run(run, replace(problem, stats=stats))]
    if patch:
        drafts.append(Draft(CtxPatched(patch, "loop"), step=run.step, run_id=run.id))
    result = loop_result(loop, inputs.paged)
    # The events of the iterations already hold results that are not paged.
    end = StepDone(result=result if _is_paged(result) else None)
    return [*drafts, Draft(end, step=run.step, run_id=run.id, dedup_key=f"end:{run.id}")]


def _is_paged(result: JsonMap) -> bool:
    return is_reference(result["results"]) or is_reference(result.get("errors"))


def find_missing(run: Run, loop: LoopState, commands: Iterable[str]) -> tuple[int, ...]:
    """Indices that neither ended, nor wait, nor have a separate command among `commands`."""
    away = {*loop.suspended, *loop.calling}
    own = {part for part, command in run.commands.items() if part.startswith("i") and command in commands}
    return tuple(
        index
        for index in range(loop.count)
        if not loop.ended >> index & 1 and index not in away and f"i{index}" not in own
    )


def _reissue(plan: Plan, state: State, inputs: Inputs, run: Run, loop: LoopState) -> list[Draft]:
    """Every lane is gone and iterations are missing: a new generation, or their failure. An
    iteration that waits for a playbook keeps its slot."""
    lost, free = find_missing(run, loop, inputs.commands), loop.max_in_flight - len(loop.calling)
    asking = int(loop.cursor is not None and not loop.cursor.drained)
    if free < 1 or not (lost or asking):
        return []
    if loop.generation >= inputs.max_generations:
        return [_fail_lost(run, loop, inputs, index) for index in lost] or [_fail_claims(run, loop)]
    return issue_lanes(plan, state, inputs, run, min(free, max(len(lost), asking)), loop.generation + 1)


def _fail_claims(run: Run, loop: LoopState) -> Draft:
    message = (
        f"The cursor of step {run.step!r} was never asked to its end: its workers were lost again and again."
    )
    error = ErrorInfo("internal", message, type="WorkerLost", step=run.step)
    fact = LoopClaimed("", error=error)
    return Draft(fact, step=run.step, run_id=run.id, dedup_key=f"claim:{run.id}/lost/{loop.generation}")


def _fail_lost(run: Run, loop: LoopState, inputs: Inputs, index: int) -> Draft:
    message = f"Iteration {index} of step {run.step!r} never reported: its workers were lost again and again."
    error = ErrorInfo("internal", message, type="WorkerLost", step=run.step, iteration=index)
    error = replace(error, item_text=_item_text(loop, inputs, index))
    return Draft(
        IterationFailed(error),
        step=run.step,
        run_id=run.id,
        iteration=index,
        dedup_key=f"iteration:{run.id}/{index}",
    )


def _item_text(loop: LoopState, inputs: Inputs, index: int) -> str | None:
    """The item in brief; rows of a cursor are in the events of its claims."""
    if loop.cursor is not None or inputs.load is None:
        return None
    items = load_value(loop.items, inputs.load)
    return brief(items[index]) if index < len(items) else None
