"""What stands of a run of the execution that is run again: copies of its events, in their order.

Copies are appended in the order of the versions that they had, over all runs that stand, so that
the last to write, the first at a join and the winner of a wait are the same.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from operator import attrgetter
from typing import Final

from noetl.engine.callbacks import find_calls, tasks_handing_over
from noetl.engine.inputs import Inputs
from noetl.engine.plan import Plan
from noetl.engine.reuse import find_changed_playbook
from noetl.engine.run_state import LoopState, Run
from noetl.engine.source import Copy, RunCopies, SourceLog, SourceRun
from noetl.engine.state import State
from noetl.engine.tokens import Enabled
from noetl.facts import events as e
from noetl.facts.callbacks import call_key
from noetl.facts.events import Draft, Event
from noetl.facts.fingerprint import fingerprint
from noetl.facts.json import Json
from noetl.facts.lineage import Reuse
from noetl.facts.reference import load_value
from noetl.net.model import Transition

#: Kinds of errors after which nobody knows whether the call had an effect.
UNKNOWN: Final = frozenset({"timeout", "connection"})

#: Events of a pipeline that are its progress; the others tell how it came about there.
_PROGRESS: Final = (
    e.TaskDone,
    e.TaskFailed,
    e.AttemptFailed,
    e.TaskCheckpointed,
    e.PolicyEvaluated,
    e.VariablesSet,
    e.TaskLoopStarted,
    e.TaskItemDone,
    e.TaskItemFailed,
    e.TaskCallDone,
    e.TaskCallFailed,
)
#: The end of a run or of an iteration.
_RUN_ENDS: Final = (e.StepDone, e.StepFailed, e.IterationDone, e.IterationFailed)
#: Behind such an event nothing of its task is left to be done, or of the item or call of it.
_ENDS: Final = (e.TaskDone, e.TaskFailed, e.TaskItemDone, e.TaskItemFailed, e.TaskCallDone)


def _find_last_end(events: Sequence[Event]) -> int:
    """How many of the events there are up to the end of the last task, item or call that has one,
    with what was decided and assigned there."""
    at = max((at for at, one in enumerate(events, 1) if isinstance(one.fact, _ENDS)), default=0)
    task = getattr(events[at - 1].fact, "task", "") if at else ""
    while 0 < at < len(events) and _belongs(events[at], task):
        at += 1
    return at


def _keep_since(event: Event) -> Event | None:
    """Since when a task waits that left its worker with this event; None where it did not."""
    match event.fact:
        case (
            e.StepSuspended(task=task, wait=e.Wait(since=str() as since))
            | e.IterationSuspended(task=task, wait=e.Wait(since=str() as since))
        ):
            return replace(event, draft=replace(event.draft, fact=e.TaskCheckpointed(task, None, since)))
        case _:
            return None


def _find_pending_key(events: Sequence[Event]) -> e.TaskKeyKept | None:
    """The key that was kept for the call which runs again; None where another call came since."""
    for event in reversed(events):
        match event.fact:
            case e.TaskKeyKept() as kept:
                return kept
            case e.AttemptFailed() | e.TaskDone() | e.TaskFailed():
                return None
            case e.TaskItemDone() | e.TaskItemFailed() | e.TaskCallDone() | e.TaskCallFailed():
                return None
            case _:
                pass
    return None


def _is_fatal(event: Event) -> bool:
    """Whether a task failed there, or an item of it, and no policy let it go on."""
    match event.fact:
        case e.TaskFailed(fatal=fatal):
            return fatal
        case e.TaskItemFailed(handled=handled):
            return not handled
        case _:
            return False


def _belongs(event: Event, task: str) -> bool:
    """Whether it is a part of the end of `task` that it follows: what was decided and assigned
    there."""
    match event.fact:
        case e.PolicyEvaluated() as fact:
            return fact.task == task and fact.do != "retry"
        case e.VariablesSet() as fact:
            return fact.task == task
        case e.CtxPatched():
            return True
        case _:
            return False


def earliest_firing(state: State, inputs: Inputs, enabled: Iterable[Enabled]) -> int | None:
    """The version at which the first of the firings that are enabled now was scheduled in the
    execution that is run again; 0 where none was, None where nothing is run again."""
    source = inputs.source
    if source is None:
        return None
    first = (
        next((run for run in source.by_step.get(one.step, ()) if run.id not in state.taken), None)
        for one in enabled
    )
    return min((run.order for run in first if run is not None), default=0)


def append_copies(plan: Plan, state: State, inputs: Inputs, until: int | None = None) -> list[Draft]:
    """The next copies of one run, or of what was given from outside, up to the point where those
    of another come, and as many as the turn may make; only those that stand before `until`, where
    that is given."""
    if inputs.source is None:
        return []
    waiting = sorted((one for one in _all_left(plan, state, inputs) if one), key=lambda one: one.order)
    if not waiting:
        return []
    ends = [one.order for one in waiting[1:2]] + ([] if until is None else [until])
    return list(islice(waiting[0].drafts(min(ends, default=None)), inputs.most_copies))


def waits_for_copies(plan: Plan, state: State, inputs: Inputs, until: int | None) -> bool:
    """Whether copies are still to come that stand before `until`."""
    left = _all_left(plan, state, inputs)
    return until is not None and any(one and one.order < until for one in left)


def _all_left(plan: Plan, state: State, inputs: Inputs) -> Iterator[_Left]:
    yield from (_left(plan, state, inputs, run) for run in state.runs.values())
    if inputs.source is not None and state.started:
        yield _Left(inputs.source.given, state.given)


def has_copies(plan: Plan, state: State, inputs: Inputs, run: Run, *, until_done: bool = False) -> bool:
    """Whether copies of the run are still to come; with `until_done` those of what was recorded
    before its step was done there."""
    left = _left(plan, state, inputs, run)
    done_at = _done_at(inputs, run) if until_done else None
    return bool(left) and (done_at is None or left.version < done_at)


def _done_at(inputs: Inputs, run: Run) -> int | None:
    """The version at which the step of the run was done in the execution that is run again."""
    recorded = inputs.source.runs.get(run.reuse.run_id or "") if inputs.source and run.reuse else None
    return None if recorded is None else recorded.done_at


@dataclass(frozen=True, slots=True)
class _Left:
    """The copies of a run from number `at` on. At version `stop` the loop of the run is asked
    before others are made; with `singly` it is after each iteration."""

    copies: Sequence[Copy] = ()
    at: int = 0
    stop: int | None = None
    singly: bool = False

    def __bool__(self) -> bool:
        return self.at < len(self.copies)

    @property
    def order(self) -> int:
        """Where the next one stands."""
        return self.copies[self.at].order

    @property
    def version(self) -> int:
        """The one that the event had for which it stands."""
        return self.copies[self.at].version

    def drafts(self, until: int | None) -> Iterator[Draft]:
        for copy in islice(self.copies, self.at, None):
            if until is not None and copy.order >= until:
                return
            if self.stop is not None and self.version < self.stop <= copy.version:
                return
            yield copy.draft
            if self.singly and isinstance(copy.draft.fact, e.IterationDone | e.IterationFailed):
                return


def _left(plan: Plan, state: State, inputs: Inputs, run: Run) -> _Left:
    source, reuse = inputs.source, run.reuse
    if source is None or reuse is None or reuse.run_id is None or not run.takes or run.ended:
        return _Left()
    items = [run.loop.items, *map(list, run.loop.added)] if run.loop is not None else None
    made = inputs.copies.get(run.id)
    if made is None or not made.are_for(reuse, items):
        recorded = source.runs[reuse.run_id]
        made = RunCopies(reuse, items, list(_copies(plan, state, inputs, source, recorded, run, reuse)))
        inputs.copies[run.id] = made
    at = bisect_right(made.copies, run.copied, key=attrgetter("version"))
    rules = plan.step(run.step).loop
    singly = rules is not None and rules.grow is not None
    return _Left(made.copies, at, _done_at(inputs, run) if run.released == "no" else None, singly)


def _copies(
    plan: Plan, state: State, inputs: Inputs, source: SourceLog, recorded: SourceRun, run: Run, reuse: Reuse
) -> Iterator[Copy]:
    step, tasks = plan.step(run.step), frozenset(reuse.tasks)
    handing = tasks_handing_over(plan, step) if recorded.callbacks else {}
    make = _Maker(source, recorded, run, tasks, tasks >= plan.code(run.step).keys(), handing)
    if run.loop is None:
        yield from make.of_pipeline(recorded.events)
        return
    found = [make.copy(event, event.draft.iteration) for event in recorded.claims if _has_rows(event)]
    begun = max(recorded.iterations, default=-1) + run.loop.max_in_flight
    for index, there in match_iterations(plan, state, inputs, recorded, run.loop, step):
        if there > begun:
            continue
        events = recorded.iterations.get(there, ())
        called = find_changed_playbook(events, inputs)
        own = [] if called else list(make.of_pipeline(events, index, there))
        found += own
        if _is_ordered(step, run.loop) and not (own and isinstance(own[-1].draft.fact, _RUN_ENDS)):
            break
    yield from sorted(found, key=lambda copy: copy.order)


def _has_rows(event: Event) -> bool:
    return isinstance(event.fact, e.LoopClaimed) and event.fact.count > 0


def _is_ordered(step: Transition, loop: LoopState) -> bool:
    """Whether iterations see what earlier ones wrote: behind one that runs again all do."""
    writes = any(one.scope == "ctx" for task in step.tasks for one in task.assigns)
    return loop.mode == "sequential" and writes


@dataclass(frozen=True, slots=True)
class _Maker:
    """Makes the copies for one run. `whole`: all of its tasks are what they were. `handing` are, by
    a task that has an address, those that hand it over."""

    source: SourceLog
    recorded: SourceRun
    run: Run
    tasks: Collection[str]
    whole: bool
    handing: Mapping[str, frozenset[str]]

    def of_pipeline(
        self, events: Sequence[Event], index: int | None = None, there: int | None = None
    ) -> Iterator[Copy]:
        """Those of the run, or of its iteration `there`, which is number `index` here."""
        kept = list(self._standing(events))
        ended = bool(kept) and isinstance(kept[-1].fact, _RUN_ENDS)
        calls = () if ended else find_calls(self.recorded, there, self.handing, events, kept)
        for event in sorted((*kept, *calls), key=attrgetter("version")):
            yield self.copy(event, index)
        if ended:
            return
        if (unknown := self._find_unknown(events)) is not None:
            yield self._keep_key(unknown, events, index, there)

    def copy(self, event: Event, index: int | None) -> Copy:
        draft = replace(
            event.draft,
            run_id=self.run.id,
            step=self.run.step,
            iteration=index,
            dedup_key=self._key(event, index),
            origin=event.event_id,
        )
        routed = self.recorded.routed if isinstance(event.fact, e.StepDone | e.StepFailed) else None
        return Copy(event.version, self.recorded.place_of(routed or event), draft)

    def _key(self, event: Event, index: int | None) -> str:
        match event.fact:
            case e.StepDone() | e.StepFailed():
                return f"end:{self.run.id}"
            case e.IterationDone() | e.IterationFailed():
                return f"iteration:{self.run.id}/{index}"
            case e.CallbackReceived() as fact:
                return call_key(self.run.id, index, fact.task)
            case _:
                return f"copy:{self.run.id}/{event.version}"

    def _standing(self, events: Sequence[Event]) -> Iterator[Event]:
        """The events that stand: all of those that went well, else those up to the end of the last
        task that did, and what the next one had kept by then."""
        if self.whole and any(map(self._ends_well, events)):
            yield from (event for event in events if self._counts(event))
            return
        own = []
        for event in events:
            task = getattr(event.fact, "task", None)
            if (task and task not in self.tasks) or _is_fatal(event):
                break
            own.append(event)
        end = _find_last_end(own)
        yield from (event for event in own[:end] if self._counts(event))
        yield from (event for event in own[end:] if isinstance(event.fact, e.TaskCheckpointed))
        if self.source.retry.migrates:
            yield from filter(None, map(_keep_since, own[end:]))

    def _ends_well(self, event: Event) -> bool:
        """Whether the run or the iteration ended so that its end stands. A worker that was lost
        behind that is told of later."""
        match event.fact:
            case e.StepDone(forced_by=forced_by):
                # Who ended it may not do so here.
                return forced_by is None
            case e.IterationDone():
                return True
            case e.StepFailed():
                return self.recorded.stands
            case e.IterationFailed():
                # Its loop went on after it.
                return self.recorded.stands and self.source.retry.iterations != "failed"
            case _:
                return False

    def _counts(self, event: Event) -> bool:
        match event.fact:
            case e.CtxPatched():
                return True
            case fact:
                return isinstance(fact, (*_PROGRESS, *_RUN_ENDS))

    def _find_unknown(self, events: Sequence[Event]) -> Event | None:
        """The end of the call that runs again, where nobody knows whether it had an effect: it
        failed so, or its worker never reported."""
        failure = next((one for one in events if _is_fatal(one)), None)
        match failure and failure.fact:
            case None:
                return self.recorded.ended if self.whole else None
            case e.TaskFailed(task=task, error=error) | e.TaskItemFailed(task=task, error=error):
                return failure if error.kind in UNKNOWN and task in self.tasks else None
            case _:
                return None

    def _keep_key(self, event: Event, events: Sequence[Event], index: int | None, there: int | None) -> Copy:
        fact = event.fact
        task, call, key = (fact.task, fact.call, fact.key) if isinstance(fact, e.TaskFailed) else ("", "", "")
        own = e.TaskKeyKept(task, self.recorded.execution_id, self.recorded.id, there, call, key)
        # A call that was itself made under the key of an earlier one, and of which nobody heard.
        kept = own if key else _find_pending_key(events) or own
        draft = replace(self.copy(event, index).draft, fact=kept, attempt=None, duration_ms=None)
        place = self.run.id if index is None else f"{self.run.id}/{index}"
        order = self.recorded.place_of(event)
        return Copy(event.version, order, replace(draft, dedup_key=f"key:{place}"))


def match_iterations(
    plan: Plan,
    state: State,
    inputs: Inputs,
    recorded: SourceRun,
    loop: LoopState,
    step: Transition,
) -> Iterator[tuple[int, int]]:
    """Pairs of an index here and the one there whose item is the same, each of those once; of the
    same number where a task reads the number."""
    if loop.cursor is not None:
        claimed = sum(one.fact.count for one in recorded.claims if isinstance(one.fact, e.LoopClaimed))
        yield from ((index, index) for index in range(claimed))
        return
    if recorded.loop is None:
        return
    there: dict[Json, list[int]] = {}
    by_index = any(reads.index for reads in plan.reads(step.name).values())
    recorded_items = [recorded.loop.items, *(one.items for one in recorded.grown)]
    for index, item in enumerate(_items(recorded_items, inputs)):
        item_key = fingerprint(item, recorded.execution_id)
        there.setdefault((index if by_index else None, item_key), []).append(index)
    for lists in there.values():
        lists.reverse()
    for index, item in enumerate(_items([loop.items, *(items for _, items in loop.added)], inputs)):
        if found := there.get((index if by_index else None, fingerprint(item, state.execution_id))):
            yield index, found.pop()


def _items(lists: Iterable[Json], inputs: Inputs) -> Iterator[Json]:
    """All items of a loop: those of its collection, and what was added to it."""
    for items in lists:
        found: Sequence[Json] = items if inputs.load is None else load_value(items, inputs.load)
        yield from found or ()
