"""In what two executions differ: playbook, inputs, path, guards, results, durations, error."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, zip_longest
from typing import Final, TypeVar

from noetl.engine.decision import status_of
from noetl.engine.evolve import replay
from noetl.engine.state import State, initial_state
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import RESULT_REF, is_reference
from noetl.history.accounts import Asked
from noetl.history.differences import (
    Comparison,
    Difference,
    DurationDifference,
    GuardDifference,
    Parting,
    RunsDifference,
    Section,
    Side,
)
from noetl.history.evidence import asked, show, show_error

T = TypeVar("T")

#: Differences of one section that are shown, unless more are asked for.
MOST: Final = 20
#: Levels of mappings and lists that are looked into.
_LEVELS: Final = 12


def compare(a: Sequence[Event], b: Sequence[Event], most: int = MOST) -> Comparison:
    """The differences between two logs, each from its beginning; at most `most` of each kind."""
    one, other = _Story(a), _Story(b)
    playbook = _bounded(_differences(one.playbook, other.playbook), most)
    inputs = _bounded(_differences(one.inputs, other.inputs), most)
    path = _bounded(_compare_runs(one, other), most)
    guards = _bounded(_compare_guards(one, other), most)
    steps = _bounded(_differences(one.statuses, other.statuses), most)
    results = _bounded(_differences(one.results, other.results), most)
    errors = _bounded(_differences(one.errors, other.errors), most)
    differ = (playbook, inputs, path, guards, steps, results, errors)
    return Comparison(
        one.side,
        other.side,
        not any(section.shown for section in differ) and one.side.status == other.side.status,
        playbook,
        inputs,
        path,
        _find_parting(one.runs, other.runs),
        guards,
        steps,
        results,
        errors,
        _bounded(_compare_durations(one, other), most),
    )


@dataclass(frozen=True)
class _Story:
    """What one log says, in the parts that are compared."""

    events: Sequence[Event]

    @cached_property
    def state(self) -> State:
        return replay(initial_state(self.events[0].execution_id if self.events else ""), self.events)

    @cached_property
    def side(self) -> Side:
        state = self.state
        spent = self.events[-1].recorded_at - self.events[0].recorded_at if self.events else None
        return Side(
            state.execution_id,
            state.path,
            state.playbook_version,
            state.digest,
            status_of(state),
            state.version,
            round(spent.total_seconds() * 1000, 3) if spent is not None else 0.0,
            show_error(state.error) if state.error else None,
        )

    @property
    def playbook(self) -> JsonMap:
        return {"path": self.side.path, "version": self.side.playbook_version, "net": self.side.digest}

    @property
    def inputs(self) -> JsonMap:
        state = self.state
        return {"payload": state.payload, "overrides": state.overrides, "workload": state.workload}

    @cached_property
    def runs(self) -> tuple[str, ...]:
        """The steps that were fired, in order."""
        return tuple(
            event.draft.run_id or "" for event in self.events if isinstance(event.fact, e.StepScheduled)
        )

    @property
    def counts(self) -> Mapping[str, int]:
        return Counter(run.rpartition("#")[0] for run in self.runs)

    @cached_property
    def guards(self) -> Mapping[tuple[str, str], e.ArcDecision]:
        """What the arcs decided, by run and arc."""
        return {
            (event.draft.run_id or "", one.arc): one
            for event in self.events
            if isinstance(event.fact, e.NextEvaluated)
            for one in event.fact.arcs
        }

    @property
    def statuses(self) -> JsonMap:
        return {name: record.status for name, record in self.state.steps.items()}

    @property
    def results(self) -> JsonMap:
        records = self.state.steps.items()
        return {name: record.result for name, record in records if "done" in record.counts}

    @property
    def errors(self) -> JsonMap:
        """Of the execution, and of each step whose last run failed."""
        found = {name: record.error for name, record in self.state.steps.items() if record.error}
        whole = {"execution": self.state.error} if self.state.error else {}
        return {name: _kind_and_message(error) for name, error in {**whole, **found}.items()}

    @cached_property
    def durations(self) -> Mapping[str, float]:
        begun, spent = dict[str, Event](), defaultdict[str, float](float)
        for event in self.events:
            run = event.draft.run_id or ""
            match event.fact:
                case e.StepScheduled():
                    begun[run] = event
                case e.StepDone() | e.StepFailed() | e.StepCancelled() | e.StepSkipped() if run in begun:
                    passed = event.recorded_at - begun.pop(run).recorded_at
                    spent[event.draft.step or ""] += passed.total_seconds() * 1000
                case _:
                    pass
        return spent


def _kind_and_message(error: ErrorInfo) -> str:
    return f"{error.type or error.kind}: {error.message}"


def _bounded(found: Iterable[T], most: int) -> Section[T]:
    every = iter(found)
    shown = tuple(islice(every, most))
    return Section(shown, sum(1 for _ in every))


# --- values ---


def _differences(a: Json, b: Json, path: str = "", levels: int = _LEVELS) -> Iterator[Difference]:
    """Where two values differ, by dotted path: mappings key by key, lists item by item."""
    if is_reference(a) or is_reference(b):
        if _identity(a) != _identity(b):
            yield Difference(path, "changed", show(a, path), show(b, path))
    elif levels and isinstance(a, Mapping) and isinstance(b, Mapping):
        for key in dict.fromkeys((*a, *b)):
            yield from _compare_part(a, b, key, f"{path}.{key}" if path else str(key), levels - 1)
    elif levels and isinstance(a, list | tuple) and isinstance(b, list | tuple):
        one, other = dict(enumerate(a)), dict(enumerate(b))
        for index in range(max(len(a), len(b))):
            yield from _compare_part(one, other, index, f"{path}[{index}]", levels - 1)
    elif type(a) is not type(b) or a != b:
        yield Difference(path, "changed", show(a, path), show(b, path))


def _compare_part(
    a: Mapping[T, Json], b: Mapping[T, Json], key: T, path: str, levels: int
) -> Iterator[Difference]:
    if key not in a:
        yield Difference(path, "added", b=show(b[key], path))
    elif key not in b:
        yield Difference(path, "removed", show(a[key], path))
    else:
        yield from _differences(a[key], b[key], path, levels)


def _identity(value: Json) -> Json:
    """What tells large results apart: their content, wherever it is kept."""
    if not is_reference(value):
        return value
    if value["kind"] == RESULT_REF:
        return value.get("meta", {}).get("sha256") or value["ref"]
    return [_identity(part.get("ref", part)) for part in value["parts"]]


# --- the path ---


def _compare_runs(one: _Story, other: _Story) -> Iterator[RunsDifference]:
    for step in dict.fromkeys((*one.counts, *other.counts)):
        a, b = one.counts.get(step, 0), other.counts.get(step, 0)
        if a != b:
            yield RunsDifference(step, a, b)


def _find_parting(a: Sequence[str], b: Sequence[str]) -> Parting | None:
    for number, (one, other) in enumerate(zip_longest(a, b), 1):
        if one != other:
            return Parting(number, a[number - 2] if number > 1 else None, one, other)
    return None


def _compare_guards(one: _Story, other: _Story) -> Iterator[GuardDifference]:
    """Of runs that both have: arcs with another verdict."""
    both = set(one.runs) & set(other.runs)
    for run, arc in dict.fromkeys((*one.guards, *other.guards)):
        a, b = one.guards.get((run, arc)), other.guards.get((run, arc))
        if run in both and _verdict(a) != _verdict(b):
            step = next(decision.step for decision in (a, b) if decision is not None)
            yield GuardDifference(run, arc, step, _asked(a), _asked(b))


def _verdict(decision: e.ArcDecision | None) -> tuple[bool, bool] | None:
    return None if decision is None else (bool(decision.value), decision.chosen)


def _asked(decision: e.ArcDecision | None) -> Asked | None:
    if decision is None:
        return None
    held = "taken" if decision.chosen else "held" if decision.value else "did not hold"
    return asked(decision.when, decision.names, held)


# --- durations ---


def _compare_durations(one: _Story, other: _Story) -> list[DurationDifference]:
    """Of every step, the largest differences first."""
    steps = dict.fromkeys((*one.durations, *other.durations))
    found = [_duration(step, one, other) for step in steps]
    return sorted(found, key=lambda each: -abs((each.b or 0.0) - (each.a or 0.0)))


def _duration(step: str, one: _Story, other: _Story) -> DurationDifference:
    spent = (side.durations.get(step) for side in (one, other))
    a, b = (None if each is None else round(each, 3) for each in spent)
    return DurationDifference(step, a, b)
