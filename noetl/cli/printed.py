"""What user code printed, for people: whole lines, each with the name of its step."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Final, Protocol

import click

from noetl.cli.progress import Progress
from noetl.facts.events import Event, StepDone, StepFailed
from noetl.facts.json import Json, JsonMap
from noetl.facts.logs import LogFilter
from noetl.usecases import logs
from noetl.usecases.runtime import Runtime
from noetl.usecases.views import chunk_view

#: Seconds between two looks while an execution runs.
LOOK_S: Final = 0.2
#: Chunks that are asked for at once.
PAGE: Final = 200
#: Lines that are shown of what failed.
LAST: Final = 10


class Lines:
    """Chunks in, whole lines out. Many tasks may print at once: the rest of a line waits for its end."""

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


class Source(Protocol):
    """One execution, as whoever reads its log sees it."""

    def logs(self, after: int, limit: int) -> Sequence[JsonMap]:
        """Chunks behind a number, as the API shows them."""
        ...


class Verbose:
    """A progress that also tells what user code prints, as it comes."""

    def __init__(self, progress: Progress, source: Source) -> None:
        self._progress = progress
        #: Whoever follows must come by often enough for what is printed between events.
        self.tick_s = min(progress.tick_s, LOOK_S)
        self._source = source
        self._lines = Lines()
        self._seen = 0
        self._looked = 0.0

    def __enter__(self) -> Progress:
        self._progress.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._show()
        for line in self._lines.rest():
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
        while chunks := self._source.logs(self._seen, PAGE):
            self._seen = int(chunks[-1]["seq"])
            for chunk in chunks:
                for line in self._lines.of(chunk):
                    self._say(line)
        self._looked = time.monotonic()

    def _say(self, line: str) -> None:
        # Not click, which writes past the live table's stand-in for standard error, and so into the table.
        with suppress(OSError):  # whoever listened has gone; the execution goes on
            print(line, file=sys.stderr)


class Printed:
    """The log of an execution in a database that this process reaches."""

    def __init__(self, rt: Runtime, execution_id: str) -> None:
        self._rt = rt
        self._execution_id = execution_id

    def logs(self, after: int, limit: int) -> Sequence[JsonMap]:
        page = logs.page(self._rt, self._execution_id, LogFilter(), after, limit)
        return [chunk_view(chunk) for chunk in page.chunks]

    def end(self, error: JsonMap) -> list[str]:
        """The last lines of what failed with `error`."""
        where = LogFilter(error.get("step"), error.get("iteration"), error.get("attempt"))
        return logs.last_lines(self._rt, self._execution_id, where, LAST)


def with_last_lines(report: JsonMap, end: Callable[[JsonMap], list[str]]) -> JsonMap:
    """The report of an execution that failed, and `last_lines`: what its failed step had printed at last."""
    error = report.get("error")
    if not error or error.get("step") is None:
        return report
    return {**report, "last_lines": end(error)}


def show_last_lines(report: JsonMap) -> None:
    """Behind the error, on standard error."""
    lines = report.get("last_lines")
    if not lines:
        return
    click.echo(f"The last lines that step {report['error']['step']} printed:", err=True)
    for line in lines:
        click.echo(f"  | {line}", err=True)
