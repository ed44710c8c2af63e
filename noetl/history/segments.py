"""What a run does with its time, told from its events: segments without gaps.

Whether it has ended, and how, says the state of the engine (`noetl.history.run_lines`); events only
say what it was busy with until then.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from noetl.facts import events as e
from noetl.facts import limits
from noetl.facts.events import Event
from noetl.history.lines import Phase, Segment


@dataclass(slots=True)
class _Now:
    """What the run does since `since`. A wait that ends by itself does so at `until`, and the run
    does `then` what it says."""

    phase: Phase
    since: float
    until: float | None = None
    then: Phase = "queued"


class Segments:
    """The segments of one run, which is queued at first. All times are milliseconds since the
    execution was asked for."""

    __slots__ = ("_accounted", "_attempt", "_closed", "_has_loop", "_now", "_resumed_at")

    def __init__(self, begin: float) -> None:
        self._closed: list[Segment] = []
        self._now = _Now("queued", begin)
        self._attempt = 1
        #: As far as its worker has accounted for its time: several events may be recorded at once.
        self._accounted = begin
        self._has_loop = False
        self._resumed_at: float | None = None

    def take(self, event: Event, at: float, read: Callable[[str], float]) -> None:
        """What the run does from an event of its own on, which was recorded at `at`. `read` makes
        milliseconds of an instant (ISO 8601)."""
        match event.fact:
            case e.LoopStarted():
                self._has_loop = True
            case e.CommandIssued(due_at=due) if self._now.phase != "running":
                self._wait_for_worker(at, at if due is None else read(due))
            case e.SlotRequested(part=limits.WHOLE) | e.StepSuspended():
                self.wait(at)
            case e.ResultDiscarded() as discarded if discarded.is_loss and not self._has_loop:
                self._lose(at, event.draft.attempt or 1)
            case e.SlotGranted(part=limits.WHOLE):
                self._turn("queued", at)
            case e.StepStarted(started_at=started):
                self._run(min(at, read(started)))
            case e.StepResumed():
                self._run(at)
                self._resumed_at = at
            case e.IterationStarted(started_at=started) | e.TaskStarted(started_at=started):
                self._find_running(min(at, read(started)))
                self._begin_earlier(at, read(started))
            case _:
                self._take_work(event, at)

    def _lose(self, at: float, delivery: int) -> None:
        """Its worker is gone, and it is queued again."""
        self._catch_up(at)
        at = max(at, self._now.since)
        self._close(at)
        self._closed[-1] = replace(self._closed[-1], lost=delivery)
        self._now = _Now("queued", at)
        self._accounted = at

    def _wait_for_worker(self, at: float, due: float) -> None:
        if due > at:
            self._turn("waiting", at, until=due)
        else:
            self._turn("queued", at)

    def _take_work(self, event: Event, at: float) -> None:
        """What a worker reports of tasks. Iterations have attempts of their own, and do not cut the
        segments of their run."""
        draft = event.draft
        if draft.source == "worker":
            # Lanes, and old logs, do not say when a worker began.
            self._find_running(at - (draft.duration_ms or 0.0))
            end = at if isinstance(event.fact, e.StepDone | e.StepFailed) else self._now.since
            self._begin_earlier(at, end - (draft.duration_ms or 0.0))
        if draft.iteration is not None:
            return
        match event.fact:
            case e.AttemptFailed():
                self._account(event, at)
                self._fail_attempt(draft.attempt or self._attempt)
            case e.TaskDone() | e.TaskFailed():
                self._account(event, at)
            case e.PolicyEvaluated(do="retry", delay=delay) if delay > 0:
                self._delay(draft.attempt or self._attempt, at, delay * 1000)
            case _:
                pass

    def _run(self, at: float) -> None:
        if self._now.phase != "running":
            self._turn("running", at)
            self._accounted = self._now.since

    def _find_running(self, at: float) -> None:
        """A worker says that it was at work by then. What still waits has left its worker."""
        self._catch_up(at)
        if self._now.phase == "queued":
            self._run(at)

    def _begin_earlier(self, at: float, begin: float) -> None:
        """That a worker has resumed the run is recorded with its first report, without an instant:
        what it reports then, it did before."""
        last = self._closed[-1] if self._closed else None
        if self._resumed_at != at or self._now.phase != "running" or last is None or last.attempt:
            return
        begin = max(begin, last.begin_ms)
        if begin < self._now.since:
            self._closed[-1:] = [replace(last, end_ms=begin)] if begin > last.begin_ms else []
            self._now.since = begin

    def _account(self, event: Event, at: float) -> None:
        """The worker has come to the end of an attempt."""
        self._catch_up(at)
        spent = event.draft.duration_ms
        self._accounted = at if spent is None else min(at, self._accounted + spent)

    def _fail_attempt(self, attempt: int) -> None:
        """The attempt of that number has failed, and the next one begins."""
        self._run(self._accounted)
        self._attempt = attempt
        cut = max(self._accounted, self._now.since)
        self._close(cut, failed=True)
        self._now = _Now("running", cut)
        self._attempt = attempt + 1

    def _delay(self, attempt: int, at: float, delay: float) -> None:
        """The attempt behind that one begins after so many milliseconds. A worker that sleeps for
        as long says nothing when it goes on."""
        if attempt == self._attempt:
            # It went well, and is repeated all the same.
            self._accounted = at
        begin = self._accounted
        self._turn("waiting", begin, until=begin + delay, then="running")
        self._attempt = attempt + 1

    def wait(self, at: float) -> None:
        """It waits, nobody knows how long."""
        self._turn("waiting", at)

    def _turn(self, phase: Phase, at: float, until: float | None = None, then: Phase = "queued") -> None:
        self._catch_up(at)
        if self._now.phase == phase:
            self._now.until, self._now.then = until, then
            return
        at = max(at, self._now.since)
        # What took no time is left out.
        if at > self._now.since:
            self._close(at)
        self._now = _Now(phase, at, until, then)

    def _catch_up(self, at: float) -> None:
        """A wait whose instant has come by then is over."""
        now = self._now
        if now.until is not None and now.until <= at:
            self._close(now.until)
            self._now = _Now(now.then, now.until)
            self._accounted = max(self._accounted, now.until)

    def _close(self, at: float, *, failed: bool = False) -> None:
        self._closed.append(self._make(max(at, self._now.since), failed))

    def _make(self, end: float | None, failed: bool) -> Segment:
        numbered = self._now.phase == "running" and not self._has_loop
        return Segment(self._now.phase, self._now.since, end, self._attempt if numbered else None, failed)

    def end(self, at: float, *, failed: bool) -> None:
        """The run has ended; where it `failed`, so has its last attempt."""
        self._catch_up(at)
        failed = failed and self._now.phase == "running" and not self._has_loop
        if at > self._now.since or failed or not self._closed:
            self._close(at, failed=failed)

    def so_far(self, at: float, *, ended: bool) -> tuple[Segment, ...]:
        """All of them as of `at`."""
        if ended:
            return tuple(self._closed)
        now = self._now
        if now.until is None or now.until > at:
            return (*self._closed, self._make(None, failed=False))
        waited = self._make(now.until, failed=False)
        attempt = self._attempt if now.then == "running" and not self._has_loop else None
        return (*self._closed, waited, Segment(now.then, now.until, None, attempt, failed=False))
