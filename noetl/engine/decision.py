"""What follows from a turn, as values of the engine: the events, what they ask for, and the state
after them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from noetl.engine.children import call_of, dropped_children
from noetl.engine.evolve import evolve
from noetl.engine.inputs import Inputs
from noetl.engine.loops import failed_loops, find_missing
from noetl.engine.names import command_context
from noetl.engine.plan import Plan
from noetl.engine.state import Child, Run, State
from noetl.engine.status import Notification, notifications
from noetl.facts.events import ChildRequested, CommandIssued, Draft, LoopStarted, StepDone
from noetl.facts.json import Json, JsonMap


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
    #: Runs whose loops hand out no index any more.
    closed_loops: tuple[str, ...] = ()
    #: Whether the execution ended with this turn.
    ends: bool = False


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

    def __post_init__(self) -> None:
        self.state = self.before

    def add(self, drafts: Iterable[Draft]) -> None:
        """Folds `drafts`, in order."""
        for draft in drafts:
            earlier, self.state = self.state, evolve(self.state, draft)
            self.drafts.append(draft)
            self._given_up += dropped_children(earlier, self.state)
            match draft.fact:
                case ChildRequested():
                    self._children.append(NewChild(draft.fact, call_of(earlier, draft)))
                case CommandIssued():
                    self._issued.append((draft, draft.fact, self.state))
                case LoopStarted(count=count, items=items):
                    self._opened.append(OpenedLoop(draft.run_id or "", 1, count, items))
                case _:
                    pass

    def decision(self) -> Decision:
        """What follows from all that was folded. Runs that the turn itself ended again get
        nothing."""
        ends = self.state.ended and not self.before.ended
        opened = [loop for loop in self._opened if loop.run_id in self.state.runs]
        gone = self._gone(ends=ends)
        return Decision(
            drafts=tuple(self.drafts),
            after=self.state,
            commands=tuple(self._commands()),
            loops=(*opened, *self._reopened_loops()),
            children=tuple(self._children),
            notifications=notifications(self.before, self.state, self.inputs.status, self._given_up),
            withdrawn=tuple(self._withdrawn(gone)),
            closed_commands=tuple(command for run in gone for command in run.commands.values()),
            closed_loops=tuple(failed_loops(self.plan, self.state)),
            ends=ends,
        )

    def _commands(self) -> Iterator[Command]:
        for draft, fact, state in self._issued:
            run = state.runs[draft.run_id or ""]
            if run.id in self.state.runs:
                context = command_context(self.plan, state, run)
                yield Command(fact, run.id, run.step, draft.iteration, context)

    def _reopened_loops(self) -> Iterator[OpenedLoop]:
        """A later generation of lanes shares what is still to be run; lanes of one that is there
        take from that."""
        lanes = {
            draft.run_id or "": fact.generation for draft, fact, _ in self._issued if fact.purpose == "lane"
        }
        for run_id, generation in lanes.items():
            run = self.before.runs.get(run_id)
            loop = run.loop if run is not None and run_id in self.state.runs else None
            if run is not None and loop is not None and loop.generation != generation:
                lost = find_missing(run, loop, self.inputs.commands)
                yield OpenedLoop(run_id, generation, loop.count, loop.items, lost)

    def _gone(self, *, ends: bool) -> list[Run]:
        """The runs of the state before that are over without having ended, whoever works on
        them."""
        runs = self.before.runs
        return [run for key, run in runs.items() if not run.ended and (ends or key not in self.state.runs)]

    def _withdrawn(self, gone: Iterable[Run]) -> Iterator[WithdrawnRun]:
        done = {draft.run_id for draft in self.drafts if isinstance(draft.fact, StepDone)}
        for run in gone:
            if run.id not in done:
                yield WithdrawnRun(run, command_context(self.plan, self.before, run))
