"""Runs that another run ends as done (`completes`): forced completion.

What such a run holds is stopped as a cancellation of it would, and it is routed as one that ended
well. Of a run whose step is done already, because its iterations run on, only these end. The rule
stands before the one that routes: the run that has ended is there until then.
"""

from __future__ import annotations

from noetl.engine.inputs import Inputs
from noetl.engine.loop_ends import cut_loop
from noetl.engine.plan import Plan
from noetl.engine.run_state import Run
from noetl.engine.state import State
from noetl.facts.events import Draft, StepDone
from noetl.net.model import Transition


def complete_others(plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """The end, as done, of a run that one which has ended well completes."""
    for run in state.runs.values():
        for name in plan.step(run.step).completes if run.is_done else ():
            for other in state.runs.values():
                if other.step == name and other.id != run.id and not (other.ended or other.final):
                    return _complete(plan.step(name), state, inputs, other, run.id)
    return []


def _complete(step: Transition, state: State, inputs: Inputs, run: Run, by: str) -> list[Draft]:
    if run.loop is None:
        end = StepDone(forced_by=by)
        return [Draft(end, step=run.step, run_id=run.id, dedup_key=f"end:{run.id}")]
    return cut_loop(step, state, inputs, run, run.loop, f"run {by} ended what ran of the step", by)
