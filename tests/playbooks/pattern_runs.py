"""Runs the playbooks of control-flow patterns, with and without the key that expresses each, in
whatever order messages are delivered (`patterns/index.yaml` says what is expected)."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeAlias

import yaml

from noetl.errors import Conflict, NotFound
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.testing import Scripted, Simulation
from noetl.usecases.signals import SignalRequest, send_signal

FOLDER: Final = Path(__file__).with_name("patterns")
#: Deliveries after which an execution is not expected to come to rest any more.
_MOST_MOVES: Final = 500
#: Orders up to which all are played.
_FEW: Final = 50
_A_SECOND: Final = timedelta(seconds=1)

#: Picks one of so many moves.
Pick: TypeAlias = Callable[[int], int]


@dataclass(frozen=True, slots=True)
class ControlFlowPattern:
    """An entry of the index. Without a `file` the pattern is not there: `waits_for` says for what.
    `absent` are ways to take the key away."""

    number: int
    name: str
    pattern: str
    file: str = ""
    key: str = ""
    absent: Sequence[Sequence[Mapping[str, Any]]] = ()
    expected: Mapping[str, Any] = field(default_factory=dict)
    actions: Sequence[Mapping[str, Any]] = ()
    early: bool = False
    rows: Mapping[str, Any] = field(default_factory=dict)
    problems: Sequence[str] = ()
    waits_for: str = ""

    @property
    def text(self) -> str:
        """The playbook."""
        return (FOLDER / self.file).read_text(encoding="utf-8")

    def without_key(self) -> Iterator[Variant]:
        """The pattern with its key taken away, in each of the ways."""
        for changes in self.absent:
            document, actions = yaml.safe_load(self.text), copy.deepcopy(list(self.actions))
            for change in changes:
                whole = "put" not in change
                for part in _parts(document, actions, change):
                    _change(part, change["at"], None if whole else change["put"], remove=whole)
            yield Variant(self, yaml.safe_dump(document, sort_keys=False), actions)


@dataclass(frozen=True, slots=True)
class Variant:
    """A playbook of a pattern, and what happens outside."""

    pattern: ControlFlowPattern
    text: str
    actions: Sequence[Mapping[str, Any]]


def patterns() -> list[ControlFlowPattern]:
    """All of the index, in their order."""
    return [
        ControlFlowPattern(**{**entry, "pattern": entry["pattern"].strip()})
        for entry in yaml.safe_load((FOLDER / "index.yaml").read_text(encoding="utf-8"))
    ]


def _parts(document: Any, actions: list[Any], change: Mapping[str, Any]) -> list[Any]:
    if "signal" in change:
        return [one for one in actions if one.get("signal") == change["signal"]]
    if "region" in change:
        return [document["regions"][change["region"]]]
    return [step for step in document["workflow"] if step["step"] == change["step"]]


def _change(part: Any, at: Sequence[Any], value: Any, *, remove: bool) -> None:
    for key in at[:-1]:
        part = part[key]
    if remove:
        del part[at[-1]]
    else:
        part[at[-1]] = value


# --- orders ---------------------------------------------------------------------------------------


class Order:
    """One way through a tree of choices: along `begin`, and then the first one each time."""

    def __init__(self, begin: Sequence[int] = ()) -> None:
        self._begin = begin
        self.taken: list[tuple[int, int]] = []

    def pick(self, count: int) -> int:
        at = len(self.taken)
        choice = self._begin[at] if at < len(self._begin) else 0
        self.taken.append((choice, count))
        return choice

    def following(self) -> Order | None:
        """The next way; None behind the last one."""
        left = list(self.taken)
        while left and left[-1][0] == left[-1][1] - 1:
            left.pop()
        if not left:
            return None
        return Order([*(choice for choice, _ in left[:-1]), left[-1][0] + 1])


def orders(most: int, seed: int = 0) -> Iterator[Pick]:
    """Every order of moves where there are few; else those, and `most` random ones. Each has to be
    played before the next one is asked for."""
    order: Order | None = Order()
    for _ in range(min(most, _FEW)):
        yield order.pick
        order = order.following()
        if order is None:
            return
    for number in range(most):
        yield random.Random(seed * most + number).randrange


def in_order(_count: int) -> int:
    """The oldest message first."""
    return 0


# --- playing --------------------------------------------------------------------------------------


def play(variant: Variant, pick: Pick) -> list[str]:
    """Plays it in an order, and says which expectations it does not meet."""
    sim = Simulation(variant.text, _tools(variant.pattern.rows))
    execution_id, actions = sim.start(), list(variant.actions)
    for _ in range(_MOST_MOVES):
        messages = len(sim.mailbox.messages)
        moves = messages + (1 if actions and (variant.pattern.early or not messages) else 0)
        if not moves:
            if (due := sim.next_due()) is None:
                return list(_faults(variant.pattern.expected, sim, execution_id))
            sim.pass_time(max((due - sim.now).total_seconds(), 0.0))
            continue
        index = pick(moves) if moves > 1 else 0
        if index < messages:
            sim.deliver(index)
        else:
            _act(sim, execution_id, actions.pop(0))
    return [f"it does not come to rest within {_MOST_MOVES} moves"]


def _act(sim: Simulation, execution_id: str, action: Mapping[str, Any]) -> None:
    if "pass" in action:
        sim.pass_time(action["pass"])
        return
    # Of two signals at one instant the first in the document would count.
    sim.now += _A_SECOND
    request = SignalRequest(action["signal"], action.get("payload"), lifetime_s=action.get("expires"))
    try:
        send_signal(sim.rt, execution_id, request)
    except (Conflict, NotFound):
        # It has ended, or has no use for it without its key.
        return


def _tools(rows: Mapping[str, Any]) -> dict[str, Scripted]:
    """A table of jobs, and work on them that adds some."""
    free = list(rows.get("first", ()))
    added = [max(free, default=0) + 1 + number for number in range(rows.get("added", 0))]

    def claim(_call: Any) -> Any:
        found = [{"id": free.pop(0)}] if free else []
        return {"rows": found, "row_count": len(found), "columns": ["id"]}

    def work(_call: Any) -> Any:
        if added:
            free.append(added.pop(0))
        return {"status_code": 200}

    return {"postgres": claim, "http": work}


# --- expectations ---------------------------------------------------------------------------------


def _faults(expected: Mapping[str, Any], sim: Simulation, execution_id: str) -> Iterator[str]:
    report, log = sim.report(execution_id), sim.events(execution_id)
    status = report.row.status
    if status != expected["status"]:
        yield f"it ends {status}, not {expected['status']}"
    for step, runs in expected.get("runs", {}).items():
        found = report.steps[step]["runs"] if step in report.steps else 0
        if found != runs:
            yield f"{step} runs {_times(found)}, not {_times(runs)}"
    for step, ends in expected.get("ends", {}).items():
        found = report.steps[step]["status"] if step in report.steps else "not run"
        if found != ends:
            yield f"{step} is {found}, not {ends}"
    if "result" in expected and report.result != expected["result"]:
        yield f"the result is {report.result}, not {expected['result']}"
    error = report.error or {}
    for key, value in expected.get("error", {}).items():
        if error.get(key) != value:
            yield f"the {key} of the error is {error.get(key)}, not {value}"
    yield from _faults_of_order(expected, log)


def _times(number: int) -> str:
    return {0: "never", 1: "once", 2: "twice"}.get(number, f"{number} times")


def _faults_of_order(expected: Mapping[str, Any], log: Sequence[Event]) -> Iterator[str]:
    begins, ends = _first(log, e.StepScheduled), _first(log, e.StepDone, e.StepCancelled)
    for one, other in expected.get("order", ()):
        if not ends.get(one, len(log)) < begins.get(other, len(log)):
            yield f"{other} begins before {one} is done"
    last = _last(log, e.StepDone, e.StepCancelled)
    for one, other in expected.get("before", ()):
        if not begins.get(one, len(log)) < last.get(other, len(log)):
            yield f"{one} begins after {other} is done"
    for pair in expected.get("apart", ()):
        (_, end), (later, _) = sorted(_span(log, part) for part in pair)
        if later < end:
            yield f"{pair[0]} and {pair[1]} are at work at once"
    for step, tokens in expected.get("skipped", {}).items():
        found = [event for event in log if isinstance(event.fact, e.StepSkipped) and event.draft.step == step]
        if len(found) != tokens:
            yield f"{step} is skipped {_times(len(found))}, not {_times(tokens)}"


def _span(log: Sequence[Event], part: str | Sequence[str]) -> tuple[int, int]:
    """From when to when one of these steps is at work."""
    steps = {part} if isinstance(part, str) else set(part)
    found = [event for event in log if event.draft.step in steps]
    begun = (event.version for event in found if isinstance(event.fact, e.StepStarted))
    ended = (event.version for event in found if isinstance(event.fact, e.StepDone | e.StepCancelled))
    return min(begun, default=len(log)), max(ended, default=len(log))


def _first(log: Sequence[Event], *kinds: type) -> dict[str, int]:
    return _last(tuple(reversed(log)), *kinds)


def _last(log: Sequence[Event], *kinds: type) -> dict[str, int]:
    """The version of the last such event of each step, in this order."""
    return {str(event.draft.step): event.version for event in log if isinstance(event.fact, kinds)}
