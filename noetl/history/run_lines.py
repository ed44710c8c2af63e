"""One run of a step as it is followed, event by event, by what the state of the engine says of
it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from noetl.engine.iterations import fold_iteration, members
from noetl.engine.run_state import LoopState, Run, RunStatus
from noetl.facts import events as e
from noetl.facts.events import Event
from noetl.history.lines import IterationMark, LoopLine, RunLine
from noetl.history.segments import Segments


class RunTrace:
    """What is known of one run so far. `cause` is the run that fired it, None for the entry.
    Times are milliseconds since the execution was asked for."""

    __slots__ = (
        "_begin",
        "_end",
        "_ended_bits",
        "_kept_from",
        "_line",
        "_loop",
        "_marks",
        "_segments",
        "_status",
        "_step",
        "cause",
        "run_id",
    )

    def __init__(self, run: Run, at: float, cause: str | None, kept_from: str | None = None) -> None:
        self.run_id = run.id
        self.cause = cause
        self._kept_from = kept_from
        self._step = run.step
        self._status: RunStatus = run.status
        self._begin = (run.version, at)
        self._end: tuple[int, float] | None = None
        self._segments = Segments(at)
        self._loop: LoopLine | None = None
        self._marks: list[IterationMark] = []
        self._ended_bits = 0
        self._line: RunLine | None = None

    @property
    def ended(self) -> bool:
        return self._end is not None

    def take(
        self, event: Event, at: float, runs: tuple[Run | None, Run | None], read: Callable[[str], float]
    ) -> None:
        """An event of the run, which was `runs[0]` before it and is `runs[1]` behind it: None where
        the state holds it no more. `read` as in `Segments.take`."""
        if self.ended:
            return
        self._segments.take(event, at, read)
        before, after = runs
        loop = _loop_behind(before, after, event)
        if loop is not None:
            self._mark_iterations(loop, event.version, at)
        self._follow(event, at, after)

    def take_from_outside(self, event: Event, at: float, after: Run | None) -> None:
        """An event that names no run, and has changed this one."""
        if self.ended:
            return
        if after is not None and after.status == "waiting" and self._status != "waiting":
            self._segments.wait(at)
        self._follow(event, at, after)

    def _follow(self, event: Event, at: float, after: Run | None) -> None:
        self._status = _last_status(event) if after is None else after.status
        if after is None or after.ended:
            self._end = (event.version, at)
            self._segments.end(at, failed=self._status == "failed")

    def _mark_iterations(self, loop: LoopState, version: int, at: float) -> None:
        if self._loop is None or loop.count != self._loop.total:
            self._loop = LoopLine(loop.count, loop.mode, ())
        if loop.ended == self._ended_bits:
            return
        for index in members(loop.ended & ~self._ended_bits):
            self._marks.append(IterationMark(version, at, index, _status_of_iteration(loop, index)))
        self._ended_bits = loop.ended

    def line(self, at: float, *, critical: bool) -> RunLine:
        """The run as of `at`."""
        line = self._line
        if line is not None and line.end_version is not None and line.critical == critical:
            return line
        loop = self._loop and LoopLine(self._loop.total, self._loop.mode, tuple(self._marks))
        end_version, end = self._end or (None, None)
        self._line = RunLine(
            self.run_id,
            self._step,
            self._status,
            self._begin[0],
            end_version,
            self._begin[1],
            end,
            self._segments.so_far(at, ended=self.ended),
            loop,
            critical,
            self._kept_from,
        )
        return self._line


def _loop_behind(before: Run | None, after: Run | None, event: Event) -> LoopState | None:
    """The loop behind the event, also where that was the last one of a run which is gone with
    it."""
    if after is not None:
        return after.loop
    if before is None or before.loop is None or not isinstance(event.fact, e.LoopDone):
        return None
    return fold_iteration(before.loop, -1, event.fact)


def _status_of_iteration(loop: LoopState, index: int) -> Literal["done", "failed", "cancelled"]:
    if loop.failed >> index & 1:
        return "failed"
    return "cancelled" if loop.cancelled >> index & 1 else "done"


def _last_status(event: Event) -> RunStatus:
    """How a run ended that is gone with the event: a state holds every other one until it is
    routed."""
    if not isinstance(event.fact, e.LoopDone):
        return "cancelled"
    return "done" if event.fact.failure is None else "failed"
