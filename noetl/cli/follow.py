"""Following an execution, here or on a server, until it ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, Protocol, Self, TextIO, TypeVar

import click

from noetl.cli.progress import PlainProgress, ProgressView
from noetl.cli.shown_waits import ShownWaits
from noetl.cli.stalls import check_progress, leave_execution
from noetl.errors import Conflict, NoetlError, Unavailable
from noetl.facts.children import ChildEnded, ChildRequested
from noetl.facts.events import Event
from noetl.facts.json import JsonMap
from noetl.facts.logs import LogFilter
from noetl.usecases import awaited, control, history, inspect, logs
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.views import chunk_view

#: Events, and called executions, that are asked for at once.
PAGE: Final = 1000
#: Chunks of a log that are asked for at once.
LOG_PAGE: Final = 200
#: The events that a caller has of its children.
CALLS: Final = (ChildRequested.type, ChildEnded.type)
#: Lines that are shown of what failed.
LAST: Final = 10

#: Why an execution ended that was interrupted.
REASON: Final = "interrupted from the keyboard"

#: Seconds between two looks at an execution of this process, and those that running work has to
#: end, once Ctrl-C was pressed.
POLL_S: Final = 0.02
#: Seconds between two looks at one that waits for its next attempt.
RETRY_LOOK_S: Final = 0.2
GRACE_S: Final = 3.0


@dataclass(frozen=True, slots=True)
class EventBatch:
    """Events, and where the execution was when they were read.

    `idle`: nothing happens to it by itself; it has ended, or waits for something from outside.
    """

    events: Sequence[Event]
    status: str
    version: int
    idle: bool


class FollowedExecution(Protocol):
    """What is followed, here or on a server."""

    @property
    def execution_id(self) -> str: ...

    @property
    def is_here(self) -> bool:
        """Whether it runs in this process, and goes on no further than that does."""
        ...

    def page(self, after: int, wait_s: float, *, until_idle: bool) -> EventBatch:
        """At most `PAGE` events behind version `after`. Without any it may take `wait_s` seconds to
        answer, but not longer than until the execution has ended, or (`until_idle`) is idle."""
        ...

    def cancel(self, reason: str) -> None: ...

    def waits(self) -> Sequence[JsonMap]:
        """What it waits for: `waits` of its report."""
        ...

    def next_attempt(self) -> JsonMap | None:
        """Whether what has failed is retried by itself: `retry` of its report."""
        ...

    def another(self, execution_id: str) -> Self:
        """Another execution of the same place."""
        ...

    def logs(self, execution_id: str, after: int) -> Sequence[JsonMap]:
        """Chunks of the log of an execution behind a number, as the API shows them."""
        ...

    def calls(self, execution_id: str, after: int) -> Sequence[Event]:
        """The events behind a version that say that a child began, or has ended."""
        ...


@dataclass(frozen=True, slots=True)
class LocalExecution:
    """An execution of this process, or one in a database that it reaches."""

    rt: Runtime
    execution_id: str
    is_here: bool = True

    def page(self, after: int, wait_s: float, *, until_idle: bool) -> EventBatch:  # noqa: ARG002
        # Not as often as commits: looking takes time from what runs in this process.
        if after:
            time.sleep(wait_s)
        news = inspect.news(self.rt, self.execution_id, after, PAGE, ask_idle=True)
        return EventBatch(news.events, news.row.status, news.row.head_version, bool(news.idle))

    def cancel(self, reason: str) -> None:
        control.cancel(self.rt, self.execution_id, reason, grace_s=GRACE_S)

    def check_progress(self) -> None:
        """Raises Unavailable where this process cannot go on with it."""
        check_progress(self.rt, partial(leave_execution, self.execution_id))

    def waits(self) -> Sequence[JsonMap]:
        return awaited.awaited(self.rt, self.execution_id)

    def next_attempt(self) -> JsonMap | None:
        return history.next_attempt(self.rt, self.execution_id)

    def another(self, execution_id: str) -> Self:
        return replace(self, execution_id=execution_id)

    def logs(self, execution_id: str, after: int) -> Sequence[JsonMap]:
        return [
            chunk_view(chunk)
            for chunk in logs.page(self.rt, execution_id, LogFilter(), after, LOG_PAGE).chunks
        ]

    def calls(self, execution_id: str, after: int) -> Sequence[Event]:
        return inspect.events(self.rt, execution_id, after, types=CALLS)

    def report(self) -> JsonMap:
        """With `last_lines`, where a step failed: what it had printed at last."""
        found = inspect.report(self.rt, self.execution_id).as_json()
        error = find_failed_step(found)
        if error is None:
            return found
        where = LogFilter(error["step"], error.get("iteration"), error.get("attempt"))
        return {**found, "last_lines": logs.last_lines(self.rt, self.execution_id, where, LAST)}


def find_failed_step(report: JsonMap) -> JsonMap | None:
    """The error of a report, where it is that of a step."""
    error: JsonMap | None = report.get("error")
    return error if error and error.get("step") is not None else None


def progress_for(stream: TextIO | None, *, quiet: bool = False) -> ProgressView:
    """The live table where `stream` is a terminal, plain lines elsewhere, nothing where there is no
    stream."""
    if quiet or stream is None:
        return ProgressView()
    if stream.isatty():
        from noetl.cli.live import LiveTable  # draws with rich, which takes a while to import

        return LiveTable(stream)
    return PlainProgress(stream)


def follow(
    source: FollowedExecution,
    progress: ProgressView,
    *,
    wait: bool,
    wait_s: float,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Passes every event to `progress` until the execution ends; without `wait`, until it is idle.
    Calls `meanwhile` in between, at least every `wait_s` seconds. Ctrl-C cancels the execution; a
    second one leaves."""
    seen, interrupted = 0, False
    waits = ShownWaits(source.waits, progress)
    while True:
        try:
            meanwhile()
            page = source.page(seen, min(wait_s, progress.tick_s, waits.look_s), until_idle=not wait)
            for event in page.events:
                progress.on(event)
                seen = event.version
            waits.look(page.events, is_over=page.status in ENDED)
            if seen >= page.version and (page.status in ENDED or (page.idle and not wait)):
                return
            progress.tick()
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            _cancel(source)


