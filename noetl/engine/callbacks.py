"""Calls of the addresses of tasks, which may come before their task waits."""

from __future__ import annotations

from dataclasses import replace

from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.source import SourceRun
from noetl.engine.state import PendingWait, State
from noetl.engine.suspensions import place_key
from noetl.facts import events as e
from noetl.facts.events import CallbackReceived, Draft
from noetl.net.model import Transition


def fold_callback(state: State, fact: CallbackReceived, draft: Draft) -> State:
    """The first call of an address counts."""
    run_id = draft.run_id or ""
    run = state.runs.get(run_id)
    if run is None or run.ended:
        return state
    key = callback_key(run_id, draft.iteration, fact.task)
    return replace(state, callbacks={key: fact, **state.callbacks})


def callback_key(run_id: str, iteration: int | None, task: str) -> str:
    """Names the address of a task in an execution."""
    return f"{place_key(run_id, iteration)}/{task}"


def drop_callbacks(state: State, run_id: str) -> State:
    """The run has ended, and with it what its tasks were called for."""
    if not state.callbacks:
        return state
    own = f"{run_id}/"
    left = {key: one for key, one in state.callbacks.items() if not key.startswith(own)}
    return replace(state, callbacks=left)


def find_call(plan: Plan, state: State, inputs: Inputs, wait: PendingWait) -> CallbackReceived | None:
    """The call that the task waits for; of an execution that is run again also the one that it had
    there, where what was called with its address stands."""
    call = state.callbacks.get(callback_key(wait.run_id, wait.iteration, wait.task))
    if call is not None:
        return call
    run, source = state.runs[wait.run_id], inputs.source
    if source is None or run.reuse is None or not run.takes:
        return None
    earlier = source.runs.get(run.reuse.run_id or "")
    if earlier is None or not _stands(plan.step(wait.step), earlier, wait, run.copied):
        return None
    return next((fact for fact in _calls_in(earlier, wait)), None)


def _calls_in(run: SourceRun, wait: PendingWait) -> list[CallbackReceived]:
    events = run.events if wait.iteration is None else run.iterations.get(wait.iteration, ())
    return [
        one.fact for one in events if isinstance(one.fact, CallbackReceived) and one.fact.task == wait.task
    ]


def _stands(step: Transition, run: SourceRun, wait: PendingWait, copied: int) -> bool:
    """Whether the task before the one that waits was not called again."""
    names = [task.name for task in step.tasks]
    before = names[: names.index(wait.task)][-1:]
    events = run.events if wait.iteration is None else run.iterations.get(wait.iteration, ())
    return bool(before) and any(
        isinstance(one.fact, e.TaskDone) and one.fact.task in before and one.version <= copied
        for one in events
    )
