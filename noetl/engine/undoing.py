"""What is undone when a scope fails or is cancelled: runs that have something to be undone, and the
runs that do so, one after another, the latest first. Executions that were called undo themselves
what they have done: each in a fork of its end, as one of what is undone here."""

from __future__ import annotations

from typing import assert_never

from noetl.engine.changes import replace
from noetl.engine.inputs import Inputs
from noetl.engine.iterations import find_begun, item_at, members
from noetl.engine.run_state import LoopState, Run, RunStatus
from noetl.engine.scope_state import Undoable, UndoableCall, UndoableIteration
from noetl.engine.state import State
from noetl.engine.wait_state import Child
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.ids import child_id
from noetl.facts.json import JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.scopes import Handling
from noetl.net.model import Region

# --- folding --------------------------------------------------------------------------------------


def remember_run(state: State, run: Run) -> State:
    """Keeps of a run that has ended what has to be undone of it."""
    if not run.undo:
        return state
    left = _find_iterations(run, run.loop, state.version) if run.loop is not None else None
    if left == () or (left is None and run.status != "done" and run.undo != "started"):
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


def remember_call(state: State, child: Child, fact: e.ChildEnded) -> State:
    """Keeps of an execution that was called, and has ended well, that it undoes what it has done.
    What handlers do is not undone."""
    run = state.runs.get(child.run_id)
    if not fact.undoable or fact.child_id is None or run is None or run.final:
        return state
    call = UndoableCall(child.run_id, child.step, child.iteration, child.task, fact.child_id, state.version)
    return replace(state, undoable=(*state.undoable, call))


def fold_undo(state: State, fact: e.UndoFact) -> State:
    match fact:
        case e.ChildUndoRequested():
            return replace(state, undos={**state.undos, fact.undoes: fact.child_id})
        case e.ChildUndone():
            undos = {one: by for one, by in state.undos.items() if one != fact.undoes}
            left = (one for one in state.undoable if execution_of(one) != fact.undoes)
            return replace(state, undos=undos, undoable=tuple(left))
        case _:
            assert_never(fact)


def execution_of(one: Undoable | UndoableCall) -> str | None:
    """The execution that is undone, which a task had called; None for a run."""
    return one.execution_id if isinstance(one, UndoableCall) else None


def begin_to_undo(state: State, execution_id: str) -> State:
    """A fork of what has ended is about to end as well, in a way of its own: what its runs have
    done is undone, and nothing else follows."""
    return replace(
        state,
        undoes=execution_id,
        closing="cancelled",
        on_cancel_ran=True,
        final_ran=True,
        tokens={},
        failures=(),
        termination=None,
        paused_steps=(),
    )


def _find_iterations(run: Run, loop: LoopState, version: int) -> tuple[UndoableIteration, ...]:
    """The iterations of which something has to be undone, in the order in which they ended. Those
    that had not ended did with the run, at `version`."""
    found = loop.ended & ~(loop.failed | loop.cancelled)
    if run.undo == "started":
        found |= loop.failed | loop.started | sum(1 << index for index in find_begun(run.issues, loop))
    undoable = (
        UndoableIteration(int(loop.ended_at[index] or version), index, _status_of(loop, index))
        for index in members(found)
    )
    return tuple(sorted(undoable, key=lambda one: (one.version, one.index)))


def _status_of(loop: LoopState, index: int) -> RunStatus:
    """How an iteration of a run that has ended did; one that had only begun was cancelled with
    it."""
    bit = 1 << index
    if loop.failed & bit:
        return "failed"
    return "done" if loop.ended & ~loop.cancelled & bit else "cancelled"


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


def _without(one: Undoable | UndoableCall, handling: Handling) -> Undoable | UndoableCall | None:
    if isinstance(one, UndoableCall) or one.run_id != handling.run_id:
        return one
    left = tuple(part for part in one.left or () if part.index != handling.iteration)
    return replace(one, left=left) if left else None


# --- deciding -------------------------------------------------------------------------------------


def next_undoable(state: State, region: Region | None = None) -> Undoable | UndoableCall | None:
    """What is to be undone next, the latest first; of a `region` since it was entered."""
    left = state.undoable
    if region is not None:
        since = state.regions[region.name].version
        left = tuple(one for one in left if one.step in region.steps and one.version > since)
    return max(left, key=lambda one: one.latest, default=None)


def undoes_in(state: State, region: Region) -> bool:
    """Whether an execution that was called in the region undoes what it has done."""
    return any(one.step in region.steps and execution_of(one) in state.undos for one in state.undoable)


def request_undo(state: State, inputs: Inputs, one: UndoableCall) -> list[Draft]:
    """Has an execution that was called undo what it has done. Whoever asks waits for that."""
    undone = one.execution_id
    new_id = child_id(inputs.now, inputs.turn, inputs.place + state.version)
    fact: e.UndoFact = e.ChildUndoRequested(one.task, new_id, undone)
    if obstacle := inputs.prepare_undo(one, new_id):
        message = f"Execution {undone}, which task {one.task!r} had called, was not undone: {obstacle}."
        fact = e.ChildUndone(one.task, None, undone, ErrorInfo("child", message, type="NotUndone"))
    return [
        Draft(
            fact,
            step=one.step,
            run_id=one.run_id,
            iteration=one.iteration,
            dedup_key=f"undo:{undone}/{new_id}",
        )
    ]


def handling_of(one: Undoable, region: str = "") -> Handling:
    """What undoes it, or of its iterations the one that ended last."""
    return Handling("compensate", region, one.run_id, one.left[-1].index if one.left else None)


def describe_undoable(one: Undoable, inputs: Inputs) -> JsonMap:
    """`{of, run, iteration, item, given, result, status, error}`: what the run is given that undoes
    it, or of its iterations the one that ended last."""
    iteration: int | None = None
    result, item, status, error = one.result, None, one.status, one.error
    if one.left:
        iteration, status, error = one.left[-1].index, one.left[-1].status, None
        result = None if one.results is None else one.results[iteration]
        item = inputs.hold(item_at(one.items, one.added, iteration, inputs))
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
