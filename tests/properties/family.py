"""What must hold between an execution and those that it calls."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from types import UnionType

from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.testing import Simulation
from noetl.usecases import inspect
from noetl.usecases.ports import ENDED


def caller(sim: Simulation, run: str) -> e.Parent | None:
    """Who called `run`, as its own log says."""
    (first,) = inspect.events(sim.rt, run, limit=1)
    fact = first.fact
    return fact.parent if isinstance(fact, e.Requested) else None


def lineage(sim: Simulation, parent: e.Parent) -> str:
    """The place of a call, and of the calls that led to it."""
    above = caller(sim, parent.execution_id)
    beginning = "" if above is None else f"{lineage(sim, above)}/"
    return f"{beginning}{parent.run_id}/{parent.iteration}/{parent.task}"


def broken(sim: Simulation, run: str, width_of: Callable[[str], int] | None) -> Iterator[str]:
    """Promises that are not kept between `run`, its caller and its children. `width_of` a run
    bounds its calls; None where leases ran out under workers."""
    events = sim.events(run)
    yield from _made(sim, run, events)
    yield from _called_once(events)
    if width_of is not None:
        yield from _at_once(events, width_of)
    parent = caller(sim, run)
    if parent is None or parent.detached:
        return
    requests = [
        one
        for one in _of(sim.events(parent.execution_id), e.ChildRequested | e.ChildUndoRequested)
        if one.fact.child_id == run  # type: ignore[union-attr]
    ]
    if len(requests) != 1:
        yield f"child {run} has {len(requests)} records in its caller's log"


def _made(sim: Simulation, run: str, events: list[Event]) -> Iterator[str]:
    """Every record of a child has a child, which ends no later than somebody ceases to wait for
    it."""
    ended = {one.fact.child_id: one.fact for one in _of(events, e.ChildEnded)}  # type: ignore[union-attr]
    with sim.rt.store.read() as tx:
        mine, rows = tx.executions.get(run), {}
        for one in _of(events, e.ChildRequested):
            child = one.fact.child_id  # type: ignore[union-attr]
            told = tx.commands.get(f"{run}/cancel/{child}") is not None
            rows[child] = (tx.executions.get(child), one.fact.detached, told)  # type: ignore[union-attr]
    assert mine is not None
    for child, (row, detached, told) in rows.items():
        if row is None:
            yield f"child {child} is recorded and was never made"
        elif row.parent_id != run:
            yield f"child {child} belongs to {row.parent_id}"
        elif child in ended and row.status != ended[child].status:
            yield f"child {child} was said to be {ended[child].status} and is {row.status}"
        elif not detached and row.status in ENDED and mine.status not in ENDED and child not in ended:
            yield f"a caller waits for child {child}, which has ended"
        elif not detached and row.status not in ENDED and mine.status in ENDED:
            yield f"child {child} outlives its caller"
        elif not detached and mine.status in ENDED and child not in ended and not told:
            yield f"child {child} was not told that nobody waits for it"
    twice = [
        child for child, n in Counter(one.fact.child_id for one in _of(events, e.ChildEnded)).items() if n > 1
    ]  # type: ignore[union-attr]
    if twice and twice != [None]:
        yield f"heard twice: {twice}"


def _called_once(events: list[Event]) -> Iterator[str]:
    """A task that has left its worker for a call gets one child for it."""
    waiting: Counter[tuple[str | None, int | None]] = Counter()
    for event in events:
        place = (event.draft.run_id, event.draft.iteration)
        match event.fact:
            case e.StepSuspended(child=e.ChildCall()) | e.IterationSuspended(child=e.ChildCall()):
                waiting[place] += 1
            case e.ChildRequested() | e.ChildEnded(child_id=None):
                waiting[place] -= 1
            case _:
                continue
        if waiting[place] not in (0, 1):
            yield f"{event.fact.type} at {place} without a call of its own"


def _at_once(events: list[Event], width_of: Callable[[str], int]) -> Iterator[str]:
    """Children that a run waits for are never more than its slots."""
    alive: Counter[str] = Counter()
    for event in events:
        run = event.draft.run_id or ""
        match event.fact:
            case e.ChildRequested(detached=False):
                alive[run] += 1
            case e.ChildEnded(child_id=str()):
                alive[run] -= 1
        if alive[run] > width_of(run):
            yield f"{alive[run]} children of {run} at once, {width_of(run)} allowed"
            return


def _of(events: list[Event], kind: type | UnionType) -> Iterator[Event]:
    return (event for event in events if isinstance(event.fact, kind))
