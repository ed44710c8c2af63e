"""Timers: the instants that runs have, and what follows when one has come.

The instant of each is in the log. `decision.wake_at` asks for a turn at the first of them, and the
turn fires what is due, in the order of the instants, each once. While an execution is paused
nothing fires, and deadlines are later by as long as that took.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, assert_never

from noetl.engine.inputs import Inputs
from noetl.engine.state import Run, State, Timer
from noetl.errors import TemplateError
from noetl.expressions import evaluate
from noetl.facts import events as e
from noetl.facts.durations import seconds
from noetl.facts.events import Draft
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import Transition

# --- folding --------------------------------------------------------------------------------------


def fold_timer(state: State, fact: e.TimerScheduled | e.TimerFired, draft: Draft) -> State:
    match fact:
        case e.TimerScheduled():
            timer = Timer(fact.timer, fact.purpose, draft.run_id or "", fact.seconds, fact.due_at)
            return replace(state, timers={**state.timers, fact.timer: timer})
        case e.TimerFired():
            return _keep(state, lambda timer: timer.id != fact.timer)
        case _:
            assert_never(fact)


def drop_timers(state: State, run_id: str) -> State:
    """The run has ended, and with it what it had timers for."""
    return _keep(state, lambda timer: timer.run_id != run_id) if state.timers else state


def _keep(state: State, wanted: Any) -> State:
    return replace(state, timers={name: timer for name, timer in state.timers.items() if wanted(timer)})


def put_off(state: State, paused_at: str | None, resumed_at: str | None) -> State:
    """Deadlines are later by as long as the execution was paused."""
    if paused_at is None or resumed_at is None or not state.timers:
        return state
    spent = datetime.fromisoformat(resumed_at) - datetime.fromisoformat(paused_at)
    return replace(state, timers={name: _later(timer, spent) for name, timer in state.timers.items()})


def _later(timer: Timer, spent: timedelta) -> Timer:
    if timer.due_at is None:
        return timer
    return replace(timer, due_at=(datetime.fromisoformat(timer.due_at) + spent).isoformat())


def forget_instants(state: State) -> State:
    """Those of another execution do not count in its fork: the timers begin anew."""
    timers = {name: replace(timer, due_at=None) for name, timer in state.timers.items()}
    return replace(state, timers=timers)


# --- deciding -------------------------------------------------------------------------------------


def next_timer(state: State) -> datetime | None:
    """When the first of the timers is due."""
    due = (timer.due_at for timer in state.timers.values() if timer.due_at)
    return min(map(datetime.fromisoformat, due), default=None)


def set_deadline(step: Transition, run: Run, names: Mapping[str, Any], inputs: Inputs) -> list[Draft]:
    """The timer of a run that has to end in time, where its step says so. Raises TemplateError for
    what is no time."""
    if step.deadline is None:
        return []
    given = evaluate(step.deadline, names, load=inputs.load)
    if given is None:
        return []
    try:
        length = seconds(given)
    except ValueError as error:
        raise TemplateError(f"spec.deadline: {error}", str(step.deadline)) from error
    return [_schedule(f"deadline:{run.id}", run, length, inputs, f"timer:{run.id}/deadline")]


def _schedule(timer: str, run: Run, length: float, inputs: Inputs, key: str) -> Draft:
    due = (inputs.now + timedelta(seconds=length)).isoformat()
    fact = e.TimerScheduled(timer, "deadline", due, length)
    return Draft(fact, step=run.step, run_id=run.id, dedup_key=key)


def tend_timers(state: State, inputs: Inputs) -> list[Draft]:
    """Begins anew what was forgotten, else fires the first of the timers that are due."""
    for timer in state.timers.values():
        if timer.due_at is None:
            key = f"timer:{timer.id}/{state.version}"
            return [_schedule(timer.id, state.runs[timer.run_id], timer.seconds, inputs, key)]
    due = [timer for timer in state.timers.values() if _is_due(timer, inputs.now)]
    if not due:
        return []
    return _fire(state, min(due, key=lambda timer: (timer.due_at or "", timer.id)))


def _is_due(timer: Timer, now: datetime) -> bool:
    return timer.due_at is not None and datetime.fromisoformat(timer.due_at) <= now


def _fire(state: State, timer: Timer) -> list[Draft]:
    run = state.runs[timer.run_id]
    fired = Draft(
        e.TimerFired(timer.id, timer.purpose),
        step=run.step,
        run_id=run.id,
        dedup_key=f"fired:{timer.id}",
    )
    match timer.purpose:
        case "deadline":
            return [fired, _time_out(run, timer.seconds)]
        case _:
            assert_never(timer.purpose)


def _time_out(run: Run, length: float) -> Draft:
    message = (
        f"Step {run.step!r} did not end within its deadline of {length:g} s, which counts from when it was "
        "scheduled."
    )
    error = ErrorInfo("timeout", message, type="StepDeadline", step=run.step)
    return Draft(e.StepTimedOut(error), step=run.step, run_id=run.id, dedup_key=f"end:{run.id}")
