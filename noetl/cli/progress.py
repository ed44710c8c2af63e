"""What people see while an execution runs: a live table on a terminal, plain lines elsewhere.

Both are written to standard error; standard output belongs to the result.
"""

from __future__ import annotations

import math
from typing import Protocol, TextIO

from noetl.cli.step_progress import StepProgress, StepsProgress
from noetl.facts import events as e
from noetl.facts.events import Event


class ProgressView(Protocol):
    """Is told each event once, in order."""

    #: Seconds after which `tick` has something to do, though nothing happened.
    tick_s: float

    def __enter__(self) -> ProgressView: ...

    def __exit__(self, *_: object) -> None: ...

    def on(self, event: Event) -> None: ...

    def tick(self) -> None: ...


def _ending(line: StepProgress) -> str:
    """`done, 1 error passed over, in 0.49 s`, `failed: why`."""
    if line.status != "done" or line.took is None:
        return line.status + (f": {line.note}" if line.note else "")
    return f"done, {line.note}, in {line.took:.2f} s" if line.note else f"done in {line.took:.2f} s"


def _worth_telling(line: StepProgress) -> bool:
    """Every tenth of the items; where they grow in number 1 to 9, 10 to 90 and so on."""
    if line.grows:
        step = int(10 ** (len(str(line.ended)) - 1))
        return line.ended % step == 0
    total = line.total or 1
    return line.ended * 10 // total != (line.ended - 1) * 10 // total or line.ended == total


class PlainProgress:
    """One line for each thing worth saying; loops speak at every tenth of their items, or less and
    less often."""

    tick_s = math.inf

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._deaf = False
        self._steps = StepsProgress()

    def __enter__(self) -> PlainProgress:
        return self

    def __exit__(self, *_: object) -> None: ...

    def tick(self) -> None:
        """Nothing moves between events."""

    def on(self, event: Event) -> None:
        line = self._steps.on(event)
        if line is None or event.draft.step is None:
            return
        name = event.draft.step
        match event.fact:
            case e.AttemptFailed() | e.TaskFailed() | e.TaskItemFailed() | e.TaskCallFailed():
                name += f"[{event.draft.iteration}]" if event.draft.iteration is not None else ""
                text = line.note
            case e.StepScheduled():
                text = "started" if line.runs == 1 else f"started (run {line.runs})"
            case e.IterationDone() | e.IterationFailed():
                if not _worth_telling(line):
                    return
                text = f"{line.ended} of {line.total}" + (
                    f", {len(line.failed)} failed" if line.failed else ""
                )
            case e.ChildRequested():
                text = line.note
            case e.LoopStarted(count=count, cursor=cursor):
                text = "loop over what a cursor finds" if cursor else f"loop over {count} items"
            case _:
                text = _ending(line)
        self._say(f"{name}: {text}\n")

    def _say(self, text: str) -> None:
        if self._deaf:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            # Whoever listened (`2>&1 | head`) has gone. The execution goes on.
            self._deaf = True


def progress_for(stream: TextIO | None, title: str, *, quiet: bool = False) -> ProgressView:
    """The live table where `stream` is a terminal, plain lines elsewhere, nothing where nobody
    listens."""
    if quiet or stream is None:
        return NoProgress()
    if stream.isatty():
        from noetl.cli.live import LiveTable  # draws with rich, which takes a while to import

        return LiveTable(stream, title)
    return PlainProgress(stream)


class NoProgress:
    """Says nothing."""

    tick_s = math.inf

    def __enter__(self) -> NoProgress:
        return self

    def __exit__(self, *_: object) -> None: ...

    def on(self, event: Event) -> None: ...

    def tick(self) -> None: ...