Followed = TypeVar("Followed", bound=FollowedExecution)


def follow_attempts(
    source: Followed,
    follow_one: Callable[[Followed], None],
    *,
    wait_s: float,
    quiet: bool,
    meanwhile: Callable[[], None] = lambda: None,
) -> Followed:
    """Follows an execution with `follow_one`, and then those that retry it because the policy of
    its playbook says so. Returns the last one. Calls `meanwhile` while it waits for an attempt to
    begin, every `wait_s` seconds."""
    while True:
        follow_one(source)
        following = _await_next_attempt(source, meanwhile, wait_s, quiet=quiet)
        if following is None:
            return source
        source = source.another(following)


def _await_next_attempt(
    source: FollowedExecution, meanwhile: Callable[[], None], wait_s: float, *, quiet: bool
) -> str | None:
    """The execution that retries `source` by itself, once it has begun; None where none does.
    Ctrl-C calls it off; a second one leaves."""
    said, interrupted = "", False
    while True:
        try:
            meanwhile()
            found = source.next_attempt()
            if found is None or found["standing"] not in ("scheduled", "started"):
                return None
            if found["text"] != said and not quiet:
                said = found["text"]
                click.echo(f"{source.execution_id} failed. {said}", err=True)
            if found["standing"] == "started":
                return str(found["execution_id"])
            time.sleep(wait_s)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True
            _cancel(source)


def _cancel(source: FollowedExecution) -> None:
    click.echo("Cancelling; press Ctrl-C again to leave at once.", err=True)
    try:
        source.cancel(REASON)
    except Unavailable as error:
        if source.is_here:
            raise leave_execution(source.execution_id, f"It is not cancelled: {error.message}") from error
        click.echo(f"It is not cancelled: {error.message} Press Ctrl-C again to leave it as it is.", err=True)
    except NoetlError as error:
        # It ended in this very moment: the loop sees that next.
        click.echo(error.message, err=True)


def follow_descendants(
    rt: Runtime,
    execution_id: str,
    progress: ProgressView,
    *,
    wait: bool,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Waits until every execution that it called, and those that these called, has ended: detached
    ones, and those that are being cancelled because their caller has ended. No other process would
    resume them.

    Without `wait` those that only wait for outside input are left. Calls `meanwhile` in between.
    Ctrl-C cancels the rest; a second one leaves.
    """
    todo, cancelled, interrupted = [execution_id], set[str](), False
    while todo:
        try:
            meanwhile()
            here = todo[-1]
            if _is_over(rt, here, wait=wait):
                todo[-1:] = _children(rt, here)
                continue
            if interrupted and here not in cancelled:
                cancelled.add(here)
                with suppress(Conflict):  # it has ended
                    control.cancel(rt, here, REASON, grace_s=GRACE_S)
            progress.tick()
            time.sleep(POLL_S)
        except KeyboardInterrupt:
            if interrupted:
                raise
            interrupted = True


def _is_over(rt: Runtime, execution_id: str, *, wait: bool) -> bool:
    if inspect.execution(rt, execution_id).status in ENDED:
        return not inspect.has_to_notify(rt, execution_id)
    return not wait and inspect.is_idle(rt, execution_id)


def _children(rt: Runtime, execution_id: str) -> Iterator[str]:
    before = None
    while rows := inspect.executions(rt, parent=execution_id, before=before, limit=PAGE):
        yield from (row.execution_id for row in rows)
        before = rows[-1].execution_id
