"""What must hold of scopes and their ends, of pauses, milestones, waits and growing loops, whatever
happened on the way: each broken promise is a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from books import Book

from noetl.facts import events as e
from noetl.facts.events import Event

#: How runs end, but for those that were skipped.
ENDS = e.StepDone | e.StepFailed | e.StepCancelled
#: Of what ends by a defect or a limit nothing else is asked.
_BROKEN_OFF = ("internal", "limit")

#: A run, or one iteration of it.
Place = tuple[str, int | None]


def broken(events: list[Event], book: Book) -> Iterator[str]:
    """Promises that one execution of `book`, or of one that it calls, has not kept so far."""
    for promise in _PROMISES:
        yield from promise(events)
    yield from _tokens_of_cancelled(events, book)
    if _has_ended(events):
        yield from _undone(events)
        yield from _cleaned(events)
        yield from _regions_cleaned(events, book)


def _has_ended(events: list[Event]) -> bool:
    """Whether it has come to an end of its own, behind which nothing is owed."""
    ends = [event.fact for event in events if isinstance(event.fact, e.Processed | e.Cancelled)]
    error = getattr(ends[0], "error", None) if ends else None
    return bool(ends) and (error is None or error.kind not in _BROKEN_OFF)


# --- while it runs --------------------------------------------------------------------------------


def _paused(events: list[Event]) -> Iterator[str]:
    """While it is paused nothing begins and nothing comes."""
    paused = False
    for event in events:
        match event.fact:
            case e.Paused():
                paused = True
            case e.Resumed() | e.CancelRequested() | e.Closing() | e.Processed():
                paused = False
            case (
                e.StepScheduled()
                | e.CommandIssued()
                | e.TimerFired()
                | e.WaitMatched()
                | e.SlotGranted()
                | e.ChildRequested()
            ) if paused:
                yield f"{event.fact.type} of {event.draft.run_id} while the execution was paused"
            case _:
                pass


def _regions(events: list[Event]) -> Iterator[str]:
    """When a region has ended nothing of it runs, and a cancelled one begins nothing."""
    alive: dict[str, tuple[str, ...]] = {}
    cancelled: set[str] = set()
    released: set[str] = set()
    for event in events:
        run = event.draft.run_id or ""
        match event.fact:
            case e.RegionEntered(region=name):
                cancelled.discard(name)
            case e.RegionCancelled(region=name):
                cancelled.add(name)
            case e.StepScheduled(regions=around, handling=None):
                alive[run] = tuple(around)
                if not cancelled.isdisjoint(around):
                    yield f"{run} began in a region that was cancelled"
            case e.RegionEnded(region=name):
                yield from (f"region {name} ended while {run} ran" for run in alive if name in alive[run])
            case _ if _ends_run(event, released):
                alive.pop(run, None)


def _ending_regions(events: list[Event]) -> Iterator[str]:
    """While what is done behind its end runs, a region begins nothing and is not cancelled."""
    ending: set[str] = set()
    for event in events:
        match event.fact:
            case e.RegionEntered(region=name):
                ending.discard(name)
            case e.StepScheduled(handling=e.Handling(purpose="finally", region=name)):
                ending.add(name)
            case e.StepScheduled(regions=around, handling=None) if not ending.isdisjoint(around):
                yield f"{event.draft.run_id} began in a region that was about to end"
            case e.RegionCancelled(region=name) if name in ending:
                yield f"region {name} was cancelled while what is done behind its end ran"
            case _:
                pass


def _ends_run(event: Event, released: set[str]) -> bool:
    """Whether a run ends; `released` are those whose loops run on behind their steps."""
    run = event.draft.run_id or ""
    match event.fact:
        case e.StepDone(released=True):
            released.add(run)
            return False
        case e.LoopDone():
            return run in released
        case _:
            return isinstance(event.fact, e.StepDone | e.StepFailed | e.StepSkipped | e.StepCancelled)


def _undone_backwards(events: list[Event]) -> Iterator[str]:
    """What is undone at the end of an execution is so in the reverse order of its ends."""
    ended: dict[object, int] = {}
    last: tuple[int, str] | None = None
    for event in events:
        run, iteration = event.draft.run_id or "", event.draft.iteration
        match event.fact:
            case e.StepDone() | e.StepFailed() | e.StepCancelled():
                ended.setdefault((run, None), event.version)
            case e.IterationDone() | e.IterationFailed() | e.IterationCancelled():
                ended[run, iteration] = event.version
            case e.ChildEnded(child_id=str(child)):
                ended[child] = event.version
            case e.StepScheduled(handling=e.Handling(purpose="compensate", region="") as undone):
                at = ended.get((undone.run_id, undone.iteration), event.version)
                if last is not None and at > last[0]:
                    yield f"{undone.run_id} was undone behind {last[1]}, which had ended before"
                last = (at, undone.run_id)
            case e.ChildUndoRequested(undoes=child):
                if not _is_in_region(event, events):
                    if last is not None and ended[child] > last[0]:
                        yield f"execution {child} was undone behind {last[1]}, which had ended before"
                    last = (ended[child], child)
            case _:
                pass


def _is_in_region(undo: Event, events: list[Event]) -> bool:
    """Whether it was undone because of a region, before the execution came to its end."""
    return not any(isinstance(event.fact, e.Closing | e.Forked) for event in events[: undo.version])


def _milestones(events: list[Event]) -> Iterator[str]:
    """A step with a milestone begins after one step is done and before another one begins."""
    asked: dict[str, e.MilestoneEvaluated] = {}
    begun: set[str] = set()
    done: set[str] = {""}
    for event in events:
        step = event.draft.step or ""
        match event.fact:
            case e.MilestoneEvaluated() as fact:
                asked[step] = fact
            case e.StepScheduled():
                if (milestone := asked.get(step)) is not None:
                    if milestone.before in begun:
                        yield f"{event.draft.run_id} began after {milestone.before}, before which it has to"
                    if milestone.after not in done:
                        yield f"{event.draft.run_id} began before {milestone.after} was done"
                begun.add(step)
            case e.StepDone():
                done.add(step)
            case _:
                pass


def _terminated(events: list[Event]) -> Iterator[str]:
    """Once a step has ended the execution nothing else begins, or comes to an outcome."""
    alive: set[str] = set()
    by: str | None = None
    for event in events:
        run = event.draft.run_id or ""
        match event.fact:
            case e.NextEvaluated(terminates=str()) if by is None:
                by = run
            case e.StepScheduled(final=False, handling=None):
                alive.add(run)
                if by is not None:
                    yield f"{run} began after {by} had ended the execution"
            case e.StepCancelled() | e.StepSkipped():
                alive.discard(run)
            case e.StepDone() | e.StepFailed() | e.IterationDone() | e.TaskStarted():
                if by is not None and run in alive:
                    yield f"{event.fact.type} of {run} after {by} had ended the execution"
                if isinstance(event.fact, e.StepDone | e.StepFailed):
                    alive.discard(run)
            case _:
                pass


def _asked_once(events: list[Event]) -> Iterator[str]:
    """What an iteration brings is asked once, and an execution once to undo what it did."""
    groups = {
        "asked what they bring": (
            (event.draft.run_id, event.fact.from_index)
            for event in events
            if isinstance(event.fact, e.LoopGrown)
        ),
        "asked to be undone": (
            event.fact.undoes for event in events if isinstance(event.fact, e.ChildUndoRequested)
        ),
    }
    for word, things in groups.items():
        twice = [thing for thing, count in Counter(things).items() if count > 1]
        if twice:
            yield f"{word} twice: {twice}"


def _waited_once(events: list[Event]) -> Iterator[str]:
    """What has come is not waited for again, unless a policy says so."""
    come: set[tuple[Place, str]] = set()
    for event in events:
        place = (event.draft.run_id or "", event.draft.iteration)
        match event.fact:
            case e.WaitMatched(ends=True, task=task):
                come.add((place, task))
            case e.PolicyEvaluated(do="retry" | "jump"):
                come = {one for one in come if one[0] != place}
            case e.StepSuspended(wait=e.Wait(), task=task) | e.IterationSuspended(wait=e.Wait(), task=task):
                if (place, task) in come:
                    yield f"task {task} of {place} waits again for what had come"
            case _:
                pass


def _behind_loops(events: list[Event]) -> Iterator[str]:
    """No iteration comes to anything behind the end of its loop."""
    closed: set[str] = set()
    for event in events:
        run = event.draft.run_id or ""
        match event.fact:
            case e.LoopDone():
                closed.add(run)
            case e.IterationDone() | e.IterationFailed() | e.IterationCancelled() | e.LoopGrown():
                if run in closed:
                    yield f"{event.fact.type} of {run} behind the end of its loop"
            case _:
                pass


def _handled_once(events: list[Event]) -> Iterator[str]:
    """What undoes or cleans up runs once for each thing; where it was withdrawn, again."""
    withdrawn = {event.draft.run_id for event in events if isinstance(event.fact, e.StepCancelled)}
    entered: dict[str, int] = {}
    seen: Counter[tuple[object, ...]] = Counter()
    for event in events:
        match event.fact:
            case e.RegionEntered(region=name, number=number):
                entered[name] = number
            case e.StepScheduled(handling=e.Handling() as one) if event.draft.run_id not in withdrawn:
                seen[one.purpose, one.region, entered.get(one.region), one.run_id, one.iteration] += 1
            case _:
                pass
    yield from (f"handled {count} times: {what}" for what, count in seen.items() if count > 1)


def _tokens_of_cancelled(events: list[Event], book: Book) -> Iterator[str]:
    """What waits in a region when it is cancelled is skipped before that has ended."""
    lying: dict[str, str] = {}
    lost: dict[str, set[str]] = {}
    for event in events:
        _move_tokens(lying, event.fact)
        match event.fact:
            case e.RegionCancelled(region=name):
                lost[name] = {token for token, step in lying.items() if step in _steps_of(book, name)}
            case e.StepSkipped(tokens=ids):
                lost = {name: tokens.difference(ids) for name, tokens in lost.items()}
            case e.Closing():
                lost.clear()
            case e.RegionEnded(region=name) if left := lost.pop(name, set()):
                yield f"{sorted(left)} lay in region {name} when it was cancelled"
            case _:
                pass


def _move_tokens(lying: dict[str, str], fact: e.Fact) -> None:
    """Keeps where each token lies that nothing has taken."""
    match fact:
        case e.WorkflowStarted(tokens=tokens) | e.NextEvaluated(tokens=tokens):
            lying.update((one.id, one.step) for one in tokens if not one.absorbed)
        case e.StepScheduled(tokens=ids) | e.StepSkipped(tokens=ids) | e.JoinUnsatisfied(tokens=ids):
            for token in ids:
                lying.pop(token, None)
        case e.Closing():
            lying.clear()
        case _:
            pass


def _steps_of(book: Book, region: str) -> frozenset[object]:
    """The steps of a region, of whichever book has it."""
    found = (one.regions[region]["steps"] for one in (book, *book.others) if region in one.regions)
    return frozenset(step for steps in found for step in steps)  # type: ignore[union-attr]


_PROMISES: tuple[Callable[[list[Event]], Iterator[str]], ...] = (
    _paused,
    _regions,
    _ending_regions,
    _undone_backwards,
    _milestones,
    _terminated,
    _asked_once,
    _waited_once,
    _behind_loops,
    _handled_once,
)


# --- at its end -----------------------------------------------------------------------------------


@dataclass
class _Work:
    """What an execution has done that may have to be undone, or be cleaned up behind."""

    begun: dict[str, e.StepScheduled] = field(default_factory=dict)
    loops: set[str] = field(default_factory=set)
    over: dict[str, e.Fact] = field(default_factory=dict)
    done: set[Place] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)

    def add(self, event: Event) -> None:
        run, fact = event.draft.run_id or "", event.fact
        if isinstance(fact, e.StepScheduled):
            self.begun[run] = fact
        elif isinstance(fact, e.LoopStarted):
            self.loops.add(run)
        elif run in self.over or run not in self.begun:
            return
        elif isinstance(fact, e.IterationDone):
            self.done.add((run, event.draft.iteration))
        elif isinstance(fact, e.ChildEnded) and fact.undoable and self._is_work(run):
            self.calls.add(fact.child_id or "")
        elif isinstance(fact, ENDS) and not getattr(fact, "released", False):
            self.over[run] = fact
            if isinstance(fact, e.StepDone) and run not in self.loops:
                self.done.add((run, None))

    def _is_work(self, run: str) -> bool:
        return self.begun[run].handling is None and not self.begun[run].final


def _find_work(events: list[Event]) -> _Work:
    work = _Work()
    for event in events:
        work.add(event)
    return work


def _handlings(events: list[Event], purpose: str) -> list[e.Handling]:
    return [
        event.fact.handling
        for event in events
        if isinstance(event.fact, e.StepScheduled)
        and event.fact.handling is not None
        and event.fact.handling.purpose == purpose
    ]


def _undone(events: list[Event]) -> Iterator[str]:
    """Of an execution that has failed or was cancelled all is undone that says how."""
    if not any(_undoes_all(event.fact) for event in events):
        return
    work = _find_work(events)
    undone: set[Place] = {(one.run_id, one.iteration) for one in _handlings(events, "compensate")}
    wanted = {place for place in work.done if work.begun[place[0]].undo}
    if left := sorted(wanted - undone, key=str):
        yield f"{left} were not undone"
    asked = {
        event.fact.undoes for event in events if isinstance(event.fact, e.ChildUndoRequested | e.ChildUndone)
    }
    if missed := sorted(work.calls - asked):
        yield f"executions {missed} were not undone"


def _undoes_all(fact: e.Fact) -> bool:
    match fact:
        case e.Closing(status=status) | e.Processed(status=status):
            return status in ("failed", "cancelled")
        case e.Cancelled() | e.Forked(undoes=True):
            return True
        case _:
            return False


def _cleaned(events: list[Event]) -> Iterator[str]:
    """Behind each end of a run comes what has to be done then."""
    work = _find_work(events)
    cleaned = {one.run_id for one in _handlings(events, "finally")}
    wanted = {run for run in work.over if work.begun[run].cleanup}
    if left := sorted(wanted - cleaned):
        yield f"{left} were not cleaned up"


def _regions_cleaned(events: list[Event], book: Book) -> Iterator[str]:
    """The same of regions, each time that they were entered."""
    regions = {
        name for one in (book, *book.others) for name in one.regions if one.regions[name].get("finally")
    }
    entered = Counter(event.fact.region for event in events if isinstance(event.fact, e.RegionEntered))
    cleaned = Counter(one.region for one in _handlings(events, "finally"))
    for name in sorted(regions):
        if cleaned[name] < entered[name]:
            yield f"region {name} was entered {entered[name]} times and cleaned up {cleaned[name]} times"
