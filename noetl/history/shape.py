"""Accounts, comparisons and timelines as JSON: the objects that `--json` prints and the API
answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Final

from noetl.facts.json import Json
from noetl.history.differences import Comparison
from noetl.history.lines import LoopLine, RunLine, Segment, StepLine, Timeline

#: Of each step so many of its newest runs are in the JSON of a timeline.
MOST_RUNS: Final = 500


def as_json(value: object) -> Json:
    """Every field of every account by its name, always there; instants are ISO 8601."""
    if is_dataclass(value) and not isinstance(value, type):
        return {one.name: as_json(getattr(value, one.name)) for one in fields(value)}
    if isinstance(value, Mapping):
        return {key: as_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [as_json(item) for item in value]
    return value.isoformat() if isinstance(value, datetime) else value


def comparison_as_json(comparison: Comparison) -> dict[str, Json]:
    """The same, with the sentence that sums it up."""
    return {"summary": comparison.summary, **as_json(comparison)}


def timeline_as_json(timeline: Timeline, most_runs: int = MOST_RUNS) -> dict[str, Json]:
    """`{execution_id, version, status, begin, at_ms, statuses, steps, arcs, critical}`, in short: a
    log of 10,000 events has as many instants. Times are whole milliseconds; a change is `[version,
    status]`, a segment `[phase, begin_ms, end_ms, attempt, failed]`. Of each step there are the
    newest `most_runs` runs."""
    return {
        "execution_id": timeline.execution_id,
        "version": timeline.version,
        "status": timeline.statuses[-1].status,
        "begin": timeline.begin.isoformat(),
        "at_ms": [round(at) for at in timeline.at_ms],
        "statuses": [[one.version, one.status] for one in timeline.statuses],
        "steps": {step.step: _step(step, most_runs) for step in timeline.steps},
        "arcs": {one.arc: {"taken": list(one.taken), "missed": list(one.missed)} for one in timeline.arcs},
        "critical": list(timeline.critical),
    }


def _step(step: StepLine, most_runs: int) -> dict[str, Json]:
    left_out = max(0, len(step.runs) - most_runs)
    return {
        "changes": [[one.version, one.status] for one in step.changes],
        "runs": [_run(run) for run in step.runs[left_out:]],
        "runs_left_out": left_out,
    }


def _run(run: RunLine) -> dict[str, Json]:
    return {
        "run_id": run.run_id,
        "status": run.status,
        "begin_version": run.begin_version,
        "end_version": run.end_version,
        "begin_ms": round(run.begin_ms),
        "end_ms": None if run.end_ms is None else round(run.end_ms),
        "critical": run.critical,
        "segments": [_segment(one) for one in run.segments],
        "loop": None if run.loop is None else _loop(run.loop),
    }


def _segment(one: Segment) -> list[Json]:
    end = None if one.end_ms is None else round(one.end_ms)
    return [one.phase, round(one.begin_ms), end, one.attempt, one.failed]


def _loop(loop: LoopLine) -> dict[str, Json]:
    ended: dict[str, list[int]] = {"done": [], "failed": [], "cancelled": []}
    for mark in loop.ended:
        ended[mark.status].append(mark.version)
    return {"total": loop.total, "mode": loop.mode, **ended}
