"""The log of an execution that another one runs again, sorted by runs and iterations.

Where that one ran another one again itself, and ended before it had come to all of its runs, these
are there as well: what was done stands, however often somebody begins anew.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from typing import Final, assert_never

from noetl.engine.plan import Plan
from noetl.engine.run_state import RunStatus
from noetl.facts import events as e
from noetl.facts.events import Draft, Event
from noetl.facts.json import Json
from noetl.facts.lineage import RetryOf, Reuse
from noetl.facts.outcome import ErrorInfo

_ENDS: Final[Mapping[type[e.Fact], RunStatus]] = {
    e.StepDone: "done",
    e.StepFailed: "failed",
    e.StepTimedOut: "failed",
    e.StepSkipped: "skipped",
    e.StepCancelled: "cancelled",
    #: Of a run whose step was routed before: its iterations have failed it.
    e.LoopDone: "failed",
}


@dataclass(frozen=True, slots=True)
class SourceRun:
    """One firing, as its log tells it: `events` are those of its pipeline, `iterations` those of
    each iteration of its loop, by index; `claims` are the rows that a cursor yielded. `status` is
    `running` where it never ended. It was scheduled at `version` of the log of its execution, which
    ran by `plan`; `behind` counts the events of later executions, which stand before all of it."""

    execution_id: str
    plan: Plan
    id: str
    step: str
    scheduled: e.StepScheduled
    version: int
    status: RunStatus = "running"
    error: ErrorInfo | None = None
    #: The event of its end.
    ended: Event | None = None
    #: The version at which its step was done.
    done_at: int | None = None
    routed: Event | None = None
    loop: e.LoopStarted | None = None
    events: Sequence[Event] = ()
    iterations: Mapping[int, Sequence[Event]] = field(default_factory=dict)
    claims: Sequence[Event] = ()
    #: The first calls of the addresses of its tasks.
    callbacks: Sequence[Event] = ()
    #: What iterations of its loop brought.
    grown: Sequence[e.LoopGrown] = ()
    behind: int = 0

    @property
    def order(self) -> int:
        """Where its beginning stands among all that is there."""
        return self.behind + self.version

    def place_of(self, event: Event) -> int:
        """Where an event of it stands among all that is there."""
        return self.behind + event.version

    @property
    def stands(self) -> bool:
        """Whether its end is one to go on from: it went well, or its failure was handled."""
        handled = self.routed is not None and getattr(self.routed.fact, "failure", None) is None
        # Nothing handles the failure of iterations that ran on.
        late = self.ended is not None and isinstance(self.ended.fact, e.LoopDone)
        return self.status == "done" or (self.status == "failed" and handled and not late)

    def calls(self) -> Iterator[SourceCall]:
        """The calls of playbooks, in their order."""
        for events in (self.events, *self.iterations.values()):
            asked: e.ChildCall | None = None
            for event in events:
                match event.fact:
                    case e.StepSuspended(child=e.ChildCall() as call):
                        asked = call
                    case e.IterationSuspended(child=e.ChildCall() as call):
                        asked = call
                    case e.ChildRequested(detached=False, child_id=child, task=task) if asked is not None:
                        yield SourceCall(self.execution_id, task, asked, child)
                    case _:
                        pass


@dataclass(frozen=True, slots=True)
class Copy:
    """A draft, and the version of the event that it stands for. `order` is where it stands among
    other copies: the end of a run where that was routed."""

    version: int
    order: int
    draft: Draft


@dataclass(frozen=True, slots=True)
class RunCopies:
    """All copies of a run, as they were made for what it takes and for the items of its loop."""

    reuse: Reuse
    items: Json
    copies: Sequence[Copy]

    def are_for(self, reuse: Reuse, items: Json) -> bool:
        """Whether they are those of a run that takes this, over these items: a turn that was not
        committed may have made others."""
        return (self.reuse, self.items) == (reuse, items)


@dataclass(frozen=True, slots=True)
class SourceCall:
    """A call of a playbook that `execution_id` waited for, and the execution that it made."""

    execution_id: str
    task: str
    call: e.ChildCall
    child_id: str


def come_to(events: Iterable[Event]) -> Iterator[str]:
    """The ids of the runs that these events schedule, and of those that they are compared with."""
    for event in events:
        if isinstance(event.fact, e.StepScheduled):
            yield event.draft.run_id or ""
            if event.fact.reuse is not None and event.fact.reuse.run_id is not None:
                yield event.fact.reuse.run_id


@dataclass(frozen=True, slots=True)
class EarlierLog:
    """The log of an execution that the one before it ran again; `known` are the runs of it to which
    later ones have come."""

    log: SourceLog
    known: frozenset[str]


class SourceLog:
    """What an execution recorded, for `retry`, which runs it again; `plan` is that of its own
    net. `is_undone`: another execution has undone what it had done. `earlier` are the logs of those
    that it ran again itself, the nearest first, as far as something of them may still stand."""

    def __init__(
        self,
        plan: Plan,
        retry: RetryOf,
        events: Iterable[Event],
        *,
        is_undone: bool = False,
        earlier: Sequence[EarlierLog] = (),
    ) -> None:
        self.plan = plan
        self.retry = retry
        self._events = list(events)
        self._is_undone = is_undone
        self._earlier = earlier

    @property
    def execution_id(self) -> str:
        return self.retry.execution_id

    @cached_property
    def evaluated_at(self) -> datetime | None:
        """When its workload was rendered."""
        events = (one for log in (self, *(one.log for one in self._earlier)) for one in log._events)
        return next((one.recorded_at for one in events if isinstance(one.fact, e.Evaluated)), None)

    @cached_property
    def runs(self) -> Mapping[str, SourceRun]:
        """All runs by their ids, in the order in which they were scheduled; behind its own those of
        earlier executions to which later ones have not come."""
        found = dict(self._own_runs)
        for one, behind in self._place_earlier():
            offered = one.log._find_offered()
            found |= {run.id: replace(run, behind=behind) for run in offered if run.id not in one.known}
        return found

    def _place_earlier(self) -> Iterator[tuple[EarlierLog, int]]:
        """The earlier logs, and how many events stand before those of each."""
        behind = len(self._events)
        for one in self._earlier:
            yield one, behind
            behind += len(one.log._events)

    def _find_offered(self) -> Iterator[SourceRun]:
        """Its own runs that stand as well for who runs again what ran this one again. What was done
        because a run had failed, or was undone, belongs to this execution alone."""
        refused = self.asked_for | self.undone
        for run in self._own_runs.values():
            begins_anew = self.retry.iterations == "all" and run.loop is not None and not run.stands
            if not (begins_anew or run.scheduled.handling or run.id in refused):
                yield run

    def calls(self, run: SourceRun) -> list[SourceCall]:
        """The calls of playbooks of the run, behind those of the runs that stood in for it."""
        taken = self._find_taken(run)
        return [*(() if taken is None else self.calls(taken)), *run.calls()]

    def _find_taken(self, run: SourceRun) -> SourceRun | None:
        """The run of an earlier execution of which `run` took what stood."""
        logs = {log.execution_id: log for log in (self, *(one.log for one in self._earlier))}
        reuse = run.scheduled.reuse
        if reuse is None or reuse.how == "none" or run.execution_id not in logs:
            return None
        source = logs.get(reuse.execution_id or logs[run.execution_id]._again_of)
        return None if source is None else source._own_runs.get(reuse.run_id or "")

    @cached_property
    def _again_of(self) -> str:
        """The execution that it ran again itself; empty where it did not."""
        first = next((one.fact for one in self._events), None)
        return first.retry.execution_id if isinstance(first, e.Requested) and first.retry is not None else ""

    @cached_property
    def _own_runs(self) -> Mapping[str, SourceRun]:
        collected: dict[str, _Collected] = {}
        for event in self._events:
            run_id = event.draft.run_id
            if run_id is None:
                continue
            if isinstance(event.fact, e.StepScheduled):
                collected[run_id] = _Collected(self, event, event.fact)
            elif run_id in collected:
                collected[run_id].add(event)
        return {name: one.finish() for name, one in collected.items()}

    @cached_property
    def undone(self) -> frozenset[str]:
        """The runs that were undone there, if only in part."""
        return frozenset(self._own_runs if self._is_undone else self._find_undone())

    def _find_undone(self) -> Iterator[str]:
        for event in self._events:
            match event.fact:
                case e.StepScheduled(handling=e.Handling(purpose="compensate", run_id=run_id)):
                    yield run_id
                case e.ChildUndoRequested():
                    yield event.draft.run_id or ""
                case _:
                    pass

    @cached_property
    def by_step(self) -> Mapping[str, Sequence[SourceRun]]:
        """The runs of each step, in their order."""
        found: dict[str, list[SourceRun]] = {}
        for run in self.runs.values():
            found.setdefault(run.step, []).append(run)
        return found

    @cached_property
    def given(self) -> Sequence[Copy]:
        """Copies of what it was given from outside, where that counts for the other one: signals
        that nothing took, answers to approvals that were not decided, and assignments where it goes
        on. One that never began has not taken over what earlier ones were given."""
        logs, behind = [(self, 0)], len(self._events)
        for one in self._earlier:
            if logs[-1][0]._has_begun:
                break
            logs.append((one.log, behind))
            behind += len(one.log._events)
        return [copy for log, place in reversed(logs) for copy in log._copy_given(place)]

    @property
    def _has_begun(self) -> bool:
        return any(isinstance(one.fact, e.WorkflowStarted) for one in self._events)

    def _copy_given(self, behind: int) -> Iterator[Copy]:
        taken = frozenset(self._taken_signals())
        for one in self._events:
            if (
                (isinstance(one.fact, e.SignalReceived) and one.version not in taken)
                or (isinstance(one.fact, e.ApprovalAnswered) and self._is_open(one))
                or (self.retry.migrates and _is_assigned(one))
            ):
                yield Copy(one.version, behind + one.version, _as_copy(one))

    def _is_open(self, answer: Event) -> bool:
        """Whether the wait that was answered has not ended."""
        place = (answer.draft.run_id, answer.draft.iteration)
        return not any(
            isinstance(one.fact, e.WaitMatched | e.WaitFailed)
            and getattr(one.fact, "ends", True)
            and (one.draft.run_id, one.draft.iteration) == place
            and one.version > answer.version
            for one in self._events
        )

    def _taken_signals(self) -> Iterator[int]:
        """The versions of those that expired, or that a wait took which has ended."""
        begun: dict[tuple[str | None, int | None], list[int]] = {}
        for event in self._events:
            match event.fact:
                case e.SignalExpired(received=version):
                    yield version
                case e.WaitMatched(received=version, ends=ends):
                    wait = begun.setdefault((event.draft.run_id, event.draft.iteration), [])
                    wait += [] if version is None else [version]
                    if ends:
                        yield from wait
                        wait.clear()
                case _:
                    pass

    @cached_property
    def asked_for(self) -> frozenset[str]:
        """The runs that are to run again whatever is equal: `from_run`, and all that its tokens led
        to."""
        if not self.retry.from_run:
            return frozenset()
        put: dict[str, list[str]] = {}
        for event in self._events:
            if isinstance(event.fact, e.NextEvaluated) and event.draft.run_id:
                put.setdefault(event.draft.run_id, []).extend(token.id for token in event.fact.tokens)
        for run in self.runs.values():
            if run.execution_id != self.execution_id and run.routed is not None:
                assert isinstance(run.routed.fact, e.NextEvaluated)
                put.setdefault(run.id, []).extend(token.id for token in run.routed.fact.tokens)
        takers = {token: run.id for run in self.runs.values() for token in run.scheduled.tokens}
        found: set[str] = set()
        pending = [self.retry.from_run]
        while pending:
            run_id = pending.pop()
            if run_id not in found:
                found.add(run_id)
                pending += [takers[token] for token in put.get(run_id, ()) if token in takers]
        return frozenset(found)


def _is_assigned(event: Event) -> bool:
    return isinstance(event.fact, e.CtxPatched) and event.fact.cause == "client"


def _as_copy(event: Event) -> Draft:
    match event.fact:
        case e.SignalReceived():
            # One that is sent again is known by its key.
            return replace(event.draft, origin=event.event_id)
        case e.ApprovalAnswered():
            # Runs of another execution are others.
            key = f"copy:answer/{event.event_id}"
            return replace(event.draft, run_id=None, dedup_key=key, origin=event.event_id)
        case _:
            return replace(event.draft, dedup_key=f"copy:patch/{event.event_id}", origin=event.event_id)


def _status_of(end: e.Fact) -> RunStatus:
    """What an end counts as: one that another run brought about is not its own."""
    forced = isinstance(end, e.StepDone) and end.forced_by is not None
    return "cancelled" if forced else _ENDS[type(end)]


class _Collected:
    """The events of one run, as they come."""

    def __init__(self, log: SourceLog, event: Event, scheduled: e.StepScheduled) -> None:
        run_id, step = event.draft.run_id or "", event.draft.step or ""
        self._run = SourceRun(log.execution_id, log.plan, run_id, step, scheduled, event.version)
        self._events: list[Event] = []
        self._iterations: dict[int, list[Event]] = {}
        self._claims: list[Event] = []
        self._callbacks: list[Event] = []
        self._grown: list[e.LoopGrown] = []
        self._ended: Event | None = None
        #: The end of the step, while iterations run on.
        self._released: Event | None = None
        self._done_at: int | None = None
        self._routed: Event | None = None
        self._loop: e.LoopStarted | None = None

    def add(self, event: Event) -> None:
        match event.fact:
            case e.LoopStarted() | e.LoopClaimed() | e.LoopGrown() | e.LoopDone():
                self._add_of_loop(event, event.fact)
            case e.NextEvaluated():
                self._routed = event
            case e.StepDone(released=True):
                self._released, self._done_at = event, event.version
            case e.StepDone() | e.StepFailed() | e.StepSkipped() | e.StepCancelled():
                self._ended = event
                if isinstance(event.fact, e.StepDone):
                    self._done_at = event.version
                self._events.append(event)
            case e.ApprovalAnswered():
                # It was given from outside.
                pass
            case e.CallbackReceived():
                self._callbacks.append(event)
            case e.CtxPatched(cause=cause) if cause != "task":
                # Of its boundary, which is evaluated anew.
                pass
            case _ if event.draft.iteration is not None:
                self._iterations.setdefault(event.draft.iteration, []).append(event)
            case _:
                self._events.append(event)

    def _add_of_loop(
        self, event: Event, fact: e.LoopStarted | e.LoopClaimed | e.LoopGrown | e.LoopDone
    ) -> None:
        match fact:
            case e.LoopStarted():
                self._loop = fact
            case e.LoopClaimed():
                self._claims.append(event)
            case e.LoopGrown():
                self._grown.append(fact)
            case e.LoopDone():
                self._events.append(event)
                if self._released is not None:
                    self._ended = self._released if fact.failure is None else event
            case _:
                assert_never(fact)

    def finish(self) -> SourceRun:
        ended = self._ended
        return replace(
            self._run,
            status="running" if ended is None else _status_of(ended.fact),
            error=None if ended is None else _error_of(ended.fact),
            ended=ended,
            done_at=self._done_at,
            routed=self._routed,
            loop=self._loop,
            events=tuple(self._events),
            iterations=self._iterations,
            claims=tuple(self._claims),
            callbacks=tuple(self._callbacks),
            grown=tuple(self._grown),
        )


def _error_of(fact: e.Fact) -> ErrorInfo | None:
    """Why a run failed that ended so; None where it did not."""
    match fact:
        case e.StepFailed(error=error):
            return error
        case e.LoopDone(failure=failure):
            return failure
        case _:
            return None
