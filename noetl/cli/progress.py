"""What people see while an execution runs: here plain lines, in `live` a table on a terminal.

Both are written to standard error; standard output belongs to the result.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field
from typing import TextIO, assert_never

from noetl.engine.notices import PassedErrors, describe
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.outcome import ErrorInfo

#: Errors that a step went on after that plain progress shows, one line each; the last line of the
#: step counts all.
ERRORS_SHOWN = 10


@dataclass(slots=True)
class StepProgress:
    """What is known of one step."""

    status: str = "running"
    note: str = ""
    runs: int = 0
    total: int | None = None
    ended: int = 0
    since: float = field(default_factory=time.monotonic)
    took: float | None = None
    called: set[str] = field(default_factory=set)
    #: The number of items is not known: a cursor finds them.
    grows: bool = False
    #: The errors that it went on after, over all its runs, and the iterations of this run that
    #: failed.
    passed: PassedErrors = field(default_factory=PassedErrors)
    failed: dict[int, ErrorInfo] = field(default_factory=dict)


class StepsProgress:
    """The steps of an execution, folded from its events."""

    def __init__(self) -> None:
        self.lines: dict[str, StepProgress] = {}

    def on(self, event: Event) -> StepProgress | None:
        """Folds the event; the line that it changed, or None."""
        step = event.draft.step
        if step is None:
            return None
        line = self.lines.setdefault(step, StepProgress())
        match event.fact:
            case e.StepScheduled():
                line.status, line.note, line.took = "running", "", None
                line.runs += 1
                line.total, line.ended, line.since = None, 0, time.monotonic()
                line.called.clear()
                line.failed = {}
            case e.LoopStarted(count=count, cursor=cursor):
                line.total, line.grows = count, cursor
            case e.LoopClaimed(count=count):
                line.total = (line.total or 0) + count
                return None  # reported by those that have ended
            case e.IterationDone():
                line.ended += 1
            case e.IterationFailed(error=error):
                line.ended += 1
                line.failed[event.draft.iteration or 0] = error
            case e.AttemptFailed(error=error):
                line.note = (
                    f"attempt {event.draft.attempt} failed{_of_item(error)}: {_one_line(error.message)}"
                )
            case e.TaskFailed() | e.TaskItemFailed() | e.TaskCallFailed():
                return _note_passed_error(line, event.fact)
            case e.StepSuspended() | e.StepResumed() | e.ChildRequested():
                return _note_move(line, event.fact)
            case _:
                return _note_end(line, event.fact)
        return line


def _note_passed_error(
    line: StepProgress, fact: e.TaskFailed | e.TaskItemFailed | e.TaskCallFailed
) -> StepProgress | None:
    """The line, where its step goes on after the error."""
    line.passed = line.passed.after_task(fact)
    if isinstance(fact, e.TaskFailed) and fact.fatal:
        return None
    line.note = f"went on after an error{_of_item(fact.error)}: {_one_line(fact.error.message)}"
    return line if line.passed.count <= ERRORS_SHOWN else None


def _of_item(error: ErrorInfo) -> str:
    return f" with item {error.item_text}" if error.item_text else ""


def _note_move(
    line: StepProgress, fact: e.StepSuspended | e.StepResumed | e.ChildRequested
) -> StepProgress | None:
    match fact:
        case e.StepSuspended(child=e.ChildCall(path=path)):
            line.status, line.note = "waiting", f"waits for playbook {path}"
            return None  # reported when the child is there
        case e.StepSuspended(due_at=due):
            line.status, line.note = "waiting", f"until {due}" if due else "waiting"
        case e.StepResumed():
            line.status, line.note = "running", ""
            return None
        case e.ChildRequested():
            return _note_call(line, fact)
        case _:
            assert_never(fact)
    return line


def _note_call(line: StepProgress, fact: e.ChildRequested) -> StepProgress | None:
    """A loop may call thousands: each path is reported once."""
    if line.total is None:
        verb = "calls" if fact.detached else "waits for"
        line.note = f"{verb} playbook {fact.path} (execution {fact.child_id})"
        return line
    line.note = f"calls playbook {fact.path}"
    known = fact.path in line.called
    line.called.add(fact.path)
    return None if known else line


def _note_end(line: StepProgress, fact: e.Fact) -> StepProgress | None:
    match fact:
        case e.StepDone():
            if line.failed:
                line.passed = line.passed.after_loop(line.failed, line.total or 0)
            line.status, line.note = "done", describe(line.passed)
        case e.StepFailed(error=error):
            line.status, line.note = "failed", f"{_one_line(error.message)}{_of_item(error)}"
        case e.StepSkipped(reason=reason):
            line.status, line.note = "skipped", reason
        case e.StepCancelled(reason=reason):
            line.status, line.note = "cancelled", reason
        case _:
            return None
    line.took = time.monotonic() - line.since
    return line


def _one_line(text: str) -> str:
    return " ".join(text.split())


class ProgressView:
    """Gets each event once, in order. This one shows nothing."""

    #: Seconds after which `tick` has something to do, though nothing happened.
    tick_s = math.inf

    def __enter__(self) -> ProgressView:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what is shown."""

    def on(self, event: Event) -> None:
        """Shows an event."""

    def tick(self) -> None:
        """Shows that time passes."""


def _describe_end(line: StepProgress) -> str:
    """`done, 1 error passed over, in 0.49 s`, `failed: why`."""
    if line.status != "done" or line.took is None:
        return line.status + (f": {line.note}" if line.note else "")
    return f"done, {line.note}, in {line.took:.2f} s" if line.note else f"done in {line.took:.2f} s"


def _is_worth_a_line(line: StepProgress) -> bool:
    """Every tenth of the items; where they grow in number 1 to 9, 10 to 90 and so on."""
    if line.grows:
        step = int(10 ** (len(str(line.ended)) - 1))
        return line.ended % step == 0
    total = line.total or 1
    return line.ended * 10 // total != (line.ended - 1) * 10 // total or line.ended == total


class PlainProgress(ProgressView):
    """One line for each thing worth saying; loops get one at every tenth of their items, or less
    and less often."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._closed = False
        self._steps = StepsProgress()

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
                if not _is_worth_a_line(line):
                    return
                text = f"{line.ended} of {line.total}" + (
                    f", {len(line.failed)} failed" if line.failed else ""
                )
            case e.ChildRequested():
                text = line.note
            case e.LoopStarted(count=count, cursor=cursor):
                text = "loop over what a cursor finds" if cursor else f"loop over {count} items"
            case _:
                text = _describe_end(line)
        self._write(f"{name}: {text}\n")

    def _write(self, text: str) -> None:
        if self._closed:
            return
        try:
            self._stream.write(text)
            self._stream.flush()
        except OSError:
            # The reader (`2>&1 | head`) has gone. The execution goes on.
            self._closed = True
