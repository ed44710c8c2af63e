"""What people see while an execution runs: a live table on a terminal, plain lines elsewhere.

Both are written to standard error; standard output belongs to the result.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Protocol, TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from noetl.facts import events as e
from noetl.facts.events import Event

MARKS = {"running": "▶", "waiting": "…", "done": "✓", "failed": "✗", "skipped": "-", "cancelled": "■"}
STYLES = {"done": "green", "failed": "red", "cancelled": "yellow", "skipped": "dim"}


class Progress(Protocol):
    """Is told each event once, in order."""

    def __enter__(self) -> Progress: ...

    def __exit__(self, *_: object) -> None: ...

    def on(self, event: Event) -> None: ...

    def tick(self) -> None: ...


@dataclass(slots=True)
class _Line:
    """What is known of one step."""

    status: str = "running"
    note: str = ""
    runs: int = 0
    total: int | None = None
    ended: int = 0
    since: float = field(default_factory=time.monotonic)
    took: float | None = None


class Story:
    """The steps of an execution as its events tell them."""

    def __init__(self) -> None:
        self.lines: dict[str, _Line] = {}

    def on(self, event: Event) -> _Line | None:
        """Folds the event; the line that it changed, or None."""
        step = event.draft.step
        if step is None:
            return None
        line = self.lines.setdefault(step, _Line())
        match event.fact:
            case e.StepScheduled():
                line.status, line.note, line.took = "running", "", None
                line.runs += 1
                line.total, line.ended, line.since = None, 0, time.monotonic()
            case e.LoopStarted(count=count):
                line.total = count
            case e.IterationDone() | e.IterationFailed():
                line.ended += 1
            case e.AttemptFailed(error=error):
                line.note = f"attempt {event.draft.attempt} failed: {error.message}"
            case e.StepSuspended(due_at=due):
                line.status, line.note = "waiting", f"until {due}" if due else "waiting"
            case _:
                return _ended(line, event.fact)
        return line


def _ended(line: _Line, fact: e.Fact) -> _Line | None:
    match fact:
        case e.StepDone():
            line.status, line.note = "done", ""
        case e.StepFailed(error=error):
            line.status, line.note = "failed", error.message
        case e.StepSkipped(reason=reason):
            line.status, line.note = "skipped", reason
        case e.StepCancelled(reason=reason):
            line.status, line.note = "cancelled", reason
        case _:
            return None
    line.took = time.monotonic() - line.since
    return line


class Plain:
    """One line for each thing worth saying; loops speak at every tenth of their items."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._story = Story()

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *_: object) -> None:
        self._stream.flush()

    def tick(self) -> None:
        """Nothing moves between events."""

    def on(self, event: Event) -> None:
        line = self._story.on(event)
        if line is None or event.draft.step is None:
            return
        match event.fact:
            case e.StepScheduled():
                text = "started" if line.runs == 1 else f"started (run {line.runs})"
            case e.IterationDone() | e.IterationFailed():
                total = line.total or 1
                if line.ended * 10 // total == (line.ended - 1) * 10 // total and line.ended != total:
                    return
                text = f"{line.ended} of {total}"
            case e.LoopStarted(count=count):
                text = f"loop over {count} items"
            case _:
                took = f" in {line.took:.2f} s" if line.took is not None and line.status == "done" else ""
                text = f"{line.status}{took}" + (f": {line.note}" if line.note else "")
        self._stream.write(f"{event.draft.step}: {text}\n")
        self._stream.flush()


class LiveTable:
    """A table that redraws itself: one row for each step, a bar for each loop."""

    def __init__(self, console: Console, title: str) -> None:
        self._story = Story()
        self._title = title
        # Without a thread of its own: `noetl up` forks, and `tick` comes often enough.
        self._live = Live(console=console, auto_refresh=False, get_renderable=self._table)

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def on(self, event: Event) -> None:
        self._story.on(event)

    def tick(self) -> None:
        self._live.refresh()

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        for name, line in self._story.lines.items():
            table.add_row(*_row(name, line))
        return table


def _row(name: str, line: _Line) -> tuple[Spinner | Text, Text, ProgressBar | Text, Text]:
    style = STYLES.get(line.status, "cyan")
    busy = line.status == "running"
    mark: Spinner | Text = Spinner("dots", style=style) if busy else Text(MARKS[line.status], style=style)
    runs = f" ×{line.runs}" if line.runs > 1 else ""
    middle: ProgressBar | Text = Text("")
    if line.total:
        middle = ProgressBar(total=line.total, completed=line.ended, width=24)
    took = time.monotonic() - line.since if line.took is None else line.took
    count = f"{line.ended}/{line.total} " if line.total else ""
    note = f"  {line.note}" if line.note else ""
    return (
        mark,
        Text(f"{name}{runs}"),
        middle,
        Text(f"{count}{took:.1f} s{note}", style="dim", overflow="fold"),
    )


def progress_for(stream: TextIO, title: str, *, quiet: bool = False) -> Progress:
    """The live table where `stream` is a terminal, else plain lines, else nothing."""
    if quiet:
        return Silent()
    if stream.isatty():
        return LiveTable(Console(file=stream), title)
    return Plain(stream)


class Silent:
    """Says nothing."""

    def __enter__(self) -> Silent:
        return self

    def __exit__(self, *_: object) -> None: ...

    def on(self, event: Event) -> None: ...

    def tick(self) -> None: ...
