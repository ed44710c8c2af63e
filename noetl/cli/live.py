"""The steps of an execution as a table on a terminal."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TextIO

from rich.console import Console, Group
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from noetl.cli.awaited import wait_line
from noetl.cli.progress import ProgressView, StepProgress, StepsProgress
from noetl.engine.waits import join_awaited
from noetl.facts.events import Event
from noetl.facts.json import JsonMap

MARKS = {"running": "▶", "waiting": "…", "done": "✓", "failed": "✗", "skipped": "-", "cancelled": "■"}
#: Done, after errors that it went on after.
PARTLY_DONE = "!"
REDRAW_S = 0.08
STYLES = {"done": "green", "failed": "red", "cancelled": "yellow", "skipped": "dim"}


class LiveTable(ProgressView):
    """A table that redraws itself: one row for each step, a bar for each loop."""

    tick_s = REDRAW_S
    shows_waits = True

    def __init__(self, stream: TextIO) -> None:
        self._steps = StepsProgress()
        self._drawn = 0.0
        self._waits: list[str] = []
        # Without its thread: `noetl up` forks, and `tick` comes often enough.
        self._live = Live(console=Console(file=stream), auto_refresh=False, get_renderable=self._table)

    def __enter__(self) -> LiveTable:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def on(self, event: Event) -> None:
        self._steps.on(event)

    def tick(self) -> None:
        now = time.monotonic()
        if now - self._drawn >= REDRAW_S:
            self._drawn = now
            self._live.refresh()

    def show_waits(self, waits: Sequence[JsonMap]) -> None:
        """In their rows; below the table where it has none, as of regions and of steps that have
        not begun."""
        self._waits = []
        for wait in waits:
            line = self._steps.lines.get(wait["step"])
            if line is None or line.status != "waiting":
                self._waits.append(wait_line(wait))
            else:
                line.note = f"for {join_awaited(wait)}"

    def _table(self) -> Group:
        table = Table.grid(padding=(0, 1))
        for name, line in self._steps.lines.items():
            table.add_row(*_row(name, line))
        lines = [*filter(None, [self._steps.ending]), *self._waits]
        return Group(table, *(Text(line, style="yellow", overflow="fold") for line in lines))


def _row(name: str, line: StepProgress) -> tuple[Spinner | Text, Text, ProgressBar | Text, Text]:
    partly = line.status == "done" and bool(line.passed)
    style = "yellow" if partly else STYLES.get(line.status, "cyan")
    mark = PARTLY_DONE if partly else MARKS[line.status]
    runs = f" ×{line.runs}" if line.runs > 1 else ""
    took = time.monotonic() - line.since if line.took is None else line.took
    count = f"{line.ended}/{line.total} " if line.total else ""
    note = f"  {line.note}" if line.note else ""
    return (
        Spinner("dots", style=style) if line.status == "running" else Text(mark, style=style),
        Text(f"{name}{runs}"),
        ProgressBar(total=line.total, completed=line.ended, width=24) if line.total else Text(""),
        Text(f"{count}{took:.1f} s{note}", style="dim", overflow="fold"),
    )
