"""How far steps are, and how long they took, as of the version that the slider stands at."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from noetl.history.lines import LoopLine, RunLine, StepLine, Timeline
from noetl.history.pace import find_pace
from noetl.net.tasks import Loop
from noetl.ui.charts import say_about, say_rate

_SECOND: Final = 1_000.0


@dataclass(frozen=True, slots=True)
class TimelineMoment:
    """A version of an execution that was asked for at `begin`, `at_ms` milliseconds before.
    `is_now`: it goes on, and no event says when this is."""

    begin: datetime
    version: int
    at_ms: float
    is_now: bool

    @property
    def at(self) -> datetime:
        return self.begin + timedelta(milliseconds=self.at_ms)


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long the runs of a step took together. `since`: as if they had begun then, where the time
    goes on."""

    seconds: float
    since: datetime | None


def find_moment(line: Timeline, version: int, now_ms: float | None) -> TimelineMoment:
    """`now_ms`: of what goes on, when that is."""
    known = min(version, line.version)
    if now_ms is not None:
        return TimelineMoment(line.begin, known, now_ms, is_now=True)
    return TimelineMoment(line.begin, known, line.at_ms[known - 1] if known else 0.0, is_now=False)


def find_time(line: StepLine, now: TimelineMoment) -> StepTime | None:
    """None where no run had begun."""
    begun = _find_begun(line, now)
    if not begun:
        return None
    spent = sum(max(_end_of(run, now) - run.begin_ms, 0.0) for run in begun)
    goes_on = now.is_now and any(run.end_ms is None for run in begun)
    return StepTime(spent / _SECOND, now.at - timedelta(milliseconds=spent) if goes_on else None)


def find_kept(line: StepLine, now: TimelineMoment) -> str:
    """The execution from which a step was kept, by its last run; empty where it was not."""
    begun = _find_begun(line, now)
    return (begun[-1].kept_from or "") if begun else ""


def _end_of(run: RunLine, now: TimelineMoment) -> float:
    if run.end_ms is None or (run.end_version or 0) > now.version:
        return now.at_ms
    return run.end_ms


def _find_begun(line: StepLine, now: TimelineMoment) -> Sequence[RunLine]:
    return [run for run in line.runs if run.begin_version <= now.version]


# --- loops ----------------------------------------------------------------------------------------


def say_count(line: StepLine, now: TimelineMoment, rules: Loop | None) -> str:
    """How far a loop was and how fast it goes, or how often a step that ran more than once had
    begun."""
    begun = _find_begun(line, now)
    if not begun:
        return ""
    times = [f"{len(begun)} runs"] if len(begun) > 1 else []
    return " · ".join([*_say_loop(begun[-1], now, rules), *times])


def _say_loop(run: RunLine, now: TimelineMoment, rules: Loop | None) -> Iterator[str]:
    if run.loop is not None:
        yield _say_ended(run.loop, now.version)
    pace = find_pace(run, rules, now.at_ms) if now.is_now and rules is not None else None
    if pace is not None:
        yield say_rate(pace.per_second)
        if pace.left_s is not None:
            yield f"{say_about(pace.left_s)} left"


def _say_ended(loop: LoopLine, version: int) -> str:
    ended = bisect_right(loop.ended, version, key=lambda mark: mark.version)
    failed = sum(mark.status == "failed" for mark in loop.ended[:ended])
    return f"{ended:,} of {loop.total:,}" + (f", {failed:,} failed" if failed else "")
