"""Following an execution until it ends, wherever it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import click

from noetl.cli.progress import ProgressView
from noetl.errors import NoetlError, Unavailable
from noetl.facts.events import Event
from noetl.usecases.ports import ENDED

#: Events that are asked for at once.
PAGE = 1000

#: Why an execution ended that somebody interrupted.
REASON = "interrupted from the keyboard"


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
    """One execution, as whoever follows it sees it."""

    def page(self, after: int, wait_s: float, *, until_idle: bool) -> EventBatch:
        """At most `PAGE` events behind version `after`. Without any it may take `wait_s` seconds to
        answer, but not longer than until the execution has ended, or (`until_idle`) is idle."""
        ...

    def cancel(self, reason: str) -> None: ...


def follow(
    source: FollowedExecution,
    progress: ProgressView,
    *,
    wait: bool,
    wait_s: float,
    meanwhile: Callable[[], None] = lambda: None,
) -> None:
    """Tells `progress` every event until the execution ends; without `wait`, until it is idle.
    Calls `meanwhile` in between, at least every `wait_s` seconds. Ctrl-C cancels the execution; a
    second one leaves."""
    seen, interrupted = 0, False
    while True:
        try:
            meanwhile()
            page = source.page(seen, min(wait_s, progress.tick_s), until_idle=not wait)
            for event in page.events:
                progress.on(event)
                seen = event.version
            if seen >= page.version and (page.status in ENDED or (page.idle and not wait)):
                return
            progress.tick()
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
        click.echo(f"It is not cancelled: {error.message} Press Ctrl-C again to leave it as it is.", err=True)
    except NoetlError as error:
        # It ended in this very moment: the loop sees that next.
        click.echo(error.message, err=True)
