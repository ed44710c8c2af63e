"""What one run of a step did, attempt by attempt and iteration by iteration, as its events say."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Final, Literal, TypeAlias

from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.json import Json
from noetl.facts.outcome import REUSED, ErrorInfo
from noetl.history.sentences import say_milliseconds, say_origin

#: Where an iteration is. `open`: it has not begun, as far as the log knows.
IterationStanding: TypeAlias = Literal["open", "running", "waiting", "done", "failed", "cancelled"]

_ENDED: Final = frozenset({"done", "failed", "cancelled"})


@dataclass(frozen=True, slots=True)
class TaskAttempt:
    """A call of a task that has ended, or runs. `at` is when that was recorded. `part` is the item
    or the call of a task that makes several. `origin` says where its result comes from, where the
    task was not called; empty where it was. One that is `lost` ended with its worker: it is
    `begun_again`, in a sentence."""

    task: str
    iteration: int | None
    attempt: int
    status: Literal["running", "done", "failed", "lost"]
    at: datetime
    duration_ms: float | None
    error: ErrorInfo | None = None
    part: str = ""
    origin: str = ""
    begun_again: str = ""

    @property
    def took(self) -> str:
        return say_milliseconds(self.duration_ms)


def find_attempts(events: Iterable[Event]) -> Iterator[TaskAttempt]:
    """Those that the events of a run tell of, in order; of a task that runs the last heartbeat."""
    running: dict[tuple[str, int | None], TaskAttempt] = {}
    for event in events:
        if isinstance(event.fact, e.ResultDiscarded) and event.fact.is_loss:
            yield from _lose(event, event.fact.reason, running)
        found = _attempt(event)
        if found is None:
            continue
        key = (found.task, found.iteration)
        if found.status == "running":
            running[key] = found
        else:
            running.pop(key, None)
            yield found
    yield from running.values()


def _lose(
    event: Event, begun_again: str, running: dict[tuple[str, int | None], TaskAttempt]
) -> Iterator[TaskAttempt]:
    """What ran with the worker that was lost; where the log does not know what, that something
    did."""
    ended = [running.pop(key) for key in list(running) if key[1] == event.draft.iteration]
    for one in ended or [_make(event, "", "lost")]:
        yield replace(one, status="lost", at=event.recorded_at, begun_again=begun_again)


def _attempt(event: Event) -> TaskAttempt | None:
    match event.fact:
        case e.TaskStarted(task=task):
            return _make(event, task, "running")
        case e.TaskDone(task=task, meta=meta):
            reused = meta.get(REUSED)
            return _make(event, task, "done", origin=say_origin(reused) if reused else _copied(event))
        case e.TaskFailed(task=task, error=error) | e.AttemptFailed(task=task, error=error):
            return _make(event, task, "failed", error, origin=_copied(event))
        case e.TaskItemDone(task=task, item=item):
            return _make(event, task, "done", part=f"item {item}", origin=_copied(event))
        case e.TaskItemFailed(task=task, item=item, error=error):
            return _make(event, task, "failed", error, f"item {item}", _copied(event))
        case e.TaskCallDone(task=task, call=call):
            return _make(event, task, "done", part=f"call {call}", origin=_copied(event))
        case e.TaskCallFailed(task=task, call=call, error=error):
            return _make(event, task, "failed", error, f"call {call}", _copied(event))
        case _:
            return None


def _make(
    event: Event,
    task: str,
    status: Literal["running", "done", "failed", "lost"],
    error: ErrorInfo | None = None,
    part: str = "",
    origin: str = "",
) -> TaskAttempt:
    draft = event.draft
    number, spent = draft.attempt or 1, draft.duration_ms
    return TaskAttempt(task, draft.iteration, number, status, event.recorded_at, spent, error, part, origin)


def _copied(event: Event) -> str:
    """Of what was taken of the execution that is run again, whose it is."""
    origin = event.draft.origin
    return "" if origin is None else f"recorded by execution {origin.rpartition('.')[0]}, and taken over"


# --- iterations -----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoopedItems:
    """The items of a loop: the list that it began with, or the reference that stands for it, and
    what was added, with the index of the first of each."""

    first: Json
    added: Sequence[tuple[int, Json]]


def find_items(events: Iterable[Event]) -> LoopedItems:
    """Those of the loop that the events of a run tell of."""
    first: Json = []
    added = list[tuple[int, Json]]()
    for event in events:
        match event.fact:
            case e.LoopStarted(items=items):
                first = items
            case e.LoopClaimed(count=count, items=items) | e.LoopGrown(count=count, items=items) if count:
                added.append((event.draft.iteration or 0, items))
            case _:
                pass
    return LoopedItems(first, added)


def find_standings(events: Iterable[Event], total: int, *, over: bool) -> list[IterationStanding]:
    """Where each iteration of a run is, by its index. `over`: the execution has ended, and what has
    not ended by itself ended with it."""
    found: dict[int, IterationStanding] = {}
    for event in events:
        index = event.draft.iteration
        if index is not None and not isinstance(event.fact, e.LoopClaimed | e.LoopGrown):
            found[index] = _stand(event.fact, found.get(index, "open"))
        over = over or _ends_all(event.fact)
    left: IterationStanding = "cancelled" if over else "open"
    return [_finish(found.get(index, left), over=over) for index in range(total)]


def _finish(standing: IterationStanding, *, over: bool) -> IterationStanding:
    return "cancelled" if over and standing not in _ENDED else standing


def _stand(fact: e.Fact, before: IterationStanding) -> IterationStanding:
    match fact:
        case e.IterationDone():
            return "done"
        case e.IterationFailed():
            return "failed"
        case e.IterationCancelled():
            return "cancelled"
        case _ if before in _ENDED:
            return before
        case e.IterationSuspended():
            return "waiting"
        case e.CommandIssued():
            return before
        case _:
            return "running"


def _ends_all(fact: e.Fact) -> bool:
    match fact:
        case e.LoopDone() | e.StepCancelled() | e.StepFailed():
            return True
        case e.StepDone(released=released):
            return not released
        case _:
            return False


# --- what came of it ------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RunResults:
    """What tasks of a run, or of one iteration of it, came to, by their names, and what the whole
    came to; `known` says whether it has, and the log has it."""

    tasks: Mapping[str, Json]
    value: Json = None
    known: bool = False


def find_results(events: Iterable[Event]) -> RunResults:
    """The results that the events of a run, or of an iteration, hold."""
    tasks = dict[str, Json]()
    value, known = None, False
    for event in events:
        match event.fact:
            case e.TaskDone(task=task, result=result):
                tasks[task] = result
            case e.StepDone(task=str() as task) | e.IterationDone(task=str() as task) if task in tasks:
                value, known = tasks[task], True
            case e.StepDone(result=result) if result is not None:
                value, known = result, True
            case _:
                pass
    return RunResults(tasks, value, known)


def find_answer(events: Iterable[Event]) -> Json:
    """The body with which the call answered that failed last, where its tool tells of one."""
    found: Json = None
    for event in events:
        match event.fact:
            case e.TaskFailed(extras=extras) | e.AttemptFailed(extras=extras):
                section = extras.get("http")
                found = section.get("body") if isinstance(section, Mapping) else None
            case e.TaskDone():
                found = None
            case _:
                pass
    return found


def find_failure(events: Iterable[Event]) -> ErrorInfo | None:
    """The error with which a run, or an iteration, ended, where it failed; else that of the last
    attempt that did, as long as no task has ended well since."""
    found: ErrorInfo | None = None
    for event in events:
        match event.fact:
            case e.StepFailed(error=error) | e.IterationFailed(error=error):
                return error
            case e.TaskFailed(error=error) | e.AttemptFailed(error=error):
                found = error
            case e.TaskDone():
                found = None
            case _:
                pass
    return found
