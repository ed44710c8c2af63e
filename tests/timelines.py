"""What must hold of the timeline of any log, at every version of it."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from noetl.engine.decision import status_of
from noetl.engine.evolve import replay
from noetl.engine.state import initial_state
from noetl.facts.events import Event
from noetl.history.lines import RunLine, StepChange, Timeline
from noetl.history.statuses import settle_status, statuses_of_steps
from noetl.history.timeline import TimelineFold
from noetl.net.model import Net


def fold(net: Net, events: Sequence[Event]) -> Timeline:
    """The timeline of a log, which is folded at once."""
    folding = TimelineFold(events[0].execution_id, net)
    for event in events:
        folding.take(event)
    return folding.timeline()


def check_timeline(net: Net, events: Sequence[Event], cut: int) -> None:
    """Raises AssertionError where a promise about the timeline of that log is broken. It is also
    looked at behind the first `cut` events."""
    whole = fold(net, events)
    folding = TimelineFold(events[0].execution_id, net)
    for event in events[:cut]:
        folding.take(event)
    assert folding.timeline() == fold(net, events[:cut])
    check_lines(folding.timeline(), events[:cut])
    for event in events[cut:]:
        folding.take(event)
    assert folding.timeline() == whole, "in two halves it is the same"
    check_statuses(whole, events)
    check_lines(whole, events)


def check_statuses(timeline: Timeline, events: Sequence[Event]) -> None:
    """The last change up to a version says what the state there is called."""
    state = initial_state(timeline.execution_id)
    for event, follows in zip(events, (*events[1:], None), strict=True):
        state = replay(state, [event])
        version = state.version
        said = {step.step: _at(step.changes, version) for step in timeline.steps}
        assert {name: status for name, status in said.items() if status} == statuses_of_steps(state), version
        called = [one.status for one in timeline.statuses if one.version <= version][-1]
        assert called == settle_status(status_of(state), follows), version
    for step in timeline.steps:
        record = state.steps.get(step.step)
        assert len(step.runs) == (record.runs if record else 0)


def _at(changes: Sequence[StepChange], version: int) -> str | None:
    before = [one.status for one in changes if one.version <= version]
    return before[-1] if before else None


def check_lines(timeline: Timeline, events: Sequence[Event]) -> None:
    assert len(timeline.at_ms) == timeline.version == len(events)
    assert list(timeline.at_ms) == sorted(timeline.at_ms)
    runs = {run.run_id: run for step in timeline.steps for run in step.runs}
    for run in runs.values():
        _check_run(run, timeline.at_ms)
    _check_way(timeline, runs)


def _check_run(run: RunLine, at_ms: Sequence[float]) -> None:
    assert run.segments, run
    assert run.segments[0].begin_ms == run.begin_ms == at_ms[run.begin_version - 1], run
    assert run.segments[-1].end_ms == run.end_ms, run
    assert (run.end_ms is None) == (run.end_version is None) == (run.status in ("running", "waiting")), run
    if run.end_version is not None:
        assert run.end_ms == at_ms[run.end_version - 1], run
    for segment, following in pairwise(run.segments):
        assert segment.end_ms == following.begin_ms, run
    for segment in run.segments:
        assert segment.end_ms is None or segment.begin_ms <= segment.end_ms, run
        assert (segment.attempt is not None) <= (segment.phase == "running"), run
    if run.loop is not None:
        ended = [mark.iteration for mark in run.loop.ended]
        assert len(ended) == len(set(ended)) <= run.loop.total, run


def _check_way(timeline: Timeline, runs: dict[str, RunLine]) -> None:
    way = [runs[name] for name in timeline.critical]
    assert {run.run_id for run in runs.values() if run.critical} == set(timeline.critical)
    assert len(way) == len(set(timeline.critical))
    ended = [run.end_version for run in runs.values() if run.end_version is not None]
    assert [run.end_version for run in way[-1:]] == ([max(ended)] if ended else [])
    for run, following in pairwise(way):
        assert run.begin_version < following.begin_version, (run, following)
