"""Timers: instants that runs and their iterations have.

The instant of each is in the log. `decision.wake_at` asks for a turn at the first of them, and the
turn fires what is due (`engine.waits`). While an execution is paused nothing fires, and what has to
come by an instant has as much longer as that took.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any, assert_never

from noetl.engine.changes import replace
from noetl.engine.inputs import Inputs
from noetl.engine.run_state import Run
from noetl.engine.state import State
from noetl.engine.suspensions import place_key
from noetl.engine.wait_state import Timer
from noetl.errors import TemplateError
from noetl.expressions import evaluate
from noetl.facts import events as e
from noetl.facts.durations import compact, seconds
from noetl.facts.events import Draft
from noetl.facts.outcome import ErrorInfo
from noetl.net.model import Transition

# --- folding --------------------------------------------------------------------------------------


def fold_timer(state: State, fact: e.TimerFact, draft: Draft) -> State:
    match fact:
        case e.TimerScheduled():
            timer = Timer(
                fact.timer,
                fact.purpose,
                draft.run_id or "",
                draft.iteration,
                fact.seconds,
                fact.due_at,
                fact.awaited,
            )
            return replace(state, timers={**state.timers, fact.timer: timer})
        case e.TimerFired():
            return _keep(_count_reminder(state, fact), lambda timer: timer.id != fact.timer)
        case _:
            assert_never(fact)


def _count_reminder(state: State, fact: e.TimerFired) -> State:
    """The wait knows how often it was brought up again."""
    timer = state.timers.get(fact.timer)
    if fact.purpose != "reminder" or timer is None or timer.awaited is None:
        return state
    key, name = place_key(timer.run_id, timer.iteration), timer.awaited
    wait = state.waits[key]
    wait = replace(wait, reminded={**wait.reminded, name: wait.reminded.get(name, 0) + 1})
    return replace(state, waits={**state.waits, key: wait})


def drop_timer(state: State, timer: str) -> State:
    """That one alone."""
    return _keep(state, lambda one: one.id != timer) if timer in state.timers else state


def drop_timers(state: State, run_id: str) -> State:
    """The run has ended, and with it what it had timers for."""
    return _keep(state, lambda timer: timer.run_id != run_id) if state.timers else state


def drop_timers_of(state: State, run_id: str, iteration: int | None) -> State:
    """The pipeline of the run, or of the iteration, waits for nothing any more; the run may still
    have a deadline."""
    return _keep(
        state,
        lambda timer: timer.purpose == "deadline" or (timer.run_id, timer.iteration) != (run_id, iteration),
    )


def _keep(state: State, is_wanted: Callable[[Timer], bool]) -> State:
    return replace(state, timers={name: one for name, one in state.timers.items() if is_wanted(one)})


def put_off(state: State, paused_at: str | None, resumed_at: str | None) -> State:
    """What has to come in time has as much longer as the execution was paused."""
    if paused_at is None or resumed_at is None or not state.timers:
        return state
    spent = datetime.fromisoformat(resumed_at) - datetime.fromisoformat(paused_at)
    return replace(state, timers={name: _later(timer, spent) for name, timer in state.timers.items()})


def _later(timer: Timer, spent: timedelta) -> Timer:
    if timer.due_at is None or timer.purpose == "wait":
        return timer
    return replace(timer, due_at=(datetime.fromisoformat(timer.due_at) + spent).isoformat())


def forget_instants(state: State) -> State:
    """Those of another execution do not count in its fork: the timers begin anew."""
    timers = {
        name: timer if timer.seconds is None else replace(timer, due_at=None)
        for name, timer in state.timers.items()
    }
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
    timer = Timer(f"deadline:{run.id}", "deadline", run.id, None, length, None)
    return [schedule_timer(timer, run.step, inputs)]


def schedule_timer(timer: Timer, step: str | None, inputs: Inputs, again: str = "") -> Draft:
    """`timer.scheduled`, which fixes the instant where there is none; `again` tells it from an
    earlier event of the same timer."""
    due = timer.due_at or (inputs.now + timedelta(seconds=timer.seconds or 0.0)).isoformat()
    fact = e.TimerScheduled(timer.id, timer.purpose, due, timer.seconds, timer.awaited)
    return Draft(
        fact,
        step=step,
        run_id=timer.run_id or None,
        iteration=timer.iteration,
        dedup_key=f"timer:{timer.id}{again}",
    )


def schedule_again(state: State, inputs: Inputs) -> list[Draft]:
    """The timers whose instants were forgotten, from now on."""
    return [
        schedule_timer(timer, step_of(state, timer), inputs, f"/{state.version}")
        for timer in state.timers.values()
        if timer.due_at is None
    ]


def due_timers(state: State, now: datetime) -> list[Timer]:
    return [
        timer
        for timer in state.timers.values()
        if timer.due_at is not None and datetime.fromisoformat(timer.due_at) <= now
    ]


def step_of(state: State, timer: Timer) -> str | None:
    """Whose step has the timer; that of a region is of none."""
    return state.runs[timer.run_id].step if timer.run_id else None


def fire_timer(timer: Timer, step: str | None) -> Draft:
    """What follows stands behind it."""
    return Draft(
        e.TimerFired(timer.id, timer.purpose),
        step=step,
        run_id=timer.run_id or None,
        iteration=timer.iteration,
        dedup_key=f"fired:{timer.id}",
    )


def find_late(run: Run, timer: Timer) -> ErrorInfo:
    """The error of a run that has not ended by its deadline."""
    length = compact(timer.seconds or 0.0)
    message = (
        f"Step {run.step!r} did not end within its deadline of {length}, which counts from when it was "
        "scheduled."
    )
    return ErrorInfo("timeout", message, type="StepDeadline", step=run.step)
