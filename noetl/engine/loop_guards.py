"""What a loop asks while it runs: whether enough of its iterations have ended.

Guards see how far the loop has come (`completed`, `failed`, `total`, `results`) and what the step
saw when it began. They are asked whenever an iteration has ended, and again with every later turn.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl.engine.copies import has_copies
from noetl.engine.inputs import Inputs
from noetl.engine.iterations import loop_result
from noetl.engine.loop_ends import close_loop, fail_loop, release, template_fault
from noetl.engine.names import step_names
from noetl.engine.plan import Plan
from noetl.engine.state import LoopState, Run, State
from noetl.errors import TemplateError
from noetl.expressions import names_used, truth
from noetl.facts.events import Draft
from noetl.facts.json import Json
from noetl.net.model import Template, Transition
from noetl.net.tasks import EnoughRule

#: Names of the guards of a loop, besides those of its step.
PROGRESS_NAMES: Final = frozenset({"completed", "failed", "total", "results"})


def ask_enough(
    plan: Plan, state: State, inputs: Inputs, run: Run, loop: LoopState, rule: EnoughRule
) -> list[Draft]:
    """The end of the step where `rule` holds; nothing where it does not, or is not to be asked."""
    step = plan.step(run.step)
    if not loop.ended or run.released != "no" or has_copies(plan, state, inputs, run, until_done=True):
        return []
    try:
        holds = truth(rule.when, progress_names(state, inputs, step, run, loop, rule.when), load=inputs.load)
    except TemplateError as error:
        return fail_loop(step, run, loop, template_fault(step, error))
    if not holds:
        return []
    if loop.complete or rule.rest == "cancel":
        return close_loop(step, state, inputs, run, loop, enough=not loop.complete)
    return release(step, state, inputs, run, loop, loop_result(loop, inputs.paged))


def progress_names(
    state: State, inputs: Inputs, step: Transition, run: Run, loop: LoopState, guard: Template
) -> Mapping[str, Any]:
    """What `guard` of the loop sees. The list of the results is made where it reads it."""
    extra: dict[str, Json] = {
        "completed": loop.completed_count,
        "failed": loop.failed_count,
        "total": loop.count,
    }
    if isinstance(guard, str) and any(chain[0] == "results" for chain in names_used(guard, guard=True)):
        extra["results"] = list(loop.results)
    return step_names(state, inputs, step, run.args, extra)
