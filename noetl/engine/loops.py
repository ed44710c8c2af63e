"""Loops: fans out, and issues lost iterations again."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any, Literal

from noetl.engine.copies import has_copies
from noetl.engine.inputs import Inputs
from noetl.engine.iterations import item_at, members
from noetl.engine.lanes import begin_iterations, has_lanes, issue_lanes, resume_iterations
from noetl.engine.loop_ends import fail_loop, fail_run, release_at_once, template_fault, too_many
from noetl.engine.loop_guards import ask_enough, ask_growth, ask_to_close
from noetl.engine.plan import Plan
from noetl.engine.run_state import LoopState, Run
from noetl.engine.slots import awaits_lanes, awaits_slot, is_step_paused, lacks_slots
from noetl.engine.state import State
from noetl.errors import TemplateError
from noetl.expressions import evaluate, evaluate_at
from noetl.facts.brief import brief
from noetl.facts.events import Draft, IterationFailed, LoopClaimed, LoopStarted
from noetl.facts.json import Json
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import as_items
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
        return [fail_run(run, template_fault(step, error))]
    if count > inputs.max_items:
        return [fail_run(run, too_many(step, count, inputs.max_items))]
    cursor = loop.cursor is not None
    mode = mode_of(loop, width)
    stays_open = loop.close is not None
    started = LoopStarted(count, inputs.hold(items), mode, width, tuple(warnings), cursor, stays_open)
    drafts = [Draft(started, step=step.name, run_id=run.id, dedup_key=f"loop:{run.id}")]
    if run.takes or step.limits.asks or loop.paced or not loop.sync:
        # What stands comes first, and lanes for what is missing then (`_reissue`); so does the slot
        # of the loop as a whole, and the end of a step that does not wait.
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
    """What a running loop needs now: the end of its step, or its own, what it asks, resumptions,
    iterations, or another generation of lanes."""
    loop, step = run.loop, plan.step(run.step)
    if loop is None or loop.closed or run.ended or step.loop is None:
        return []
    if not step.loop.sync and run.released == "no" and _is_handed_out(plan, state, inputs, run):
        return [release_at_once(run, loop.count)]
    if step.loop.asks or step.loop.close is not None:
        if state.pause_requested or _is_stopped(state, run):
            # It is asked again when the execution goes on.
            return []
        if asked := _ask(plan, state, inputs, run, loop, step.loop):
            return asked
    if not loop.complete and has_copies(plan, state, inputs, run):
        return []
    return _tend(plan, state, inputs, run, loop)


def _is_handed_out(plan: Plan, state: State, inputs: Inputs, run: Run) -> bool:
    """Whether anything of the loop may begin, or stands and needs no slot."""
    waits = plan.step(run.step).limits.asks and lacks_slots(state, run)
    return not waits or has_copies(plan, state, inputs, run)


def _is_stopped(state: State, run: Run) -> bool:
    """Whether a branch has failed, and with it all that has not begun."""
    return state.stopping and not run.final


def _ask(plan: Plan, state: State, inputs: Inputs, run: Run, loop: LoopState, rules: Loop) -> list[Draft]:
    """What follows from what the loop asks while it runs."""
    grown: list[Draft] = []
    if rules.grow is not None and stop_reason(plan.step(run.step), loop) is None:
        grown = ask_growth(plan, state, inputs, run, loop, rules)
    if grown or rules.enough is None:
        return grown
    return ask_enough(plan, state, inputs, run, loop, rules.enough)


def _tend(plan: Plan, state: State, inputs: Inputs, run: Run, loop: LoopState) -> list[Draft]:
    step, busy = plan.step(run.step), _at_work(run, inputs) > 0
    stop = stop_reason(step, loop)
    if stop is not None and (loop.complete or not busy) and not (loop.cursor and busy):
        return fail_loop(step, run, loop, stop)
    if stop is None and loop.complete and not (loop.cursor and busy):
        # A lane that is at work may have claimed rows that are not in the log yet.
        return ask_to_close(step, state, inputs, run, loop)
    if stop is not None or not _may_go_on(state, run):
        return []
    if step.limits.asks and lacks_slots(state, run):
        return []
    if moved := resume_iterations(plan, state, inputs, run, loop):
        return moved
    if step.loop is not None and step.loop.paced:
        return _begin_iterations(plan, state, inputs, run, loop)
    return _issue_lanes(plan, state, inputs, run, loop, busy=busy)


def _issue_lanes(
    plan: Plan, state: State, inputs: Inputs, run: Run, loop: LoopState, *, busy: bool
) -> list[Draft]:
    """The lanes that the loop lacks: the first ones, further ones of a cursor, or a new
    generation."""
    moved = _add_lanes(plan, state, inputs, run, loop)
    if moved or busy or awaits_lanes(state, run):
        return moved
    if not (run.takes or has_lanes(state, run)):
        width = _first_width(loop.cursor is not None, loop.max_in_flight, loop.count)
        return issue_lanes(plan, state, inputs, run, width, loop.generation)
    return _reissue(plan, state, inputs, run, loop)


def _may_go_on(state: State, run: Run) -> bool:
    """Whether anything of the loop may be issued."""
    return not (state.pause_requested or _is_stopped(state, run) or is_step_paused(state, run.step))


def _begin_iterations(plan: Plan, state: State, inputs: Inputs, run: Run, loop: LoopState) -> list[Draft]:
    """The next iterations of a loop without lanes, as many as there is room for."""
    free = loop.max_in_flight - _at_work(run, inputs) - len(loop.calling) - awaits_lanes(state, run)
    left = members(((1 << loop.count) - 1) & ~loop.ended)
    # Loops may have very many items: only the first ones are looked at.
    missing = (index for index in left if not _is_away(state, run, loop, inputs, index))
    return begin_iterations(plan, state, inputs, run, loop, list(islice(missing, max(0, free))))


def _is_away(state: State, run: Run, loop: LoopState, inputs: Inputs, index: int) -> bool:
    """Whether the iteration has begun, or is to: it waits, or has a command."""
    waits = index in loop.suspended or index in loop.calling or awaits_slot(state, run, index)
    return waits or run.commands.get(f"i{index}") in inputs.commands


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
    """The error that ends the loop before its last iteration: that of a claim, or the first failure
    where its policy lets it not go on."""
    if loop.cursor is not None and loop.cursor.error is not None:
        return loop.cursor.error
    if not loop.errors or step.loop is None:
        return None
    if step.loop.failure.goes_on(loop.failed_count, loop.count):
        return None
    return next(iter(loop.errors.values()))


def find_failed_loops(plan: Plan, state: State) -> list[str]:
    """The runs whose loops begin no iteration any more: a claim, or too many iterations, failed."""
    return [
        run.id
        for run in state.runs.values()
        if run.loop is not None and stop_reason(plan.step(run.step), run.loop) is not None
    ]


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
    asking = int(loop.may_have_rows)
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
    return None if (item := item_at(loop.items, loop.added, index, inputs)) is None else brief(item)
