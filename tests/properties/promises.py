"""What must hold of an execution whatever happened on its way: each broken promise is a
sentence."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import family
import scope_promises
from books import Book
from world import World

from noetl.engine.evolve import evolve
from noetl.engine.state import State, initial_state
from noetl.errors import VersionConflict
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.json import Json, JsonMap
from noetl.pipeline.model import Call
from noetl.testing import Simulation
from noetl.usecases import catalog, snapshots
from noetl.usecases.ports import ENDED

ENDS = (e.StepDone, e.StepFailed, e.StepCancelled)
ITERATION_ENDS = (e.IterationDone, e.IterationFailed, e.IterationCancelled)


@dataclass(frozen=True)
class Outcome:
    """What people see of an execution that has ended, and whose effects it had."""

    status: str
    ctx: JsonMap
    steps: JsonMap
    result: Json
    effects: frozenset[str] = field(default_factory=frozenset)


def undisturbed(book: Book, tools: dict[str, object]) -> Outcome:
    """The outcome where nothing goes wrong."""
    sim = Simulation(book.text, tools)  # type: ignore[arg-type]
    for other in book.others:
        catalog.register(sim.rt, other.text)
    report = sim.run()
    return Outcome(report.row.status, report.ctx, report.steps, report.result, effects(sim, sim.tools.calls))


def effects(sim: Simulation, calls: Iterable[Call]) -> frozenset[str]:
    """What calls did, by name: that of executions that were called is made of the place that called
    them, because their ids are not the same in every world."""
    places: dict[str, str] = {}
    found = set()
    for call in calls:
        where = call.where
        if where.execution_id not in places:
            parent = family.caller(sim, where.execution_id)
            places[where.execution_id] = "" if parent is None else family.lineage(sim, parent)
        place = places[where.execution_id]
        own = f"{place}/{where.run_id}/{where.iteration}/{call.task}"
        found.add(own if place else call.idempotency_key)
    return frozenset(found)


def broken(world: World, book: Book, expected: Outcome | None = None) -> list[str]:
    """Every promise that the world did not keep. `expected` is given where the outcome is
    certain."""
    found = [f"a process failed with {failure!r}" for failure in world.failures]
    for run in world.everybody():
        found += _of_execution(world, run)
        found += scope_promises.broken(world.sim.events(run), book)
        found += family.broken(world.sim, run, None if world.expired else book.width_of)
    for run in world.started:
        if expected is not None:
            found += _different(world, run, expected)
    if not world.expired:
        found += _too_many(world, book)
    return found


def _of_execution(world: World, run: str) -> Iterator[str]:
    events = world.sim.events(run)
    row = world.sim.report(run).row
    yield from _versions(events)
    yield from _once(events)
    yield from _fan_in(events)
    yield from _cancelled(events)
    yield from _replays(world, run, events)
    if row.status not in ENDED:
        yield f"execution {run} is still {row.status}"
        return
    yield from _terminal(events)
    with world.store.read() as tx:
        left, slots = tx.commands.open_of(run), tx.slots.of_executions([run])
    if left:
        yield f"commands are still open after the end: {[one.command_id for one in left]}"
    if held := [one.key for one in slots if one.per_s is None]:
        yield f"slots are held after the end: {held}"
    if row.error is not None and row.error["kind"] == "internal":
        yield f"a decision failed: {row.error['message']}"
    if row.head_version != row.decided_version or row.next_wake_at is not None:
        yield "a turn is owed after the end"


def _versions(events: list[Event]) -> Iterator[str]:
    if [event.version for event in events] != list(range(1, len(events) + 1)):
        yield "versions have gaps"


def _terminal(events: list[Event]) -> Iterator[str]:
    ends = [event for event in events if isinstance(event.fact, (e.Processed, e.Cancelled))]
    if len(ends) != 1:
        yield f"the execution ended {len(ends)} times"
    late = [
        event.fact.type
        for event in events[ends[0].version :]
        if not isinstance(event.fact, (e.ResultDiscarded, e.TaskAbandoned))
    ]
    if late:
        yield f"facts after the end: {late}"


def _once(events: list[Event]) -> Iterator[str]:
    """Runs are scheduled, end and route once; iterations end once; commands are issued once."""
    groups: list[tuple[str, Iterable[object]]] = [
        ("scheduled", (d.run_id for d in _drafts(events, e.StepScheduled))),
        ("ended", (d.run_id for d in _drafts(events, *ENDS) if not getattr(d.fact, "released", False))),
        ("released", (d.run_id for d in _drafts(events, e.StepDone) if getattr(d.fact, "released", False))),
        ("closed", (d.run_id for d in _drafts(events, e.LoopDone))),
        ("routed", (d.run_id for d in _drafts(events, e.NextEvaluated))),
        ("ended as iteration", ((d.run_id, d.iteration) for d in _drafts(events, *ITERATION_ENDS))),
        ("fanned out", (d.run_id for d in _drafts(events, e.LoopStarted))),
        ("issued", (d.fact.command_id for d in _drafts(events, e.CommandIssued))),  # type: ignore[union-attr]
        ("recorded", (event.draft.dedup_key for event in events if event.draft.dedup_key)),
    ]
    for word, things in groups:
        twice = [thing for thing, count in Counter(things).items() if count > 1]
        if twice:
            yield f"{word} twice: {twice}"


def _drafts(events: list[Event], *facts: type) -> Iterator[e.Draft]:
    return (event.draft for event in events if isinstance(event.fact, facts))


def _fan_in(events: list[Event]) -> Iterator[str]:
    """A loop that went well closes after all its iterations; one that closes has them ended or
    stopped, or cancelled as those that nobody waits for."""
    counts: dict[str, int] = {}
    ended: Counter[str] = Counter()
    cut: set[str] = set()
    for event in events:
        run = event.draft.run_id or ""
        if isinstance(event.fact, e.LoopStarted):
            counts[run] = event.fact.count
        elif isinstance(event.fact, e.LoopClaimed | e.LoopGrown):
            counts[run] += event.fact.count
        elif isinstance(event.fact, ITERATION_ENDS):
            ended[run] += 1
        elif isinstance(event.fact, e.LoopDone) and event.fact.cut:
            cut.add(run)
        elif _is_whole(event.fact) and run not in cut and ended[run] != counts.get(run, ended[run]):
            yield f"early fan-in: {run} is done after {ended[run]} of {counts[run]} iterations"


def _is_whole(fact: e.Fact) -> bool:
    """Whether it says that all of a loop went well."""
    return isinstance(fact, e.StepDone) and not fact.released


def _cancelled(events: list[Event]) -> Iterator[str]:
    """A cancellation is the end: nothing is started after it but what is done at the end."""
    asked = next((event.version for event in events if isinstance(event.fact, e.CancelRequested)), None)
    if asked is None:
        return
    later = [event.fact for event in events[asked:]]
    begun = [fact for fact in later if isinstance(fact, e.StepScheduled)]
    if any(fact.handling is None and not fact.final for fact in begun):
        yield "a step was scheduled after the cancellation"
    if any(isinstance(fact, e.Processed) for fact in later):
        yield "a cancelled execution ended as if it had not been"


def _replays(world: World, run: str, events: list[Event]) -> Iterator[str]:
    """Folding the log gives, at every cut that a scheduler has seen, the state it had."""
    state = initial_state(run)
    for event in events:
        if event.version != state.version + 1:
            raise VersionConflict(run, state.version + 1, event.version)
        state = evolve(state, event.draft)
        seen = world.seen.get((run, event.version))
        if seen is not None and seen != state:
            yield f"the state kept at version {event.version} is not what the log says"
            return
    if through_json(state) != state:
        yield "the state does not survive its snapshot"


def through_json(state: State) -> State:
    return snapshots.from_json(json.loads(json.dumps(snapshots.to_json(state))))


def _different(world: World, run: str, expected: Outcome) -> Iterator[str]:
    report = world.sim.report(run)
    seen = (report.row.status, report.ctx, report.steps, report.result)
    wanted = (expected.status, expected.ctx, expected.steps, expected.result)
    for what, one, other in zip(("status", "ctx", "steps", "result"), seen, wanted, strict=True):
        if one != other:
            yield f"the {what} is {one}, undisturbed {other}"
    if len(world.started) > 1:
        return
    had = effects(world.sim, world.measured.effects)
    if had != expected.effects:
        yield f"effects without need {len(had - expected.effects)}, missing {len(expected.effects - had)}"


def _too_many(world: World, book: Book) -> Iterator[str]:
    """No lease ran out, so `max_in_flight` held at every moment."""
    for (_, run), most in world.measured.most.items():
        width = book.width_of(run)
        if most > width:
            yield f"{most} calls of {run} at once, {width} allowed"
    for (_, run), order in world.iterations_by_run().items():
        if run.split("#")[0] in book.all_sequential and order != sorted(order):
            yield f"the iterations of {run} ran in the order {order}"
