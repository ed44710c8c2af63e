"""A log, sorted by what its events are about: what accounts are made of."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cached_property
from typing import Final

from noetl.engine.awaited import Surroundings, find_awaited
from noetl.engine.evolve import replay
from noetl.engine.plan import Plan
from noetl.engine.state import State, initial_state
from noetl.facts import events as e
from noetl.facts.brief import MASK, brief
from noetl.facts.events import Event
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.secret import is_secret_name
from noetl.history.accounts import Asked, OpenCommand

#: Characters of a value, and of an expression, that are shown.
_SHOWN: Final = 120


@dataclass(frozen=True, slots=True)
class Bounds:
    """How much is shown of each step: runs, iterations that failed, and rules of policies."""

    runs: int
    failures: int
    policies: int


#: Of all steps together, and of one alone.
OVERVIEW: Final = Bounds(runs=2, failures=3, policies=3)
CLOSE_UP: Final = Bounds(runs=20, failures=20, policies=50)


@dataclass(frozen=True, slots=True)
class Arrival:
    """A token, and the event that put it down."""

    token: e.Token
    event: Event


@dataclass(frozen=True)
class Evidence:
    """The log of one execution, in order, and the net that it runs. `held` is what the table of
    commands knows besides, and `around` what is known of slots and pauses, where the log is read to
    its end. `known` is what the events come to, where somebody has that already."""

    plan: Plan
    events: Sequence[Event]
    held: Mapping[str, OpenCommand]
    bounds: Bounds
    around: Surroundings | None = None
    known: State | None = None

    @cached_property
    def state(self) -> State:
        """What the events come to."""
        return replay(self._begin, self.events) if self.known is None else self.known

    @cached_property
    def before_admission(self) -> Mapping[int, State]:
        """The states in which admissions were decided, by the versions of these events."""
        judged = [one.version for one in self.events if isinstance(one.fact, e.AdmitEvaluated)]
        before, state = dict[int, State](), self._begin
        for version in judged:
            state = replay(state, self.events[state.version : version - 1])
            before[version] = state
        return before

    @property
    def _begin(self) -> State:
        return initial_state(self.events[0].execution_id if self.events else "")

    @cached_property
    def awaited(self) -> list[JsonMap]:
        """What is waited for, as `engine.awaited.find_awaited` has it."""
        if self.around is not None:
            return find_awaited(self.state, self.around)
        return find_awaited(
            self.state, Surroundings({one.version: one.recorded_at.isoformat() for one in self.events})
        )

    @cached_property
    def of_run(self) -> Mapping[str, list[Event]]:
        """The events of each step run, in order."""
        found = defaultdict[str, list[Event]](list)
        for event in self.events:
            if event.draft.run_id is not None:
                found[event.draft.run_id].append(event)
        return found

    @cached_property
    def of_step(self) -> Mapping[str, list[Event]]:
        """What happened to a step as a whole: runs that began and were routed, tokens that were
        judged or dropped."""
        about = (e.StepScheduled, e.StepSkipped, e.StepCancelled, e.NextEvaluated, e.AdmitEvaluated)
        judged = (e.JoinUnsatisfied, e.MilestoneEvaluated)
        found = defaultdict[str, list[Event]](list)
        for event in self.events:
            if event.draft.step is not None and isinstance(event.fact, (*about, *judged)):
                found[event.draft.step].append(event)
        return found

    @cached_property
    def arrivals(self) -> Mapping[str, Arrival]:
        """All tokens that were ever put down, by id."""
        return {
            token.id: Arrival(token, event)
            for event in self.events
            if isinstance(event.fact, e.WorkflowStarted | e.NextEvaluated)
            for token in event.fact.tokens
        }

    @cached_property
    def arrived_at(self) -> Mapping[str, list[Arrival]]:
        """The same by the step before which they were put down."""
        found = defaultdict[str, list[Arrival]](list)
        for arrival in self.arrivals.values():
            found[arrival.token.step].append(arrival)
        return found

    def routed(self, step: str) -> list[Event]:
        """The events with which runs of `step` were routed."""
        return [event for event in self.of_step.get(step, ()) if isinstance(event.fact, e.NextEvaluated)]

    def delayed(self, run: str) -> Mapping[int, str]:
        """The iterations of a run whose commands are not due yet, as far as the log knows: until
        when (UTC, ISO 8601)."""
        due = dict[int, str]()
        for event in self.of_run.get(run, ()):
            index = event.draft.iteration
            match event.fact:
                case e.CommandIssued(due_at=str(at)) if index is not None:
                    due[index] = at
                case e.LoopClaimed() | e.LoopGrown():
                    pass
                case _ if index is not None:
                    due.pop(index, None)
        return due

    def tokens_before(self, step: str) -> list[str]:
        """Ids of the tokens that wait before `step`."""
        return [key for key, one in self.state.tokens.items() if one.token.step == step]

    def file_line(self, step: str) -> int | None:
        """Where `step` stands in the playbook's file, from 1."""
        found = self.plan.net.steps.get(step)
        return found.line or None if found else None


def asked(when: str | None, names: JsonMap, said: str) -> Asked:
    """An expression with what it read, without secrets, and none of it long."""
    shown = {name: show(value, name) for name, value in names.items()}
    return Asked(None if when is None else brief(when, _SHOWN), shown, said)


def show(value: Json, name: str = "") -> Json:
    """`value` as it is where it is short; else in a few words. Hidden where secrets are called like
    `name`."""
    if value is None or isinstance(value, bool | int | float | Decimal):
        return value
    return MASK if is_secret_name(name.rpartition(".")[2]) else brief(value, _SHOWN)


def show_error(error: ErrorInfo) -> JsonMap:
    """An error as reports have it, without its traceback."""
    return replace(error, traceback=None).as_json()


def listed(names: Iterable[str], most: int = 5) -> str:
    """`a, b and c`; beyond `most` of them `a, b and 7 more`."""
    every = list(dict.fromkeys(names))
    if len(every) > most:
        every = [*every[: most - 1], f"{len(every) - most + 1} more"]
    return " and ".join(filter(None, (", ".join(every[:-1]), *every[-1:])))
