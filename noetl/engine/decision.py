"""What follows from a turn, as values of the engine: the events, what they ask for, the state after
them, its public status, and what is reported to the caller and the children."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from noetl.engine.children import call_of, find_dropped_children, find_next_due, only_waits
from noetl.engine.copies import has_copies
from noetl.engine.evolve import evolve
from noetl.engine.inputs import Inputs
from noetl.engine.loops import find_failed_loops, find_missing
from noetl.engine.names import command_context
from noetl.engine.plan import Plan
from noetl.engine.retries import retry_due
from noetl.engine.run_state import Run
from noetl.engine.state import State, result_of
from noetl.engine.timers import next_timer
from noetl.engine.wait_state import Child
from noetl.engine.waits import next_expiry
from noetl.facts.events import (
    ChildRequested,
    ChildUndoRequested,
    CommandIssued,
    Draft,
    LoopDone,
    LoopStarted,
    Parent,
    RetryStarted,
    StepCancelled,
    StepDone,
)
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo


def wake_at(state: State) -> datetime | None:
    """When a turn is due though nothing may be appended: the end of a cancellation's grace, or of
    the time that a called playbook or a signal has, the first timer, or the next attempt of what
    has failed."""
    if state.ended:
        return retry_due(state)
    if state.cancel_deadline is not None and not state.closing:
        return datetime.fromisoformat(state.cancel_deadline)
    if state.pause_requested:
        return None
    due = (find_next_due(state), next_timer(state), next_expiry(state))
    return min(filter(None, due), default=None)


def status_of(state: State) -> str:
    """The public word for where the execution is: the one status that everything shows."""
    if state.ended:
        return state.status
    if state.paused:
        return "paused"
    if not state.started:
        return "pending"
    return "waiting" if (state.runs or state.tokens) and only_waits(state) else "running"


#: An execution with such a status is resumed only from outside.
_OUTSIDE = ("waiting", "paused")


@dataclass(frozen=True, slots=True)
class Notification:
    """A message for the execution `to`: `answer`, how its child ended; `waits`, whether the child
    can be resumed from outside alone; `cancel`, that its caller does not wait for it any more, or
    that another one has its business key now (`context.reason`).

    `context` is what is recorded there. `run_id` and `step` are those of a call that was given up.
    """

    purpose: Literal["answer", "waits", "cancel"]
    to: str
    context: JsonMap = field(default_factory=dict)
    run_id: str = "-"
    step: str = "-"


def notifications(
    before: State, after: State, status: str, given_up: Iterable[Child]
) -> tuple[Notification, ...]:
    """What a turn from `before` to `after` reports to other executions. `status` is the one that
    the last turn left; `given_up` are the children that this turn stopped waiting for, those that
    it made itself included."""
    found = [Notification("cancel", str(child.id), {}, child.run_id, child.step) for child in given_up]
    parent, waits = after.parent, status_of(after) in _OUTSIDE
    if before.ended or parent is None or parent.detached:
        return tuple(found)
    if after.ended:
        found.append(Notification("answer", parent.execution_id, _answer(after, parent)))
    elif after.undoes is None and waits is not (status in _OUTSIDE):
        context = {**_call_of(parent), "waiting": waits, "at": after.version}
        found.append(Notification("waits", parent.execution_id, context))
    return tuple(found)


def _call_of(parent: Parent) -> JsonMap:
    """The call, as the caller knows it."""
    return {
        "step": parent.step,
        "run_id": parent.run_id,
        "iteration": parent.iteration,
        "task": parent.task,
    }


def _answer(child: State, parent: Parent) -> JsonMap:
    """What the caller records: where, and `child.ended`."""
    answer = {
        **_call_of(parent),
        "status": child.status,
        "result": None,
        "error": None,
        "warnings": [],
        "undoable": child.status in ("completed", "partial") and bool(child.undoable),
        "undoes": child.undoes,
    }
    if child.status != "completed":
        return {**answer, "error": _error(child).as_json()}
    name = parent.return_step
    if name is None:
        return {**answer, "result": result_of(child)}
    record = child.steps.get(name)
    if record is not None and record.runs:
        return {**answer, "result": record.result}
    warning = (
        f"step {name!r} of playbook {child.path!r} (execution {child.execution_id}) did not run: "
        "its result is null"
    )
    return {**answer, "warnings": [warning]}


def _error(child: State) -> ErrorInfo:
    whom = f"Playbook {child.path!r} (execution {child.execution_id})"
    if child.error is None:
        reason = f": {child.cancel_reason}" if child.status == "cancelled" and child.cancel_reason else ""
        return ErrorInfo("child", f"{whom} was {child.status}{reason}.", type="ChildEnded")
    error, ending = child.error, "failed" if child.status == "failed" else f"was {child.status}"
    message = f"{whom} {ending}: {error.message}"
    return ErrorInfo("child", message, type=error.type or error.kind, retryable=error.retryable)


@dataclass(frozen=True, slots=True)
class Command:
    """Work that leaves for a worker: what was issued, for which run or iteration, and what its
    templates read."""

    fact: CommandIssued
    run_id: str
    step: str
    iteration: int | None
    context: JsonMap


@dataclass(frozen=True, slots=True)
class OpenedLoop:
    """Indices that lanes take from now on: all of a loop, or those of a later generation that are
    still to be run."""

    run_id: str
    generation: int
    count: int
    items: Json
    indices: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class NewChild:
    """An execution to be made: the event that says so, and the call that it answers."""

    fact: ChildRequested
    call: Child


@dataclass(frozen=True, slots=True)
class WithdrawnRun:
    """A run that was taken out of the execution before it had ended, and what its templates
    read."""

    run: Run
    context: JsonMap


@dataclass(frozen=True, slots=True)
class Decision:
    """What one turn decides. `after` is the state with `drafts` folded in."""

    drafts: tuple[Draft, ...]
    after: State
    commands: tuple[Command, ...] = ()
    loops: tuple[OpenedLoop, ...] = ()
    children: tuple[NewChild, ...] = ()
    notifications: tuple[Notification, ...] = ()
    withdrawn: tuple[WithdrawnRun, ...] = ()
    #: Ids of commands that no worker is to take any more.
    closed_commands: tuple[str, ...] = ()
    #: Runs whose loops give out no further index.
    closed_loops: tuple[str, ...] = ()
    #: The execution that is its next attempt, and begins with this turn.
    retry_id: str | None = None
    #: Executions that undo others, and begin with this turn.
    undo_ids: tuple[str, ...] = ()
    #: Whether the execution ended with this turn.
    ends: bool = False
    #: Whether there is more to copy than one turn may.
    unfinished: bool = False


@dataclass(slots=True)
class Fold:
    """Folds drafts onto a state, each once, and keeps what they ask for."""

    plan: Plan
    before: State
    #: As they were when the turn began.
    inputs: Inputs
    state: State = field(init=False)
    drafts: list[Draft] = field(default_factory=list)
    _issued: list[tuple[Draft, CommandIssued, State]] = field(default_factory=list)
    _opened: list[OpenedLoop] = field(default_factory=list)
    _children: list[NewChild] = field(default_factory=list)
    _given_up: list[Child] = field(default_factory=list)
    _undo_ids: list[str] = field(default_factory=list)
    _retry_id: str | None = None

    def __post_init__(self) -> None:
        self.state = self.before

    def add(self, drafts: Iterable[Draft]) -> None:
        """Folds `drafts`, in order."""
        for draft in drafts:
            earlier, self.state = self.state, evolve(self.state, draft)
            self.drafts.append(draft)
            self._given_up += find_dropped_children(earlier, self.state)
            match draft.fact:
                case ChildRequested():
                    self._children.append(NewChild(draft.fact, call_of(earlier, draft)))
                case CommandIssued():
                    self._issued.append((draft, draft.fact, self.state))
                case LoopStarted(count=count, items=items):
                    self._opened.append(OpenedLoop(draft.run_id or "", 1, count, items))
                case ChildUndoRequested(child_id=undo_id):
                    self._undo_ids.append(undo_id)
                case RetryStarted(execution_id=retry_id):
                    self._retry_id = retry_id
                case _:
                    pass

    def decision(self) -> Decision:
        """What follows from all that was folded. Runs that the turn itself ended again get
        nothing."""
        ends = self.state.ended and not self.before.ended
        opened = [loop for loop in self._opened if self._lives(loop.run_id)]
        # Runs that this turn ended. Some are there yet, until they are cleaned up.
        gone = [
            run for key, run in self.before.runs.items() if not run.ended and (ends or not self._lives(key))
        ]
        withdrawn = [run for run in gone if not self._ended_well(run)]
        return Decision(
            drafts=tuple(self.drafts),
            after=self.state,
            commands=tuple(self._commands()),
            loops=(*opened, *self._reopen_loops()),
            children=tuple(self._children),
            notifications=notifications(self.before, self.state, self.inputs.status, self._given_up),
            withdrawn=tuple(
                WithdrawnRun(run, command_context(self.plan, self.before, run)) for run in withdrawn
            ),
            closed_commands=tuple(command for run in gone for command in run.commands.values()),
            closed_loops=tuple(find_failed_loops(self.plan, self.state)),
            undo_ids=tuple(self._undo_ids),
            retry_id=self._retry_id,
            ends=ends,
            unfinished=any(
                has_copies(self.plan, self.state, self.inputs, run) for run in self.state.runs.values()
            ),
        )

    def _lives(self, run_id: str | None) -> bool:
        """Whether the run is there and has not ended."""
        run = self.state.runs.get(run_id or "")
        return run is not None and not run.ended

    def _ended_well(self, run: Run) -> bool:
        """Whether nothing of a run that is gone was left half-way."""
        facts = [draft.fact for draft in self.drafts if draft.run_id == run.id]
        ends = [fact for fact in facts if isinstance(fact, StepDone | LoopDone | StepCancelled)]
        if any(isinstance(fact, LoopDone) and fact.cut for fact in ends):
            return False
        match ends[-1] if ends else None:
            case StepDone(forced_by=None):
                return True
            case LoopDone(failure=None):
                # Of a run whose step was done before; else its step has failed.
                return run.released != "no" or any(isinstance(fact, StepDone) for fact in ends)
            case _:
                return False

    def _commands(self) -> Iterator[Command]:
        for draft, fact, state in self._issued:
            run = state.runs[draft.run_id or ""]
            if self._lives(run.id):
                context = command_context(self.plan, state, run)
                yield Command(fact, run.id, run.step, draft.iteration, context)

    def _reopen_loops(self) -> Iterator[OpenedLoop]:
        """A later generation of lanes shares what is still to be run; lanes of one that is there
        take from that."""
        lanes = {
            draft.run_id or "": fact.generation for draft, fact, _ in self._issued if fact.purpose == "lane"
        }
        for run_id, generation in lanes.items():
            run, before = self.state.runs.get(run_id), self.before.runs.get(run_id)
            loop = run.loop if run is not None else None
            earlier = before.loop.generation if before is not None and before.loop is not None else 1
            if run is not None and not run.ended and loop is not None and earlier != generation:
                lost = find_missing(run, loop, self.inputs.commands)
                yield OpenedLoop(run_id, generation, loop.count, loop.items, lost)
