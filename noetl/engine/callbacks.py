"""Calls of the addresses of tasks, which may come before their task waits."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from noetl.engine.changes import replace
from noetl.engine.plan import Plan
from noetl.engine.source import SourceRun
from noetl.engine.state import State
from noetl.engine.wait_state import PendingWait
from noetl.facts import events as e
from noetl.facts.callbacks import call_key
from noetl.facts.events import CallbackReceived, Draft, Event
from noetl.net.callbacks import CALLBACK, tasks_with_address
from noetl.net.model import Transition


def fold_callback(state: State, fact: CallbackReceived, draft: Draft) -> State:
    """The first call of an address counts."""
    run_id = draft.run_id or ""
    run = state.runs.get(run_id)
    if run is None or run.ended:
        return state
    key = call_key(run_id, draft.iteration, fact.task)
    return replace(state, callbacks={key: fact, **state.callbacks})


def drop_callbacks(state: State, run_id: str) -> State:
    """The run has ended, and with it what its tasks were called for."""
    if not state.callbacks:
        return state
    own = f"callback:{run_id}/"
    left = {key: one for key, one in state.callbacks.items() if not key.startswith(own)}
    return replace(state, callbacks=left)


def find_call(state: State, wait: PendingWait) -> CallbackReceived | None:
    """The call that the task waits for, where it has come. A task that waits once more is answered
    by the same one."""
    return state.callbacks.get(call_key(wait.run_id, wait.iteration, wait.task))


# --- of an execution that is run again ------------------------------------------------------------


def tasks_handing_over(plan: Plan, step: Transition) -> Mapping[str, frozenset[str]]:
    """By a task of `step` that has an address: the names of those that read it."""
    reads = plan.reads(step.name)
    chains = {
        name: {chain[:2] for chain in one.chains if chain[0] == CALLBACK} for name, one in reads.items()
    }
    return {
        task: frozenset(name for name, read in chains.items() if read & {(CALLBACK,), (CALLBACK, task)})
        for task in tasks_with_address(step)
    }


def find_calls(
    run: SourceRun,
    iteration: int | None,
    handing: Mapping[str, frozenset[str]],
    events: Sequence[Event],
    standing: Sequence[Event],
) -> Iterator[Event]:
    """The calls of addresses of `run`, or of its `iteration`, which stand: those that handed the
    address over are not called again. `events` are all of that pipeline, `standing` those of them
    that stand."""
    for event in run.callbacks:
        if event.draft.iteration == iteration and isinstance(event.fact, CallbackReceived):
            by = handing.get(event.fact.task, frozenset())
            ends = _ends_of(by, events)
            if ends and ends <= _ends_of(by, standing):
                yield event


def _ends_of(tasks: frozenset[str], events: Sequence[Event]) -> set[int]:
    """The versions at which one of these tasks ended well."""
    return {one.version for one in events if isinstance(one.fact, e.TaskDone) and one.fact.task in tasks}
