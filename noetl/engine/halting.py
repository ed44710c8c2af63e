"""Halts: a cancellation, a pause, and a failure that stops the other branches."""

from __future__ import annotations

from datetime import datetime

from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.state import Run, State
from noetl.facts import events as e
from noetl.facts.events import Draft


def is_halted(state: State) -> bool:
    return state.pause_requested or state.cancelling


def cancel(_plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """Withdraws what no worker holds; ends when nothing runs any more or the grace has passed."""
    if state.cancel_deadline is None:
        return []
    late = inputs.now >= datetime.fromisoformat(state.cancel_deadline)
    idle = [run for run in state.runs.values() if not run.ended and (late or not is_held(run, inputs))]
    if idle:
        return [withdraw(run, "the execution was cancelled") for run in idle]
    if state.runs:
        return []
    return [Draft(e.Cancelled(state.cancel_reason), dedup_key="cancelled")]


def stop(_plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    """A branch failed for all: running work ends, what no worker holds is withdrawn."""
    if not state.stopping:
        return []
    idle = [
        run for run in state.runs.values() if not run.final and not run.ended and not is_held(run, inputs)
    ]
    return [withdraw(run, "another branch failed") for run in idle]


def is_held(run: Run, inputs: Inputs) -> bool:
    return any(inputs.commands.get(command, False) for command in run.commands.values())


def withdraw(run: Run, reason: str) -> Draft:
    return Draft(e.StepCancelled(reason), step=run.step, run_id=run.id, dedup_key=f"cancelled:{run.id}")


def pause(_plan: Plan, state: State, inputs: Inputs) -> list[Draft]:
    if not state.pause_requested or state.paused or any(is_held(run, inputs) for run in state.runs.values()):
        return []
    return [Draft(e.Paused())]
