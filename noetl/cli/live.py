"""The steps of an execution as a table on a terminal."""

from __future__ import annotations

import time
from typing import TextIO

from rich.console import Console
from rich.live import Live
from rich.progress_bar import ProgressBar
from rich.spinner import Spinner
from rich.table import Table
from rich.text import Text

from noetl.cli.progress import ProgressView, StepProgress, StepsProgress
from noetl.facts.events import Event

MARKS = {"running": "▶", "waiting": "…", "done": "✓", "failed": "✗", "skipped": "-", "cancelled": "■"}
#: Done, after errors that it went on after.
PARTLY_DONE = "!"
REDRAW_S = 0.08
STYLES = {"done": "green", "failed": "red", "cancelled": "yellow", "skipped": "dim"}


class LiveTable(ProgressView):
    """A table that redraws itself: one row for each step, a bar for each loop."""

    tick_s = REDRAW_S

    def __init__(self, stream: TextIO) -> None:
        self._steps = StepsProgress()
        self._drawn = 0.0
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

    def _table(self) -> Table:
        table = Table.grid(padding=(0, 1))
        for name, line in self._steps.lines.items():
            table.add_row(*_row(name, line))
        return table


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
