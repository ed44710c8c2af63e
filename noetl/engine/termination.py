"""Steps that end the whole execution (`terminate`), and what it comes to then.

Nothing is waited for: what runs or waits elsewhere is withdrawn by the turn that routes the run of
such a step. The first end counts: a step that ends well after a branch has failed the execution
changes nothing any more. The final step still runs.
"""

from __future__ import annotations

from noetl.engine.plan import Plan
from noetl.engine.run_state import Run
from noetl.engine.scope_state import Termination
from noetl.engine.state import State
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import EndStatus, Transition


def reason_of(ending: Termination) -> str:
    """Why what else ran was withdrawn."""
    return f"step {ending.step!r} ended the execution"


def termination_of(step: Transition, run: Run, state: State) -> EndStatus | None:
    """How a run that is routed ends the whole execution, if it does."""
    return None if run.final or run.status != "done" or state.stopping else step.terminate


def error_of(step: Transition) -> ErrorInfo | None:
    """The error of an execution that the step ends, where it ends as a failure."""
    if step.terminate != "failed":
        return None
    message = f"Step {step.name!r} ended the execution as failed."
    return ErrorInfo("client_error", message, type="Terminated", step=step.name, line=step.line or None)


def errors_of(state: State) -> tuple[ErrorInfo, ...]:
    """What has failed by now, the first failure first; how the execution was ended before that."""
    ended = state.termination.error if state.termination is not None else None
    return state.failures if ended is None else (ended, *state.failures)


def stops(step: Transition) -> bool:
    """Whether a failed branch at `step` fails the whole execution at once: as the step says, or
    else the executor."""
    return step.failure.mode != "best_effort"


def conclude(plan: Plan, state: State) -> list[Draft]:
    """The last events of an execution of which nothing is left."""
    if state.cancelling:
        return [Draft(e.Cancelled(state.cancel_reason), dedup_key="cancelled")]
    ending = state.termination
    if ending is not None and ending.status == "cancelled":
        return [Draft(e.Cancelled(reason_of(ending)), dedup_key="cancelled")]
    return finish(verdict(plan, state), _result_step(plan, state), _error(plan, state))


def _error(plan: Plan, state: State) -> ErrorInfo | None:
    if state.termination is None:
        return state.failures[0] if state.failures else None
    return state.termination.error or _error_of_final_step(plan, state)


def _error_of_final_step(plan: Plan, state: State) -> ErrorInfo | None:
    record = state.steps.get(plan.net.final_step or "")
    return record.error if record is not None and record.status == "failed" else None


def _result_step(plan: Plan, state: State) -> str | None:
    if state.undoes is not None:
        return None
    for name in (plan.net.final_step, "end"):
        if name is not None and name in state.steps and "done" in state.steps[name].counts:
            return name
    if state.termination is not None:
        return state.termination.step if state.termination.status == "completed" else None
    # What other branches did is not what a failed execution came to.
    return None if state.stopping else state.last_step


def finish(status: str, result_step: str | None, error: ErrorInfo | None) -> list[Draft]:
    return [
        Draft(e.WorkflowFinished(status, result_step, error), dedup_key="finished"),
        Draft(e.Processed(status, result_step, error), dedup_key="processed"),
    ]


def verdict(plan: Plan, state: State) -> str:
    """How the execution ends, as far as it is known: for the final step, and for all behind it."""
    if state.cancelling:
        return "cancelled"
    if state.termination is not None:
        failed = state.termination.status == "completed" and _error_of_final_step(plan, state)
        return "failed" if failed else state.termination.status
    if not state.failures:
        return "completed"
    return "failed" if state.stopping else "partial"
