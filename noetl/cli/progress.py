"""What people see while an execution runs: here plain lines, in `live` a table on a terminal.

Both are written to standard error; standard output belongs to the result.
"""

from __future__ import annotations

import math
import shlex
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TextIO, assert_never

from noetl.cli.awaited import WaitLines
from noetl.engine.endings import say_handling
from noetl.engine.notices import PassedErrors, describe
from noetl.engine.slots import describe_slot
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.json import JsonMap
from noetl.facts.outcome import REUSED, ErrorInfo

#: Errors that a step went on after that plain progress shows, one line each; the last line of the
#: step counts all.
ERRORS_SHOWN = 10
#: What is not told of copies, which happened in the execution before: the line at the end of the
#: step counts them.
_PARTS: Final = (
    e.AttemptFailed,
    e.IterationDone,
    e.IterationFailed,
    e.TaskFailed,
    e.TaskItemFailed,
    e.TaskCallFailed,
)


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
    #: Results of its tasks that were recorded before, over all its runs.
    reused: int = 0
    #: Whether an iteration has asked for an approval.
    asks: bool = False


class StepsProgress:
    """The steps of an execution, folded from its events."""

    def __init__(self) -> None:
        self.lines: dict[str, StepProgress] = {}
        #: How the execution ends, while something is done at its end.
        self.ending = ""

    def on(self, event: Event) -> str | None:
        """Folds the event; what is worth a line of it, or None."""
        if event.draft.step is None:
            return self._note_whole(event.fact)
        line = self.lines.setdefault(event.draft.step, StepProgress())
        place, text = _note(line, event.draft.step, event)
        if event.draft.origin is not None and isinstance(event.fact, _PARTS):
            line.note = text = ""
        return f"{place}: {text}" if text else None

    def _note_whole(self, fact: e.Fact) -> str | None:
        """What happened to the execution."""
        match fact:
            case e.Closing(status=status):
                self.ending = f"ending as {status}"
                return self.ending
            case e.Processed() | e.Cancelled():
                self.ending = ""
        return None


def _note(line: StepProgress, step: str, event: Event) -> tuple[str, str]:
    """What is to be told of `step`, or of an iteration of it, and of which."""
    iteration = event.draft.iteration
    place = step if iteration is None else f"{step}[{iteration}]"
    match event.fact:
        case e.StepScheduled(handling=handling):
            _restart(line)
            line.note = "" if handling is None else say_handling(handling)
            return step, line.note or ("started" if line.runs == 1 else f"started (run {line.runs})")
        case e.LoopStarted(count=count, cursor=cursor):
            line.total, line.grows = count, cursor
            return step, "loop over what a cursor finds" if cursor else f"loop over {count} items"
        case e.LoopClaimed(count=count) | e.LoopGrown(count=count):
            line.total = (line.total or 0) + count
            return step, ""  # reported by those that have ended
        case e.IterationDone() | e.IterationFailed():
            return step, _note_iteration(line, event.fact, iteration or 0)
        case e.AttemptFailed(error=error):
            why = f"{_of_item(error)}: {_one_line(error.message)}"
            line.note = f"attempt {event.draft.attempt} failed{why}"
            return place, line.note
        case e.TaskFailed() | e.TaskItemFailed() | e.TaskCallFailed():
            return place, _note_passed_error(line, event.fact)
        case e.TaskDone(meta=meta):
            line.reused += event.draft.origin is not None or REUSED in meta
            return step, ""  # reported by the end of the step
        case (
            e.StepSuspended()
            | e.StepResumed()
            | e.ChildRequested()
            | e.IterationSuspended()
            | e.SlotRequested()
            | e.SlotGranted()
        ):
            return step, _note_move(line, event.fact) + _note_approval(line, event)
        case _:
            return step, _note_end(line, event.fact)


def _restart(line: StepProgress) -> None:
    line.status, line.note, line.took = "running", "", None
    line.runs += 1
    line.total, line.ended, line.since = None, 0, time.monotonic()
    line.called.clear()
    line.failed = {}


def _note_iteration(line: StepProgress, fact: e.IterationDone | e.IterationFailed, number: int) -> str:
    """Worth a line is every tenth of the items; where they grow in number 1 to 9, 10 to 90 and so
    on."""
    line.ended += 1
    if isinstance(fact, e.IterationFailed):
        line.failed[number] = fact.error
    if line.grows:
        is_worth_a_line = line.ended % 10 ** (len(str(line.ended)) - 1) == 0
    else:
        total = line.total or 1
        is_worth_a_line = line.ended * 10 // total != (line.ended - 1) * 10 // total or line.ended == total
    failed = f", {len(line.failed)} failed" if line.failed else ""
    return f"{line.ended} of {line.total}{failed}" if is_worth_a_line else ""


def _note_passed_error(line: StepProgress, fact: e.TaskFailed | e.TaskItemFailed | e.TaskCallFailed) -> str:
    line.passed = line.passed.after_task(fact)
    if isinstance(fact, e.TaskFailed) and fact.fatal:
        return ""
    line.note = f"went on after an error{_of_item(fact.error)}: {_one_line(fact.error.message)}"
    return line.note if line.passed.count <= ERRORS_SHOWN else ""


def _of_item(error: ErrorInfo) -> str:
    return f" with item {error.item_text}" if error.item_text else ""


