"""How a loop ends: with its step, with its failure, or behind a step that was routed before."""

from __future__ import annotations

from noetl.engine.changes import replace
from noetl.engine.inputs import Inputs
from noetl.engine.iterations import cut_short, find_begun, loop_result, loop_stats, reduce_writes
from noetl.engine.run_state import LoopState, Run
from noetl.engine.state import State
from noetl.engine.termination import stops
from noetl.errors import TemplateError
from noetl.facts.events import (
    CtxPatched,
    Draft,
    IterationCancelled,
    LoopDone,
    StepDone,
    StepFailed,
    StepTimedOut,
)
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import is_reference
from noetl.net.model import Transition

#: Why iterations are cancelled that a loop does not wait for.
ENOUGH = "enough iterations of its loop had ended"


def fail_run(run: Run, error: ErrorInfo) -> Draft:
    return Draft(StepFailed(error), step=run.step, run_id=run.id, dedup_key=f"end:{run.id}")


def template_fault(step: Transition, error: TemplateError) -> ErrorInfo:
    """The error of a step of which a template cannot be evaluated."""
    return ErrorInfo("template", error.message, step=step.name, line=step.line or None)


def fail_begun(step: Transition, run: Run, error: ErrorInfo) -> list[Draft]:
    """The failure of a run that has begun: with its step, or behind it where that is done and its
    loop lives."""
    if run.loop is not None and run.released != "no":
        return fail_loop(step, run, run.loop, error)
    return [fail_run(run, error)]


def too_many(step: Transition, count: int, allowed: int) -> ErrorInfo:
    """The error of a loop over more items than a loop may have."""
    message = f"The loop of step {step.name!r} has {count} items; at most {allowed} are allowed."
    return ErrorInfo("limit", message, step=step.name, line=step.line or None)


def cancel_iteration(run: Run, index: int, reason: str) -> Draft:
    """The end of one iteration. Its key is that of every end: of two the first one counts."""
    key = f"iteration:{run.id}/{index}"
    fact = IterationCancelled(reason)
    return Draft(fact, step=run.step, run_id=run.id, iteration=index, dedup_key=key)


def end_loop(step: Transition, state: State, inputs: Inputs, run: Run, loop: LoopState) -> list[Draft]:
    """The end of a loop whose iterations have all ended."""
    rule = step.loop.failure if step.loop is not None else None
    if loop.errors and rule is not None and not rule.tolerates(loop.failed_count, loop.count):
        return fail_loop(step, run, loop, next(iter(loop.errors.values())))
    return close_loop(step, state, inputs, run, loop)


def close_loop(
    step: Transition,
    state: State,
    inputs: Inputs,
    run: Run,
    loop: LoopState,
    *,
    cut: bool = False,
    forced_by: str | None = None,
) -> list[Draft]:
    """The end of a loop that went well, by itself or `forced_by` another run. `cut`: it was cut
    short."""
    try:
        patched = fold_writes(step, state, inputs, run, loop)
    except TemplateError as error:
        return fail_loop(step, run, loop, template_fault(step, error))
    done = _draft(run, _done(loop, cut=cut), f"loop.done:{run.id}")
    if run.released != "no":
        return [*patched, done]
    result = loop_result(loop, inputs.paged)
    # The events of the iterations already hold results that are not paged.
    end = StepDone(result=result if _is_paged(result) else None, forced_by=forced_by)
    return [done, *patched, _draft(run, end, f"end:{run.id}")]


def cut_loop(
    step: Transition,
    state: State,
    inputs: Inputs,
    run: Run,
    loop: LoopState,
    reason: str,
    forced_by: str | None = None,
) -> list[Draft]:
    """The end, as one that went well, of a loop of which whatever has not ended is cancelled for
    that `reason`."""
    cancelled = [cancel_iteration(run, index, reason) for index in find_begun(run.issues, loop)]
    left, cut = cut_short(loop), not loop.complete
    return [*cancelled, *close_loop(step, state, inputs, run, left, cut=cut, forced_by=forced_by)]


def fail_loop(step: Transition, run: Run, loop: LoopState, error: ErrorInfo) -> list[Draft]:
    """The end of a loop that fails its step; one whose step was routed fails the branch, which
    nothing handles."""
    failure = replace(error, stats=loop_stats(loop))
    if run.released != "no":
        done = replace(_done(loop), failure=failure, stops=stops(step) and not run.undoes)
        return [_draft(run, done, f"loop.done:{run.id}")]
    return [_draft(run, _done(loop), f"loop.done:{run.id}"), fail_run(run, failure)]


def time_out(step: Transition, run: Run, error: ErrorInfo) -> list[Draft]:
    """The end of a run that has not ended by its deadline."""
    if run.released != "no":
        return fail_begun(step, run, error)
    return [Draft(StepTimedOut(error), step=run.step, run_id=run.id, dedup_key=f"end:{run.id}")]


def release(
    step: Transition, state: State, inputs: Inputs, run: Run, loop: LoopState, result: JsonMap
) -> list[Draft]:
    """The end of the step with what there is of its `result`, while iterations run on."""
    try:
        patched = fold_writes(step, state, inputs, run, loop)
    except TemplateError as error:
        return fail_loop(step, run, loop, template_fault(step, error))
    return [*patched, _draft(run, StepDone(result=result, released=True), f"end:{run.id}")]


def release_at_once(run: Run, count: int) -> Draft:
    """The end of the step as its `count` iterations are handed out: none has come to anything."""
    result: JsonMap = {"results": None, "stats": {"total": count}}
    return _draft(run, StepDone(result=result, released=True), f"end:{run.id}")


def fold_writes(step: Transition, state: State, inputs: Inputs, run: Run, loop: LoopState) -> list[Draft]:
    """What iterations wrote to ctx, folded by the reducers. Raises TemplateError."""
    patch = reduce_writes(step.loop.reduce if step.loop else {}, loop.writes, state.ctx, inputs)
    return [Draft(CtxPatched(patch, "loop"), step=run.step, run_id=run.id)] if patch else []


def _done(loop: LoopState, *, cut: bool = False) -> LoopDone:
    stats = loop_stats(loop)
    cancelled = stats.get("cancelled", 0)
    return LoopDone(stats["total"], stats["completed"], stats["failed"], cancelled, cut)


def _draft(run: Run, fact: LoopDone | StepDone, key: str) -> Draft:
    return Draft(fact, step=run.step, run_id=run.id, dedup_key=key)


def _is_paged(result: JsonMap) -> bool:
    return is_reference(result["results"]) or is_reference(result.get("errors"))
