"""Calls of playbooks: which run waits for which child execution, and when a child is requested.

A task that calls a playbook leaves its worker (`step.suspended` with the call). The scheduler makes
the child (`child.requested`), and resumes the task when that has come to an end
(`child.ended`).
"""

from __future__ import annotations

from collections.abc import Container, Iterator
from datetime import datetime
from typing import assert_never

from noetl.engine.changes import replace
from noetl.engine.inputs import Inputs, Playbook
from noetl.engine.run_state import Run
from noetl.engine.state import State
from noetl.engine.suspensions import place_key, resume_place, wait_place
from noetl.engine.undoing import remember_call
from noetl.engine.wait_state import Child
from noetl.facts import events as e
from noetl.facts.events import Draft
from noetl.facts.fingerprint import fingerprint
from noetl.facts.ids import child_id
from noetl.facts.lineage import RetryOf
from noetl.facts.nearest import did_you_mean
from noetl.facts.outcome import ErrorInfo

# --- folding --------------------------------------------------------------------------------------


def waits_for_child(
    state: State, run: Run, iteration: int | None, fact: e.StepSuspended | e.IterationSuspended
) -> State:
    """`run`, or one of its iterations, has left its worker until the playbook that it calls has
    ended."""
    assert fact.child is not None, "it called one"
    number = run.issues.get("-" if iteration is None else f"i{iteration}", 0)
    child = Child(run.id, run.step, iteration, fact.task, fact.child, number, fact.due_at)
    state = wait_place(state, run, iteration)
    return replace(state, children={**state.children, place_key(run.id, iteration): child})


def fold_child(state: State, fact: e.ChildFact, draft: Draft) -> State:
    key = place_key(draft.run_id or "", draft.iteration)
    child = state.children.get(key)
    if child is None:
        return state
    match fact:
        case e.ChildRequested(detached=False):
            return replace(state, children={**state.children, key: replace(child, id=fact.child_id)})
        case e.ChildWaiting():
            if child.id != fact.child_id or fact.at <= child.heard:
                return state
            child = replace(child, waits=fact.waiting, heard=fact.at)
            return replace(state, children={**state.children, key: child})
        case e.ChildRequested() | e.ChildEnded():
            state = remember_call(state, child, fact) if isinstance(fact, e.ChildEnded) else state
            left = {name: other for name, other in state.children.items() if name != key}
            return resume_place(replace(state, children=left), child.run_id, child.iteration)
        case _:
            assert_never(fact)


def drop_children(state: State, run_id: str) -> State:
    """`run_id` waits for no child any more."""
    if not state.children:
        return state
    left = {key: child for key, child in state.children.items() if child.run_id != run_id}
    return replace(state, children=left)


def drop_child(state: State, run_id: str, iteration: int) -> State:
    """That iteration waits for no child any more."""
    gone = place_key(run_id, iteration)
    if gone not in state.children:
        return state
    return replace(state, children={key: one for key, one in state.children.items() if key != gone})


def only_waits(state: State) -> bool:
    """Whether all that runs waits for somebody outside: for a signal, a change of ctx, or an
    execution that was called and does."""
    return all(_only_waits(state, run) for run in state.runs.values())


def _only_waits(state: State, run: Run) -> bool:
    loop = run.loop
    if loop is None:
        return _waits(state, run.id, None)
    if loop.only_open:
        return True
    # With a slot and an index left, a lane is at work or about to be.
    full = len(loop.calling) >= loop.max_in_flight or loop.ended.bit_count() + len(loop.calling) == loop.count
    return full and bool(loop.calling) and all(_waits(state, run.id, index) for index in loop.calling)


def _waits(state: State, run_id: str, iteration: int | None) -> bool:
    key = place_key(run_id, iteration)
    if (wait := state.waits.get(key)) is not None:
        return wait.needs_somebody
    child = state.children.get(key)
    return child is not None and child.waits and child.due_at is None


# --- deciding -------------------------------------------------------------------------------------


def request_children(state: State, inputs: Inputs, ending: Container[str] = ()) -> list[Draft]:
    """The calls that are not answered yet: each is a child, or an error. Runs that are `ending` get
    none."""
    calls = (child for child in state.children.values() if child.id is None)
    wanted = [
        child
        for child in calls
        if child.run_id not in ending and (not state.stopping or state.runs[child.run_id].final)
    ]
    return [_request(state, inputs, child, number) for number, child in enumerate(wanted)]


