"""How the iterations of loops get to workers: lanes, and iterations that begin or go on by
themselves, at once or once there is a slot for each."""

from __future__ import annotations

from collections.abc import Sequence

from noetl.engine.asking import are_lanes_limited, ask_for_iteration, priority_of
from noetl.engine.commands import issue_lane, resume_command
from noetl.engine.inputs import Inputs
from noetl.engine.loop_ends import fail_begun, template_fault
from noetl.engine.plan import Plan
from noetl.engine.run_state import LoopState, Run
from noetl.engine.slots import awaits_lanes, awaits_slot, request_slots
from noetl.engine.state import State
from noetl.errors import TemplateError
from noetl.facts.events import Draft
from noetl.net.model import Transition


def issue_lanes(
    plan: Plan, state: State, inputs: Inputs, run: Run, count: int, generation: int, first: int = 0
) -> list[Draft]:
    """So many lanes from number `first` on, or the requests for their slots."""
    step = plan.step(run.step)
    parts = [f"l{lane}" for lane in range(first, first + count)]
    if not are_lanes_limited(step, run, inputs):
        return [issue_lane(state, step, run, part, generation) for part in parts]
    return _ask(plan, state, inputs, run, parts, generation)


def resume_iterations(plan: Plan, state: State, inputs: Inputs, run: Run, loop: LoopState) -> list[Draft]:
    """The iterations that left their workers and may go on. Their slots are theirs still; in a fork
    they ask for them."""
    step = plan.step(run.step)
    if not are_lanes_limited(step, run, inputs):
        return [issue_iteration(state, step, run, loop, index) for index in loop.suspended]
    parts = [f"i{index}" for index in loop.suspended if not awaits_slot(state, run, index)]
    return _ask(plan, state, inputs, run, parts, loop.generation)


def begin_iterations(
    plan: Plan, state: State, inputs: Inputs, run: Run, loop: LoopState, indices: Sequence[int]
) -> list[Draft]:
    """Iterations that no lane takes, each by itself, or the requests for their slots."""
    step = plan.step(run.step)
    if not are_lanes_limited(step, run, inputs):
        return [issue_iteration(state, step, run, loop, index) for index in indices]
    return _ask(plan, state, inputs, run, [f"i{index}" for index in indices], loop.generation)


def issue_iteration(state: State, step: Transition, run: Run, loop: LoopState, index: int) -> Draft:
    """The command that an iteration begins with, or goes on with when that is due."""
    return resume_command(state, step, run, f"i{index}", loop.suspended.get(index) or None, index)


def _ask(
    plan: Plan, state: State, inputs: Inputs, run: Run, parts: Sequence[str], generation: int
) -> list[Draft]:
    if not parts:
        return []
    step = plan.step(run.step)
    try:
        slots = ask_for_iteration(plan, state, inputs, step, run)
    except TemplateError as error:
        return fail_begun(step, run, template_fault(step, error))
    priority = priority_of(plan, step)
    return [request_slots(state, run, part, slots, priority, generation) for part in parts]


def has_lanes(state: State, run: Run) -> bool:
    """Whether any lane of its loop was issued, or has asked."""
    return any(part.startswith("l") for part in run.issues) or bool(awaits_lanes(state, run))
