"""What is undone when a scope fails or is cancelled: runs that have something to be undone, and the
runs that do so, one after another, the latest first."""

from __future__ import annotations

from dataclasses import replace
from typing import assert_never

from noetl.engine.inputs import Inputs
from noetl.engine.iterations import find_begun, item_at
from noetl.engine.run_state import LoopState, Run
from noetl.engine.scope_state import Undoable
from noetl.engine.state import State
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.scopes import Handling
from noetl.net.model import Region

# --- folding --------------------------------------------------------------------------------------


def remember_run(state: State, run: Run) -> State:
    """Keeps of a run that has ended what has to be undone of it."""
    if not run.undo:
        return state
    left = _find_iterations(run, run.loop) if run.loop is not None else None
    if left == 0 or (left is None and run.status != "done" and run.undo != "started"):
        return state
    loop = run.loop
    kept = Undoable(
        run.id,
        run.step,
        state.version,
        run.status,
        run.args,
        result=run.result if loop is None else None,
        error=run.error,
        items=None if loop is None else loop.items,
        added=() if loop is None else loop.added,
        results=None if loop is None else loop.results,
        left=left,
    )
    return replace(state, undoable=(*state.undoable, kept))


def _find_iterations(run: Run, loop: LoopState) -> int:
    """The iterations, as bits, of which something has to be undone."""
    done = loop.ended & ~(loop.failed | loop.cancelled)
    if run.undo != "started":
        return done
    begun = sum(1 << index for index in find_begun(run.issues, loop))
    return done | loop.failed | loop.started | begun


def fold_handled(state: State, run: Run) -> State:
    """A handler has ended, however it has; one that was withdrawn runs again."""
    handling = run.handling
    if handling is None or run.withdrawn:
        return state
    match handling.purpose:
        case "compensate":
            kept = (_without(one, handling) for one in state.undoable)
            return replace(state, undoable=tuple(one for one in kept if one is not None))
        case "on_cancel" | "finally" if handling.region:
            now = state.regions[handling.region]
            now = replace(now, ran=(*now.ran, handling.purpose))
            return replace(state, regions={**state.regions, handling.region: now})
        case "on_cancel":
            return replace(state, on_cancel_ran=True)
        case "finally":
            return state
        case _:
            assert_never(handling.purpose)


def _without(one: Undoable, handling: Handling) -> Undoable | None:
    if one.run_id != handling.run_id:
        return one
    left = 0 if one.left is None or handling.iteration is None else one.left & ~(1 << handling.iteration)
    return replace(one, left=left) if left else None


# --- deciding -------------------------------------------------------------------------------------


def next_undoable(state: State, region: Region | None = None) -> Undoable | None:
    """What is to be undone next; of a `region` since it was entered."""
    if region is None:
        return state.undoable[-1] if state.undoable else None
    since = state.regions[region.name].version
    own = (one for one in reversed(state.undoable) if one.step in region.steps and one.version > since)
    return next(own, None)


def handling_of(one: Undoable, region: str = "") -> Handling:
    """What undoes it, or of its iterations the last one."""
    return Handling("compensate", region, one.run_id, None if one.left is None else one.left.bit_length() - 1)


def describe_undoable(one: Undoable, iteration: int | None, inputs: Inputs) -> JsonMap:
    """`{of, run, iteration, item, given, result, status, error}`: what the run that undoes it is
    given."""
    error: ErrorInfo | None = one.error if iteration is None else None
    result, item, status = one.result, None, one.status
    if iteration is not None:
        result = None if one.results is None else one.results[iteration]
        item, status = inputs.hold(item_at(one.items, one.added, iteration, inputs)), "done"
    return {
        "of": one.step,
        "run": one.run_id,
        "iteration": iteration,
        "item": item,
        "given": one.args,
        "result": result,
        "status": status,
        "error": None if error is None else error.as_json(),
    }
