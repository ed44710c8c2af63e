"""Shows what python and shell tasks print: while a run goes on, after a failure, and as `noetl
execution logs`. Whole lines, each with the name of its step."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Final

import click

from noetl.cli.address import execution_argument
from noetl.cli.follow import LOG_PAGE, FollowedExecution, LocalExecution, find_failed_step, progress_for
from noetl.cli.process import open_runtime
from noetl.cli.progress import ProgressView
from noetl.engine.awaited import place_of
from noetl.errors import NotFound
from noetl.facts import json
from noetl.facts.children import ChildEnded, ChildRequested
from noetl.facts.events import Event, StepDone, StepFailed
from noetl.facts.json import Json, JsonMap
from noetl.facts.logs import LogFilter
from noetl.usecases import inspect, waiting
from noetl.usecases.runtime import Runtime
from noetl.usecases.views import chunk_view

#: Seconds between two looks while an execution runs, and those that `--follow` waits before it
#: looks although nothing was heard of.
LOOK_S: Final = 0.2
WAIT_S: Final = 5.0


class PrintedLines:
    """Chunks in, whole lines out. Many tasks may print at once: the rest of a line waits for its
    end."""

    def __init__(self) -> None:
        self._rest: dict[tuple[Json, ...], tuple[str, str]] = {}

    def add(self, chunk: JsonMap) -> Iterator[str]:
        """The lines that the chunk ends."""
        keys = ("run_id", "iteration", "task", "attempt", "delivery", "stream")
        key = tuple(chunk[name] for name in keys)
        place = place_of(chunk["step"], chunk["iteration"])
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


class FamilyLog:
    """What an execution and those that it calls print. Lines of a child begin with the place of the
    call: `call[0] > step | text`."""

    def __init__(self, source: FollowedExecution, execution_id: str, place: str = "") -> None:
        self._source = source
        self._execution_id = execution_id
        self._place = place
        self._lines = PrintedLines()
        #: How far its log and its events have been read.
        self._seen = self._version = 0
        self._ended = False
        self._children: dict[str, FamilyLog] = {}

    def new_lines(self) -> Iterator[str]:
        """What came since the last time."""
        # First: what a child printed before its end was recorded is in its log.
        while events := self._source.calls(self._execution_id, self._version):
            self._version = events[-1].version
            for event in events:
                self._note_call(event)
        while chunks := self._source.logs(self._execution_id, self._seen):
            self._seen = int(chunks[-1]["seq"])
            for chunk in chunks:
                for line in self._lines.add(chunk):
                    yield self._place + line
        for child_id, child in list(self._children.items()):
            try:
                yield from child.new_lines()
            except NotFound:
                # The caller was imported, and this one was not.
                yield f"{child._place}execution {child_id} is not here"
                child._ended = True
            if child._ended:
                yield from child.rest()
                del self._children[child_id]

    def _note_call(self, event: Event) -> None:
        match event.fact:
            case ChildRequested(child_id=child):
                place = f"{self._place}{place_of(event.draft.step, event.draft.iteration)} > "
                self._children[child] = FamilyLog(self._source, child, place)
            case ChildEnded(child_id=str(child)) if child in self._children:
                self._children[child]._ended = True

    def rest(self) -> Iterator[str]:
        """The lines that nothing has ended."""
        for line in self._lines.rest():
            yield self._place + line
        for child in self._children.values():
            yield from child.rest()


@dataclass(frozen=True, slots=True)
class ShownProgress:
    """How much is shown of executions that are followed: nothing, their steps, or what user code
    prints as well."""

    quiet: bool = False
    verbose: bool = False

    def of(self, source: FollowedExecution) -> ProgressView:
        """The progress of one execution, on standard error."""
        progress = progress_for(sys.stderr, quiet=self.quiet)
        return Verbose(progress, source) if self.verbose else progress


class Verbose(ProgressView):
    """A progress that also shows what user code prints, as it comes."""

    def __init__(self, progress: ProgressView, source: FollowedExecution) -> None:
        self._progress = progress
        #: Often enough for what is printed between events.
        self.tick_s = min(progress.tick_s, LOOK_S)
        self.shows_waits = progress.shows_waits
        self._log = FamilyLog(source, source.execution_id)
        self._looked = 0.0

    def __enter__(self) -> ProgressView:
        self._progress.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._show(self._log.new_lines())
        self._show(self._log.rest())
        self._progress.__exit__(*error)

    def on(self, event: Event) -> None:
        if isinstance(event.fact, StepDone | StepFailed):
            self._show(self._log.new_lines())
        self._progress.on(event)

    def tick(self) -> None:
        if time.monotonic() - self._looked >= LOOK_S:
            self._show(self._log.new_lines())
        self._progress.tick()

    def show_waits(self, waits: Sequence[JsonMap]) -> None:
        self._progress.show_waits(waits)

    def _show(self, lines: Iterator[str]) -> None:
        for line in lines:
            # Not click, which writes past the live table's stand-in for standard error, and so into
            # the table. Where the reader has gone, the execution goes on.
            with suppress(OSError):
                print(line, file=sys.stderr)
        self._looked = time.monotonic()


def show_last_lines(report: JsonMap) -> None:
    """Shows what a failed step had printed at last, on standard error."""
    lines, error = report.get("last_lines"), find_failed_step(report)
    if not lines or error is None:
        return
    click.echo(f"The last lines that step {error['step']} printed:", err=True)
    for line in lines:
        click.echo(f"  | {line}", err=True)


@click.command(epilog="Example: noetl execution logs 1234567890123 --step load --iteration 3 -f")
@execution_argument()
@click.option("--step", metavar="NAME", help="Only what this step printed.")
@click.option("--iteration", metavar="N", type=click.IntRange(min=0), help="Only this iteration, from 0.")
@click.option("--attempt", metavar="N", type=click.IntRange(min=1), help="Only this attempt, from 1.")
@click.option("--children", "-c", is_flag=True, help="Also what the playbooks that it calls print.")
@click.option("--follow", "-f", is_flag=True, help="Go on until the execution ends.")
@click.option("--json", "as_json", is_flag=True, help="Answer in JSON: an object for each piece of text.")
@click.pass_context
def logs(
    ctx: click.Context,
    execution_id: str,
    step: str | None,
    iteration: int | None,
    attempt: int | None,
    children: bool,
    follow: bool,
    as_json: bool,
) -> None:
    """What python and shell tasks printed, in order, each line with the name of its step.

    Secrets are masked. Of one attempt at most 64 MiB are kept.
    """
    where = LogFilter(step, iteration, attempt)
    if children and (as_json or where != LogFilter()):
        raise click.UsageError("--children shows everything as text; leave out the other options.", ctx)
    with open_runtime() as rt:
        one = _read_one(rt, execution_id, where, follow=follow, as_json=as_json)
        for text in _read_family(rt, execution_id, follow=follow) if children else one:
            click.echo(text)


def _read_one(
    rt: Runtime, execution_id: str, where: LogFilter, *, follow: bool, as_json: bool
) -> Iterator[str]:
    lines, after = PrintedLines(), 0
    while True:
        page = waiting.wait_for_printed(rt, execution_id, where, after, LOG_PAGE, WAIT_S if follow else 0.0)
        for chunk in map(chunk_view, page.chunks):
            after = chunk["seq"]
            yield from [json.dumps(chunk, ensure_ascii=False)] if as_json else lines.add(chunk)
        if page.is_last or (page.next is None and not follow):
            break
    yield from lines.rest()


def _read_family(rt: Runtime, execution_id: str, *, follow: bool) -> Iterator[str]:
    """Looks now and then: no watch covers many logs."""
    log = FamilyLog(LocalExecution(rt, execution_id), execution_id)
    while True:
        is_over = not follow or inspect.execution(rt, execution_id).is_over
        yield from log.new_lines()
        if is_over:
            break
        time.sleep(LOOK_S)
    yield from log.rest()
