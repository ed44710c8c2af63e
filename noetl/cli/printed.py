"""What user code printed, for people: whole lines, each with the name of its step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Final, Protocol

import click

from noetl.cli.progress import ProgressView
from noetl.facts.children import ChildEnded, ChildRequested
from noetl.facts.events import Event, StepDone, StepFailed
from noetl.facts.json import Json, JsonMap
from noetl.facts.logs import LogFilter
from noetl.usecases import inspect, logs
from noetl.usecases.runtime import Runtime
from noetl.usecases.views import chunk_view

#: Seconds between two looks while an execution runs.
LOOK_S: Final = 0.2
#: Chunks that are asked for at once.
PAGE: Final = 200
#: The events that tell of children.
CALLS: Final = (ChildRequested.type, ChildEnded.type)
#: Lines that are shown of what failed.
LAST: Final = 10


class PrintedLines:
    """Chunks in, whole lines out. Many tasks may print at once: the rest of a line waits for its
    end."""

    def __init__(self) -> None:
        self._rest: dict[tuple[Json, ...], tuple[str, str]] = {}

    def of(self, chunk: JsonMap) -> Iterator[str]:
        """The lines that the chunk ends."""
        keys = ("run_id", "iteration", "task", "attempt", "delivery", "stream")
        key = tuple(chunk[name] for name in keys)
        place = place_of(chunk)
        _, before = self._rest.pop(key, (place, ""))
        *whole, rest = (before + chunk["text"]).split("\n")
        if rest:
            self._rest[key] = (place, rest)
        for line in whole:
            yield f"{place} | {line}"

    def rest(self) -> Iterator[str]:
        """The lines that nothing has ended."""
        for place, text in self._rest.values():
            yield f"{place} | {text}"
        self._rest.clear()


def place_of(chunk: JsonMap) -> str:
    """`step`, or `step[3]`."""
    inside = "" if chunk["iteration"] is None else f"[{chunk['iteration']}]"
    return f"{chunk['step']}{inside}"


class PrintedSource(Protocol):
    """Executions, as whoever reads their logs sees them."""

    def logs(self, execution_id: str, after: int, limit: int) -> Sequence[JsonMap]:
        """Chunks behind a number, as the API shows them."""
        ...

    def calls(self, execution_id: str, after: int) -> Sequence[Event]:
        """Those behind a version that tell of children: that one began, or has ended."""
        ...


@dataclass(slots=True)
class _Member:
    """An execution whose log is read. `place` is where it was called from; `seen` and `version` are
    how far its log and its events have been read."""

    execution_id: str
    place: str = ""
    lines: PrintedLines = field(default_factory=PrintedLines)
    seen: int = 0
    version: int = 0
    ended: bool = False
    children: dict[str, _Member] = field(default_factory=dict)


def _note_call(caller: _Member, event: Event) -> None:
    match event.fact:
        case ChildRequested(child_id=child):
            inside = {"step": event.draft.step, "iteration": event.draft.iteration}
            caller.children[child] = _Member(child, f"{caller.place}{place_of(inside)} > ")
        case ChildEnded(child_id=str(child)) if child in caller.children:
            caller.children[child].ended = True
        case _:
            pass


class FamilyLog:
    """What an execution prints and what those print that it calls, whose lines begin with the place
    of the call: `call[0] > step | text`."""

    def __init__(self, source: PrintedSource, execution_id: str) -> None:
        self._source = source
        self._top = _Member(execution_id)

    def new_lines(self) -> Iterator[str]:
        """What came since the last time."""
        return self._read(self._top)

    def rest(self) -> Iterator[str]:
        """The lines that nothing has ended."""
        return self._rest(self._top)

    def _read(self, one: _Member) -> Iterator[str]:
        # First: what a child printed before its end was told of is in its log.
        self._learn_of_children(one)
        while chunks := self._source.logs(one.execution_id, one.seen, PAGE):
            one.seen = int(chunks[-1]["seq"])
            for chunk in chunks:
                for line in one.lines.of(chunk):
                    yield one.place + line
        for child in list(one.children.values()):
            yield from self._read(child)
            if child.ended:
                yield from self._rest(child)
                del one.children[child.execution_id]

    def _learn_of_children(self, one: _Member) -> None:
        while events := self._source.calls(one.execution_id, one.version):
            one.version = events[-1].version
            for event in events:
                _note_call(one, event)

    def _rest(self, one: _Member) -> Iterator[str]:
        for line in one.lines.rest():
            yield one.place + line
        for child in one.children.values():
            yield from self._rest(child)


class Verbose:
    """A progress that also tells what user code prints, as it comes."""

    def __init__(self, progress: ProgressView, source: PrintedSource, execution_id: str) -> None:
        self._progress = progress
        #: Whoever follows must come by often enough for what is printed between events.
        self.tick_s = min(progress.tick_s, LOOK_S)
        self._log = FamilyLog(source, execution_id)
        self._looked = 0.0

    def __enter__(self) -> ProgressView:
        self._progress.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._show()
        for line in self._log.rest():
            self._say(line)
        self._progress.__exit__(*error)

    def on(self, event: Event) -> None:
        if isinstance(event.fact, StepDone | StepFailed):
            self._show()
        self._progress.on(event)

    def tick(self) -> None:
        if time.monotonic() - self._looked >= LOOK_S:
            self._show()
        self._progress.tick()

    def _show(self) -> None:
        for line in self._log.new_lines():
            self._say(line)
        self._looked = time.monotonic()

    def _say(self, line: str) -> None:
        # Not click, which writes past the live table's stand-in for standard error, and so into the
        # table.
        with suppress(OSError):  # whoever listened has gone; the execution goes on
            print(line, file=sys.stderr)


class PrintedOutput:
    """Logs in a database that this process reaches."""

    def __init__(self, rt: Runtime) -> None:
        self._rt = rt

    def logs(self, execution_id: str, after: int, limit: int) -> Sequence[JsonMap]:
        page = logs.page(self._rt, execution_id, LogFilter(), after, limit)
        return [chunk_view(chunk) for chunk in page.chunks]

    def calls(self, execution_id: str, after: int) -> Sequence[Event]:
        return inspect.events(self._rt, execution_id, after, types=CALLS)

    def end(self, execution_id: str, error: JsonMap) -> list[str]:
        """The last lines of what failed with `error`."""
        where = LogFilter(error.get("step"), error.get("iteration"), error.get("attempt"))
        return logs.last_lines(self._rt, execution_id, where, LAST)


def with_last_lines(report: JsonMap, end: Callable[[str, JsonMap], list[str]]) -> JsonMap:
    """The report of an execution that failed, and `last_lines`: what its failed step had printed at
    last."""
    error = report.get("error")
    if not error or error.get("step") is None:
        return report
    return {**report, "last_lines": end(str(report["execution_id"]), error)}


def show_last_lines(report: JsonMap) -> None:
    """Behind the error, on standard error."""
    lines = report.get("last_lines")
    if not lines:
        return
    click.echo(f"The last lines that step {report['error']['step']} printed:", err=True)
    for line in lines:
        click.echo(f"  | {line}", err=True)
