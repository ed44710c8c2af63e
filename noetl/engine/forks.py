"""A fork: the state of another execution goes on as one of its own."""

from __future__ import annotations

from noetl.engine.changes import replace
from noetl.engine.run_state import Run
from noetl.engine.slots import forget_slots
from noetl.engine.state import State
from noetl.engine.suspensions import place_key
from noetl.engine.timers import forget_instants
from noetl.engine.undoing import begin_to_undo
from noetl.facts.events import Forked


def fold_fork(state: State, fact: Forked) -> State:
    """What was on its way in the other execution is to be issued anew here: no command of it is
    ours, and the children that it waited for are forks of those there."""
    runs = {key: run if run.ended else _without_commands(state, run) for key, run in state.runs.items()}
    children = {
        key: replace(child, id=fact.children.get(child.id or ""), waits=False, heard=0)
        for key, child in state.children.items()
    }
    forked = replace(state, runs=runs, children=children, forked_from=fact.execution_id)
    # What somebody told the other one is not meant for this one.
    forked = forget_slots(forget_instants(replace(forked, signals=(), answers=(), callbacks={}, undos={})))
    return begin_to_undo(forked, fact.execution_id) if fact.undoes else forked


def _without_commands(state: State, run: Run) -> Run:
    place = place_key(run.id, None)
    waits = place in state.waits or place in state.children
    if run.loop is not None or waits or run.resume_at is not None or not run.commands:
        return replace(run, commands={})
    # It was with a worker, or on its way to one.
    return replace(run, commands={}, status="waiting", resume_at="")
