"""What a loop asks while it runs: whether enough of its iterations have ended, which further items
they bring, and whether it may close.

Guards see how far the loop has come (`completed`, `failed`, `total`, `results`) and what the step
saw when it began. They are asked whenever an iteration has ended, and again with every later turn;
what an iteration brings is asked once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from noetl.engine.copies import has_copies
from noetl.engine.inputs import Inputs
from noetl.engine.iterations import item_at, loop_result, members
from noetl.engine.loop_ends import (
    ENOUGH,
    cut_loop,
    end_loop,
    fail_loop,
    release,
    template_fault,
    too_many,
)
from noetl.engine.names import scope_around, step_names
from noetl.engine.plan import Plan
from noetl.engine.run_state import LoopState, Run
from noetl.engine.state import State
from noetl.errors import TemplateError
from noetl.expressions import evaluate_at, names_used, truth
from noetl.expressions.scope import layer_names
from noetl.facts.brief import brief
from noetl.facts.events import Draft, LoopGrown
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Lazy, as_items, load_value
from noetl.facts.warnings import Warned
from noetl.net.model import Loop, Template, Transition
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
        return cut_loop(step, state, inputs, run, loop, ENOUGH)
    return release(step, state, inputs, run, loop, loop_result(loop, inputs.paged))


def ask_to_close(step: Transition, state: State, inputs: Inputs, run: Run, loop: LoopState) -> list[Draft]:
    """The end of a loop whose iterations have all ended; nothing where it stays open."""
    close = step.loop.close if step.loop is not None else None
    if close is None:
        return end_loop(step, state, inputs, run, loop)
    try:
        holds = truth(close, progress_names(state, inputs, step, run, loop, close), load=inputs.load)
    except TemplateError as error:
        return fail_loop(step, run, loop, template_fault(step, error))
    return end_loop(step, state, inputs, run, loop) if holds else []


def ask_growth(
    plan: Plan, state: State, inputs: Inputs, run: Run, loop: LoopState, rules: Loop
) -> list[Draft]:
    """What the iterations bring that have ended since the last turn, each once and in the order of
    their indices; or the failure of the step."""
    step = plan.step(run.step)
    drafts: list[Draft] = []
    total = loop.count
    for index in members(loop.ended & ~(loop.cancelled | loop.asked)):
        try:
            fact = _find_growth(state, inputs, step, run, loop, rules, index)
        except TemplateError as error:
            return fail_loop(step, run, loop, template_fault(step, error))
        drafts.append(_grown(run, fact, total))
        total += fact.count
    if total > inputs.max_items:
        return fail_loop(step, run, loop, too_many(step, total, inputs.max_items))
    return drafts


def _grown(run: Run, fact: LoopGrown, first: int) -> Draft:
    key = f"grown:{run.id}/{fact.from_index}"
    return Draft(fact, step=run.step, run_id=run.id, iteration=first if fact.count else None, dedup_key=key)


def _find_growth(
    state: State, inputs: Inputs, step: Transition, run: Run, loop: LoopState, rules: Loop, index: int
) -> LoopGrown:
    """Raises TemplateError where `grow` cannot be evaluated, or comes to what is no list."""
    warnings: list[Warned] = []
    names = _iteration_names(state, inputs, step, run, loop, rules, index)
    found = evaluate_at("loop.grow", rules.grow, names, warnings, load=inputs.load)
    whole = found if inputs.load is None else load_value(found, inputs.load)
    if whole is not None and not isinstance(whole, list | Lazy):
        raise TemplateError(f"`grow` must come to a list or null, not {brief(whole)}.")
    count, items = as_items(found, inputs.load)
    return LoopGrown(index, count, inputs.hold(items) if count else None, tuple(warnings))


def _iteration_names(
    state: State, inputs: Inputs, step: Transition, run: Run, loop: LoopState, rules: Loop, index: int
) -> Mapping[str, Any]:
    """What `grow` sees of the iteration of that index: `iter`, its item by its name, and its
    `result`."""
    around = step_names(state, inputs, step, run.args)
    outer = around.get("iter")
    parent = outer if scope_around(state, step) is not None else (outer or {}).get("parent")
    item = item_at(loop.items, loop.added, index, inputs)
    scope: JsonMap = {rules.iterator: item, "index": index, "parent": parent}
    own = {"iter": scope, "result": loop.results[index]}
    return layer_names(own, {rules.iterator: item}, around)


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
