"""The last executions of a playbook as a grid: a column for each, a row for each of its steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from math import sqrt
from typing import Any, Final
from urllib.parse import quote, urlencode

from noetl.history.standings import StepStanding
from noetl.net.model import Net
from noetl.net.rows import lay_out
from noetl.ui.charts import say_span
from noetl.ui.instants import say_instant
from noetl.ui.playbook.listing import open_query
from noetl.ui.playbook.look import PlaybookLook
from noetl.usecases import inspect
from noetl.usecases.playbooks import steps_of_runs
from noetl.usecases.ports import ENDED, ExecutionRow

#: Executions that one page shows.
MOST: Final = 30
#: Pixels of the highest bar, and of the lowest.
HEIGHT: Final = 48
_LEAST: Final = 3
#: Rows for steps that only other versions have.
_MOST_GONE: Final = 50


@dataclass(frozen=True, slots=True)
class GridRun:
    """A column. `height` is that of its bar, in pixels; `version` is said where it differs from the
    column before."""

    row: ExecutionRow
    seconds: float
    height: float
    title: str
    version: int | None
    steps: Mapping[str, StepStanding]


@dataclass(frozen=True, slots=True)
class GridCell:
    """A step in one execution; `status` is empty where it has not begun there."""

    execution_id: str
    status: str
    title: str


@dataclass(frozen=True, slots=True)
class GridRow:
    """A step. `is_gone`: the version that is looked at does not have it."""

    step: str
    query: str
    is_gone: bool
    failed: int
    cells: Sequence[GridCell]


def gather(look: PlaybookLook) -> Mapping[str, Any]:
    """What `playbook/runs.html` shows."""
    before = look.asked.get("before") or None
    found = inspect.executions(
        look.visitor.rt,
        path=look.path,
        where=None if look.version is None else f"version = {look.version}",
        before=before,
        limit=MOST + 1,
    )
    rows = found[MOST - 1 :: -1] if len(found) > MOST else found[::-1]
    runs = _make_columns(rows, steps_of_runs(look.visitor.rt, rows), look.visitor.rt.clock())
    return {
        "runs": runs,
        "grid": list(_make_rows(look.net, runs)),
        "bar_height": HEIGHT,
        "longest": max((run.seconds for run in runs), default=0.0),
        "is_live": before is None,
        "older": look.here(before=rows[0].execution_id) if len(found) > MOST else None,
        "before": before,
        "all_query": urlencode({"path": look.path}),
        "open_query": open_query(look.path),
    }


def _make_columns(
    rows: Sequence[ExecutionRow], steps: Sequence[Mapping[str, StepStanding]], now: datetime
) -> list[GridRun]:
    """Bars are as high as the roots of durations: one that took very long leaves the others to be
    seen."""
    seconds = [_seconds(row, now) for row in rows]
    longest = max(seconds, default=0.0) or 1.0
    versions = [None, *(row.playbook_version for row in rows)]
    return [
        GridRun(
            row,
            took,
            round(max(_LEAST, HEIGHT * sqrt(took / longest)), 1),
            _say_run(row, took),
            row.playbook_version if row.playbook_version != versions[at] else None,
            steps[at],
        )
        for at, (row, took) in enumerate(zip(rows, seconds, strict=True))
    ]


def _seconds(row: ExecutionRow, now: datetime) -> float:
    end = row.ended_at or (now if row.imported_at is None else row.updated_at)
    return max((end - row.created_at).total_seconds(), 0.0)


def _say_run(row: ExecutionRow, took: float) -> str:
    verb = "duration" if row.status in ENDED else "for"
    return (
        f"{row.key or row.execution_id}: {row.status}, {verb} {say_span(took)}, started "
        f"{say_instant(row.created_at)}, v{row.playbook_version}"
    )


def _make_rows(net: Net | None, runs: Sequence[GridRun]) -> Iterator[GridRow]:
    """The steps of the net from top to bottom, then those that only other versions have had, as far
    as they were run."""
    known = [] if net is None else [one.step for one in lay_out(net).rows]
    begun = dict.fromkeys(step for run in reversed(runs) for step in run.steps)
    gone = [step for step in begun if step not in set(known)]
    for step in (*known, *gone[:_MOST_GONE]):
        cells = [_make_cell(step, run) for run in runs]
        failed = sum(one.status == "failed" for one in cells)
        yield GridRow(step, quote(step), net is not None and step not in net.steps, failed, cells)


def _make_cell(step: str, run: GridRun) -> GridCell:
    one = run.steps.get(step)
    if one is None:
        return GridCell(run.row.execution_id, "", "")
    times = f", {one.runs:,} runs" if one.runs > 1 else ""
    return GridCell(run.row.execution_id, one.status, f"{step}: {one.status}{times}")
