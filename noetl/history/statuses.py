"""What to call an execution, and its steps, at a version: the same words wherever that is shown."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping

from noetl.engine.run_state import RunStatus
from noetl.engine.state import State, StepRecord
from noetl.facts.events import ChildEnded, ChildWaiting, Event


def settle_status(status: str, follows: Event | None) -> str:
    """What to call an execution that `status_of` calls `status`, where `follows` is the next event
    of its log; None: it is the last.

    In the middle of a turn nothing runs and yet nothing is waited for: the scheduler went on by
    itself.
    """
    if status != "waiting" or follows is None or follows.draft.source != "server":
        return status
    # What another execution reports comes from outside, too, although the scheduler wrote it.
    return status if isinstance(follows.fact, ChildWaiting | ChildEnded) else "running"


def status_of_step(state: State, step: str) -> RunStatus:
    """Where the step is: how its last run ended, or `waiting` where some of its runs wait and none
    runs. Raises KeyError for a step that has not begun."""
    return _status(state.steps[step], {run.status for run in state.runs.values() if run.step == step})


def statuses_of_steps(state: State) -> Mapping[str, RunStatus]:
    """The same of all steps that have begun, in that order."""
    found = defaultdict[str, set[RunStatus]](set)
    for run in state.runs.values():
        found[run.step].add(run.status)
    return {name: _status(record, found.get(name, ())) for name, record in state.steps.items()}


def _status(record: StepRecord, of_runs: Collection[RunStatus]) -> RunStatus:
    return "waiting" if "waiting" in of_runs and "running" not in of_runs else record.status