def end_overdue(state: State, now: datetime) -> list[Draft]:
    """Ends the calls whose time is over. How the child ends does not count any more."""
    return [
        _end_overdue(child)
        for child in state.children.values()
        if child.due_at and datetime.fromisoformat(child.due_at) <= now
    ]


def _end_overdue(child: Child) -> Draft:
    message = (
        f"Playbook {child.call.path!r} (execution {child.id}) did not end within the timeout of its task."
    )
    error = ErrorInfo("timeout", message, type="ChildTimeout", retryable=True)
    fact = e.ChildEnded(child.task, child.id, "cancelled", error=error)
    return _draft(child, fact, child.id or _place(child))


def find_next_due(state: State) -> datetime | None:
    """When the first of the calls times out."""
    due = (child.due_at for child in state.children.values() if child.due_at)
    return min(map(datetime.fromisoformat, due), default=None)


def _place(child: Child) -> str:
    return f"{place_key(child.run_id, child.iteration)}/{child.number}"


def _request(state: State, inputs: Inputs, child: Child, number: int) -> Draft:
    found = _find_called(state, inputs, child.call)
    if isinstance(found, ErrorInfo):
        return _refuse(child, found)
    name = child_id(inputs.now, inputs.turn, inputs.place + state.version + number)
    key = found.take_call(child.call.payload, name)
    if isinstance(key, ErrorInfo):
        return _refuse(child, key)
    retry = _find_earlier(state, inputs, child)
    fact = e.ChildRequested(
        child.task, name, found.path, found.version, found.digest, child.call.detached, retry, key
    )
    return _draft(child, fact, _place(child))


def _refuse(child: Child, error: ErrorInfo) -> Draft:
    return _draft(child, e.ChildEnded(child.task, None, "failed", error=error), _place(child))


def _find_earlier(state: State, inputs: Inputs, child: Child) -> RetryOf | None:
    """The execution that the same call made in the execution that is run again: what stands of it
    stands in this one. Of several the one that was handed the same."""
    run = state.runs[child.run_id]
    if inputs.source is None or run.reuse is None or not run.takes:
        return None
    recorded = inputs.source.calls(inputs.source.runs[run.reuse.run_id or ""])
    calls = [one for one in recorded if (one.task, one.call.path) == (child.task, child.call.path)]
    payload = fingerprint(child.call.payload, state.execution_id)
    same = [one for one in calls if fingerprint(one.call.payload, one.execution_id) == payload]
    found = same or ([] if run.loop is not None else calls)
    return RetryOf(found[-1].child_id) if found else None


def _find_called(state: State, inputs: Inputs, call: e.ChildCall) -> Playbook | ErrorInfo:
    if depth_below(state) >= inputs.max_depth:
        message = (
            f"Playbook {call.path!r} was not called: {inputs.max_depth} executions deep, each called by "
            "the one before, is the limit. Does a playbook call itself?"
        )
        return ErrorInfo("limit", message, type="CallDepth")
    found = inputs.playbook(call.path, call.version)
    name = call.return_step
    if isinstance(found, ErrorInfo):
        return found
    if name is None or name in found.steps:
        return found
    message = (
        f"Playbook {found.path!r} was not called: its version {found.version} has no step {name!r} to return."
        f"{did_you_mean(name, found.steps)}"
    )
    return ErrorInfo("client_error", message, type="UnknownStep")


def depth_below(state: State) -> int:
    """How deep below the first caller a child of this execution is; 1 where no other called it."""
    return 1 + (state.parent.depth if state.parent else 0)


def _draft(child: Child, fact: e.ChildRequested | e.ChildEnded, key: str) -> Draft:
    return Draft(
        fact, step=child.step, run_id=child.run_id, iteration=child.iteration, dedup_key=f"child:{key}"
    )


def call_of(state: State, draft: Draft) -> Child:
    """The call that a `child.requested` answers, before it is folded."""
    return state.children[place_key(draft.run_id or "", draft.iteration)]


def find_dropped_children(before: State, after: State) -> Iterator[Child]:
    """Children that `before` waited for and `after`, one decision later, does not: their results
    are not wanted any more."""
    if before.children is not after.children:
        for key, child in before.children.items():
            if child.id is not None and key not in after.children:
                yield child
