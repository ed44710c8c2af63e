"""Runs that another run ends as done (`completes`): forced completion.

What such a run holds is stopped as a cancellation of it would, and it is routed as one that ended
well. The rule stands before the one that routes: the run that has ended is there until then.
"""

from __future__ import annotations

from noetl.engine.inputs import Inputs
from noetl.engine.iterations import cut_short, loop_result, loop_stats, reduce_writes
from noetl.engine.lanes import fail_run
from noetl.engine.plan import Plan
from noetl.engine.state import LoopState, Run, State
from noetl.errors import TemplateError
from noetl.facts.events import CtxPatched, Draft, LoopDone, StepDone
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import is_reference
from noetl.net.model import Transition


def complete_others(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """The end, as done, of a run that one which has ended well completes."""
    for run in state.runs.values():
        for name in plan.step(run.step).completes if run.status == "done" else ():
            for other in state.runs.values():
                if other.step == name and not (other.ended or other.final):
                    return _complete(plan.step(name), state, inputs, other, run.id)
    return []


def _complete(step: Transition, state: State, inputs: Inputs, run: Run, by: str) -> list[Draft]:
    if run.loop is None:
        return [_end(run, StepDone(forced_by=by))]
    loop = cut_short(run.loop)
    drafts = [_end_loop(run, loop)]
    try:
        patch = reduce_writes(step.loop.reduce if step.loop else {}, loop.writes, state.ctx, inputs)
    except TemplateError as error:
        problem = ErrorInfo("template", error.message, step=step.name, line=step.line or None)
        return [*drafts, fail_run(run, problem)]
    if patch:
        drafts.append(Draft(CtxPatched(patch, "loop"), step=run.step, run_id=run.id))
    result = loop_result(loop, inputs.paged)
    paged = is_reference(result["results"]) or is_reference(result.get("errors"))
    # The events of the iterations already hold results that are not paged.
    return [*drafts, _end(run, StepDone(result=result if paged else None, forced_by=by))]


def _end_loop(run: Run, loop: LoopState) -> Draft:
    stats = loop_stats(loop)
    done = LoopDone(stats["total"], stats["completed"], stats["failed"], stats.get("cancelled", 0))
    return Draft(done, step=run.step, run_id=run.id, dedup_key=f"loop.done:{run.id}")


def _end(run: Run, fact: StepDone) -> Draft:
    return Draft(fact, step=run.step, run_id=run.id, dedup_key=f"end:{run.id}")
