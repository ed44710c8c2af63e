"""Fixtures: an execution as a test of its playbook. What it recorded stands in for its calls, and
how it went is what is expected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from noetl.dsl.read.dump import dump
from noetl.errors import BadRequest
from noetl.facts import json
from noetl.facts.events import (
    AttemptFailed,
    CtxPatched,
    Event,
    Fact,
    LoopClaimed,
    LoopDone,
    StepDone,
    StepScheduled,
    StepSkipped,
    TaskCallDone,
    TaskCallFailed,
    TaskDone,
    TaskFailed,
    TaskItemDone,
    TaskItemFailed,
)
from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.reference import holds_reference
from noetl.facts.secret import is_secret
from noetl.net.model import Net, Task, Transition
from noetl.usecases import inspect, moment
from noetl.usecases.catalog import UNNAMED
from noetl.usecases.large_values import Resolver
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime

#: Bytes of JSON that the values of one fixture have at most: a file of tests may have 256 kB.
MOST_BYTES: Final = 160 * 1024
#: In the place of a secret, which no file is to hold.
SECRET: Final = "<secret>"  # noqa: S105 - what stands for one
#: Of executions in these statuses tests are made.
TESTABLE: Final = frozenset({*ENDED, "waiting"} - {"cancelled"})
#: Kinds that need no stand-in: they run.
_INSIDE: Final = frozenset({"noop"})
#: Types of errors that a policy makes of a success.
_OF_POLICIES: Final = frozenset({"PolicyFailed", "AttemptsUsedUp"})
#: Keys of errors that a stand-in says.
_ERROR_KEYS: Final = ("kind", "message", "type", "retryable", "status")


@dataclass(frozen=True, slots=True)
class Fixture:
    """A test, as files of tests have it, and what it does not say that the execution did."""

    playbook: str
    test: JsonMap
    about: str
    notes: tuple[str, ...]

    def as_yaml(self) -> str:
        """The text of a file of tests."""
        lines = [f"# {self.about}", *(f"# {note}" for note in self.notes)]
        body = {"playbook": self.playbook, "tests": [self.test]}
        return "\n".join(lines) + "\n" + dump(body)


def make_fixture(rt: Runtime, execution_id: str) -> Fixture:
    """The test that an execution would pass. Raises NotFound, and BadRequest for one that is still
    at work, or was cancelled."""
    report = inspect.report(rt, execution_id)
    row = report.row
    if row.status not in TESTABLE:
        raise BadRequest(
            f"Execution {execution_id} is {row.status}: a test is made of one that ended or waits, by itself."
        )
    with rt.store.read() as tx:
        request = moment.requested(tx, execution_id)
        log = tx.events.read(execution_id)
    net = inspect.net_of(rt, execution_id)
    book = _Notebook(Resolver(rt), any(getattr(event.fact, "call", "") for event in log))
    test = {
        "name": f"as execution {execution_id} went",
        "clock": row.created_at.isoformat(),
        "inputs": book.given(request.payload, "inputs"),
        "set": book.given(request.overrides, "set"),
        "patches": [book.given(patch, "patches") for patch in _patches(log)],
        "stand_ins": dict(_stand_ins(net, log, book)),
        "expect": _expect(report, _path(log), book),
    }
    book.notes.extend(_cut_short(log))
    about = f"Made of execution {execution_id} of {row.path}@{row.playbook_version}."
    shown = {key: value for key, value in test.items() if value not in ({}, [])}
    return Fixture(_file_of(net), shown, about, tuple(book.notes))


def _file_of(net: Net) -> str:
    """What the file of its playbook is called; of one that came as text alone, as its path is."""
    name = net.file.rpartition("/")[2]
    return f"{net.path.rpartition('/')[2]}.yaml" if name in ("", UNNAMED) else name


@dataclass(slots=True)
class _Notebook:
    """Opens what is kept by reference, as long as there is room, and notes what is left out."""

    resolve: Resolver
    #: Whether the log says of each call that it was made: older ones do not.
    has_digests: bool
    left: int = MOST_BYTES
    notes: list[str] = field(default_factory=list)

    def value(self, value: Json, place: str) -> Json:
        """The value itself; null, with a note, where it is too large or gone."""
        found = _without_secrets(self.resolve(value), place, self.notes)
        size = len(json.dumps(found, default=str))
        if size > self.left or holds_reference(found):
            self.notes.append(f"{place} is left out: it is too large for a test, or gone.")
            return None
        self.left -= size
        return found

    def given(self, values: JsonMap, place: str) -> JsonMap:
        return {key: self.value(value, f"{place}.{key}") for key, value in values.items()}


def _without_secrets(value: Json, place: str, notes: list[str]) -> Json:
    if is_secret(value):
        notes.append(f"{place} was a secret: {SECRET} stands in its place.")
        return SECRET
    match value:
        case Mapping():
            return {key: _without_secrets(one, f"{place}.{key}", notes) for key, one in value.items()}
        case list():
            return [_without_secrets(one, place, notes) for one in value]
        case _:
            return value


# --- how it went ---


def _path(log: Iterable[Event]) -> list[str]:
    log = list(log)
    skipped = {event.draft.run_id for event in log if isinstance(event.fact, StepSkipped)}
    begun = (event.draft for event in log if isinstance(event.fact, StepScheduled))
    return [str(draft.step) for draft in begun if draft.run_id not in skipped]


def _cut_short(log: Iterable[Event]) -> Iterator[str]:
    """A note for each step of which something was ended before it had ended: it has no outcome
    that could stand in for its call."""
    for step in dict.fromkeys(str(event.draft.step) for event in log if _is_cut(event.fact)):
        yield f"What ran of step {step!r} was ended before its end: nothing stands in for it."


def _is_cut(fact: Fact) -> bool:
    return (isinstance(fact, StepDone) and fact.forced_by is not None) or (
        isinstance(fact, LoopDone) and fact.cut
    )


def _patches(log: Iterable[Event]) -> Iterator[JsonMap]:
    """What somebody outside assigned to ctx."""
    for event in log:
        if isinstance(event.fact, CtxPatched) and event.draft.source == "client":
            yield event.fact.patch


def _expect(report: inspect.Report, path: list[str], book: _Notebook) -> JsonMap:
    found: dict[str, Any] = {"status": report.row.status, "path": path}
    for key, value in (("result", report.result), ("ctx", dict(report.ctx)), ("error", _error(report))):
        if not value:
            continue
        if _mentions(value, report.row.execution_id):
            book.notes.append(f"expect.{key} is left out: it names the execution.")
        elif (shown := book.value(value, f"expect.{key}")) is not None:
            found[key] = shown
    return found


def _mentions(value: Json, word: str) -> bool:
    """Whether a text in `value` has `word` in it: it is another one in a test."""
    match value:
        case str():
            return re.search(rf"\b{word}\b", value) is not None
        case Mapping():
            return any(_mentions(inner, word) for inner in value.values())
        case list():
            return any(_mentions(inner, word) for inner in value)
        case _:
            return False


def _error(report: inspect.Report) -> JsonMap | None:
    return None if report.error is None else {key: report.error[key] for key in ("kind", "message")}


# --- what stands in for its calls ---


def _stand_ins(net: Net, log: list[Event], book: _Notebook) -> Iterator[tuple[str, Json]]:
    for step in net.transitions:
        events = [event for event in log if event.draft.step == step.name]
        for task in step.tasks:
            if task.kind in _INSIDE:
                continue
            name = step.name if len(step.calls) == 1 else f"{step.name}.{task.name}"
            yield from _of_task(name, step, task, events, book)
        if step.loop is not None and step.loop.cursor is not None:
            whole = step.loop.process == "frame"
            yield from _claims(f"{step.name}.{step.loop.cursor.name}", events, book, whole=whole)


def _of_task(
    name: str, step: Transition, task: Task, events: list[Event], book: _Notebook
) -> Iterator[tuple[str, Json]]:
    """One for each call; in a loop one for each item, in their order."""
    items: dict[tuple[str, int], list[JsonMap]] = {}
    runs: dict[str | None, int] = {}
    for event in events:
        fact = event.fact
        if (
            getattr(fact, "task", None) == task.name
            and (one := _stand_in(task, fact, book, name)) is not None
        ):
            run = runs.setdefault(event.draft.run_id, len(runs))
            place = (f"{run:09}", event.draft.iteration or 0)
            items.setdefault(place, []).append(one)
    found = [calls for _, calls in sorted(items.items())]
    if found and step.loop is None:
        yield name, _alone([one for calls in found for one in calls])
    elif found:
        yield name, [_alone(calls) for calls in found]


def _alone(calls: list[JsonMap]) -> Json:
    return calls[0] if len(calls) == 1 else calls


def _stand_in(task: Task, fact: Fact, book: _Notebook, name: str) -> JsonMap | None:
    """What stands in for the call that `fact` is the end of; None where it is the end of none."""
    whole = task.loop is not None or task.repeat is not None
    match fact:
        case _ if _is_uncalled(task, fact, book):
            return None
        case TaskDone() if not whole:
            return _result(fact.result, fact.extras, book, name)
        case TaskItemDone() | TaskCallDone():
            return _result(fact.result, fact.extras, book, name)
        case AttemptFailed() | TaskItemFailed() | TaskCallFailed():
            return _failure(fact.error, fact.extras, book, name)
        case TaskFailed() if task.loop is None:
            return _failure(fact.error, fact.extras, book, name)
        case _:
            return None


def _is_uncalled(task: Task, fact: Fact, book: _Notebook) -> bool:
    """Whether it failed before the call was made, as it will in the test: its inputs could not be
    rendered, or were not what the task expects."""
    error: ErrorInfo | None = getattr(fact, "error", None)
    # What a called playbook came to is recorded in another turn than its call.
    is_known = book.has_digests and isinstance(fact, TaskFailed | AttemptFailed) and task.kind != "playbook"
    return error is not None and (error.kind == "template" or (is_known and not getattr(fact, "call", "")))


def _result(result: Json, extras: JsonMap, book: _Notebook, name: str) -> JsonMap:
    return {"recorded": book.value(result, f"A result of {name}"), **_extras(extras, book, name)}


def _failure(error: ErrorInfo, extras: JsonMap, book: _Notebook, name: str) -> JsonMap:
    if error.type in _OF_POLICIES:
        book.notes.append(
            f"A call of {name} went well, and its policy failed it: its result is not in the log."
        )
    said = {key: getattr(error, key) for key in _ERROR_KEYS}
    kept = {key: value for key, value in said.items() if value not in (None, "")}
    return {"error": book.value(kept, f"An error of {name}"), **_extras(extras, book, name)}


def _extras(extras: JsonMap, book: _Notebook, name: str) -> JsonMap:
    return {"extras": book.value(dict(extras), f"What the tool said of {name}")} if extras else {}


def _claims(name: str, events: list[Event], book: _Notebook, *, whole: bool) -> Iterator[tuple[str, Json]]:
    """What claims yielded. Where an iteration is a `whole` claim, its rows are its only item."""
    facts = [event.fact for event in events if isinstance(event.fact, LoopClaimed)]
    claimed = [
        _failure(fact.error, {}, book, name)
        if fact.error is not None
        else {"recorded": {"rows": _take_rows(book.value(fact.items, f"Rows of {name}"), whole=whole)}}
        for fact in facts
        if fact.count or fact.error is not None
    ]
    if facts:
        yield name, claimed or {"recorded": {"rows": []}}


def _take_rows(items: Json, *, whole: bool) -> Json:
    return items[0] if whole and isinstance(items, list) and len(items) == 1 else items