def _note_slot(line: StepProgress, fact: e.SlotRequested | e.SlotGranted) -> str:
    match fact:
        case e.SlotRequested(part="-"):
            line.status, line.note = "waiting", f"for {' and '.join(map(describe_slot, fact.slots))}"
        case e.SlotGranted(part="-"):
            line.status, line.note = "running", ""
        case e.SlotRequested() | e.SlotGranted():
            # Lanes: the loop itself runs.
            pass
        case _:
            assert_never(fact)
    return ""


def _note_move(
    line: StepProgress,
    fact: e.StepSuspended
    | e.StepResumed
    | e.ChildRequested
    | e.IterationSuspended
    | e.SlotRequested
    | e.SlotGranted,
) -> str:
    match fact:
        case e.IterationSuspended():
            return ""  # its loop goes on
        case e.SlotRequested() | e.SlotGranted():
            return _note_slot(line, fact)
        case e.StepSuspended(child=e.ChildCall(path=path)):
            line.status, line.note = "waiting", f"waits for playbook {path}"
            return ""  # reported when the child is there
        case e.StepSuspended(wait=e.Wait() as wait):
            line.status, line.note = "waiting", _one_line(wait.describe())
            return f"waits for {line.note}"
        case e.StepSuspended(due_at=due):
            line.status, line.note = "waiting", f"until {due}" if due else "waiting"
            return f"waiting: {line.note}"
        case e.StepResumed():
            line.status, line.note = "running", ""
            return ""
        case e.ChildRequested():
            return _note_call(line, fact)
        case _:
            assert_never(fact)


def _note_approval(line: StepProgress, event: Event) -> str:
    """How to answer what is asked; of a loop, which may ask for thousands, at the first one."""
    wait, run, step = getattr(event.fact, "wait", None), event.execution_id, event.draft.step or ""
    if wait is None or not any(one.approval is not None for one in wait.awaited):
        return ""
    if event.draft.iteration is None:
        command = f"noetl execution approve {run} {shlex.quote(step)}"
        line.note += f": {command}"
        return f": {command}"
    if line.asks:
        return ""
    line.asks = True
    return f"waits for {_one_line(wait.describe())}: noetl approvals {run}"


def _note_call(line: StepProgress, fact: e.ChildRequested) -> str:
    """A loop may call thousands: each path is reported once."""
    if line.total is None:
        verb = "calls" if fact.detached else "waits for"
        line.note = f"{verb} playbook {fact.path} (execution {fact.child_id})"
        return line.note
    line.note = f"calls playbook {fact.path}"
    is_known = fact.path in line.called
    line.called.add(fact.path)
    return "" if is_known else line.note


def _note_undo(fact: e.ChildUndoRequested | e.ChildUndone) -> str:
    if isinstance(fact, e.ChildUndoRequested):
        return f"execution {fact.child_id} undoes what {fact.undoes} has done"
    if fact.error is None:
        return f"what {fact.undoes} had done is undone"
    return f"not all that {fact.undoes} had done is undone: {_one_line(fact.error.message)}"


def _note_end(line: StepProgress, fact: e.Fact) -> str:
    """`done, 1 ignored error, 3 reused, in 0.49 s`, `failed: why`."""
    match fact:
        case e.StepDone():
            if line.failed:
                line.passed = line.passed.after_loop(line.failed, line.total or 0)
            reused = f"{line.reused} reused" if line.reused else ""
            line.status, line.note = "done", ", ".join(filter(None, (describe(line.passed), reused)))
        case e.StepFailed(error=error) | e.LoopDone(failure=ErrorInfo() as error):
            line.status, line.note = "failed", f"{_one_line(error.message)}{_of_item(error)}"
        case e.StepSkipped(reason=reason):
            line.status, line.note = "skipped", reason
        case e.StepCancelled(reason=reason):
            line.status, line.note = "cancelled", reason
        case e.ChildUndoRequested() | e.ChildUndone():
            return _note_undo(fact)
        case _:
            return ""
    line.took = time.monotonic() - line.since
    if line.status != "done":
        return line.status + (f": {line.note}" if line.note else "")
    return f"done, {line.note}, in {line.took:.2f} s" if line.note else f"done in {line.took:.2f} s"


def _one_line(text: str) -> str:
    return " ".join(text.split())


class ProgressView:
    """Gets each event once, in order. This one shows nothing."""

    #: Seconds after which `tick` has something to do, though nothing happened.
    tick_s = math.inf
    #: Whether it wants to be told of what waits.
    shows_waits = False

    def __enter__(self) -> ProgressView:
        return self

    def __exit__(self, *_: object) -> None:
        """Ends what is shown."""

    def on(self, event: Event) -> None:
        """Shows an event."""

    def tick(self) -> None:
        """Shows that time passes."""

    def show_waits(self, waits: Sequence[JsonMap]) -> None:
        """Shows what waits for slots, or for the end of a pause: all that does now, each as in
        `engine.awaited`."""


class PlainProgress(ProgressView):
    """One line for each thing worth saying; loops get one at every tenth of their items, or less
    and less often."""

    shows_waits = True

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream
        self._closed = False
        self._steps = StepsProgress()
        self._execution_id = ""
        self._waits = WaitLines()

    def on(self, event: Event) -> None:
        self._execution_id = event.execution_id
        if (text := self._steps.on(event)) is not None:
            self._write(text)

    def show_waits(self, waits: Sequence[JsonMap]) -> None:
        for line in self._waits.lines(self._execution_id, waits):
            self._write(line)

    def _write(self, text: str) -> None:
        if self._closed:
            return
        try:
            self._stream.write(f"{text}\n")
            self._stream.flush()
        except OSError:
            # The reader (`2>&1 | head`) has gone. The execution goes on.
            self._closed = True
