"""What the events of an execution say of its steps, for those who show it while it runs."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import assert_never

from noetl.engine.notices import PassedErrors, describe
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.facts.outcome import ErrorInfo

#: Errors that a step went on after that plain progress tells, one line each; the last line of the
#: step counts all.
ERRORS_TOLD = 10


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
    #: Nobody knows how many items there will be: a cursor finds them.
    grows: bool = False
    #: The errors that it went on after, over all its runs, and the iterations of this run that
    #: failed.
    passed: PassedErrors = field(default_factory=PassedErrors)
    failed: dict[int, ErrorInfo] = field(default_factory=dict)


class StepsProgress:
    """The steps of an execution as its events tell them."""

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
                return None  # told by those that have ended
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
                return _moved(line, event.fact)
            case _:
                return _ended(line, event.fact)
        return line


def _note_passed_error(
    line: StepProgress, fact: e.TaskFailed | e.TaskItemFailed | e.TaskCallFailed
) -> StepProgress | None:
    """The line, where its step goes on after the error."""
    line.passed = line.passed.after_task(fact)
    if isinstance(fact, e.TaskFailed) and fact.fatal:
        return None
    line.note = f"went on after an error{_of_item(fact.error)}: {_one_line(fact.error.message)}"
    return line if line.passed.count <= ERRORS_TOLD else None


def _of_item(error: ErrorInfo) -> str:
    return f" with item {error.item_text}" if error.item_text else ""


def _moved(
    line: StepProgress, fact: e.StepSuspended | e.StepResumed | e.ChildRequested
) -> StepProgress | None:
    """Out of its worker, and back again."""
    match fact:
        case e.StepSuspended(child=e.ChildCall(path=path)):
            line.status, line.note = "waiting", f"waits for playbook {path}"
            return None  # told when the child is there
        case e.StepSuspended(due_at=due):
            line.status, line.note = "waiting", f"until {due}" if due else "waiting"
        case e.StepResumed():
            line.status, line.note = "running", ""
            return None
        case e.ChildRequested():
            return _called(line, fact)
        case _:
            assert_never(fact)
    return line


def _called(line: StepProgress, fact: e.ChildRequested) -> StepProgress | None:
    """A loop may call thousands: it tells each path once."""
    if line.total is None:
        verb = "calls" if fact.detached else "waits for"
        line.note = f"{verb} playbook {fact.path} (execution {fact.child_id})"
        return line
    line.note = f"calls playbook {fact.path}"
    known = fact.path in line.called
    line.called.add(fact.path)
    return None if known else line


def _ended(line: StepProgress, fact: e.Fact) -> StepProgress | None:
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
