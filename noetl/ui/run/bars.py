"""The time that runs of steps took, as bars of SVG pictures: one for each row. Places are per cent
of the width, so that a picture is as wide as the page has room."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias, assert_never

from noetl.history.lines import IterationMark, RunLine, Segment, StepLine
from noetl.ui.charts import say_span

#: Pixels, in the row of a step: where bars begin, and how high they are together.
TOP: Final = 4
HEIGHT: Final = 17
#: Runs at the same time that are shown each for itself, and runs of one step.
_TRACKS: Final = 4
_RUNS: Final = 60
#: Cells of a strip, and its shades: the more, the darker.
_CELLS: Final = 80
_SHADES: Final = 4
#: Pixels that what failed is high in a strip, at least.
_FOOT: Final = 6.0
#: Per cent that a bar is wide at least, so that what was short can be seen and pointed at.
_LEAST: Final = 0.25
#: The same of what was kept, and took no time: its hatches are to be seen.
_KEPT: Final = 2.0
#: Ticks of the axis, about; and the times between them, from a millisecond to a week.
_TICKS: Final = 6
_SECOND: Final = 1_000.0
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_ROUND_MS: Final = (
    *(size * times for size in (1.0, 10.0, 100.0) for times in (1, 2, 5)),
    *(_SECOND * times for times in (1, 2, 5, 10, 15, 30)),
    *(_MINUTE * times for times in (1, 2, 5, 10, 15, 30)),
    *(_HOUR * times for times in (1, 2, 3, 6, 12)),
    *(_DAY * times for times in (1, 2, 7)),
)

#: How a bar is drawn: hatched, dotted, or solid in the colour of how it ended.
BarLook: TypeAlias = Literal["queued", "waiting", "running", "done", "failed", "cancelled", "skipped", "kept"]


@dataclass(frozen=True, slots=True)
class TimeBar:
    """A piece of a run, or a cell of a strip. `x` and `width` in per cent, `y` and `height` in
    pixels; `shade` is 1 to 4 in strips, else 0."""

    look: BarLook
    x: float
    width: float
    y: float
    height: float
    title: str
    critical: bool = False
    shade: int = 0


@dataclass(frozen=True, slots=True)
class Tick:
    """A mark of the axis, in per cent of the width."""

    x: float
    text: str


#: What of the width ticks may take: the text of one at the end would stand beyond it.
_EDGE: Final = 0.85


@dataclass(frozen=True, slots=True)
class TimeScale:
    """From the request of an execution to its end, or to now: `total_ms` milliseconds."""

    total_ms: float

    def place(self, at_ms: float) -> float:
        """Per cent of the width."""
        return round(min(max(at_ms / max(self.total_ms, 1.0), 0.0), 1.0) * 100, 3)

    def ticks(self) -> list[Tick]:
        """Round times, from 0 on."""
        step = _round_up(self.total_ms / _TICKS)
        return [
            Tick(self.place(step * count), say_tick(step * count))
            for count in range(int(self.total_ms / step) + 1)
            if step * count <= self.total_ms * _EDGE
        ]


def _round_up(ms: float) -> float:
    """The least round time that is not shorter."""
    at = bisect_left(_ROUND_MS, ms)
    return _ROUND_MS[at] if at < len(_ROUND_MS) else _ROUND_MS[-1] * -(-ms // _ROUND_MS[-1])


def say_tick(ms: float) -> str:
    """A time of the axis: `0`, `250 ms`, `1.5 s`, `3 m 20 s`."""
    if ms < _SECOND:
        return f"{ms:g} ms" if ms else "0"
    return f"{ms / _SECOND:g} s" if ms < _MINUTE else say_span(ms / _SECOND)


def draw_bars(line: StepLine, scale: TimeScale) -> list[TimeBar]:
    """The runs of a step: each for itself, or how many there were at a time."""
    tracks = _find_tracks(line.runs, scale.total_ms)
    if len(line.runs) > _RUNS or (tracks and max(tracks) >= _TRACKS):
        return list(_draw_density(line.runs, scale))
    count = max(tracks, default=0) + 1
    height = (HEIGHT - 2 * (count - 1)) / count
    bars: list[TimeBar] = []
    for run, track in zip(line.runs, tracks, strict=True):
        bars += _draw_run(run, scale, round(TOP + track * (height + 2), 2), round(height, 2))
    return bars


def _find_tracks(runs: Sequence[RunLine], now_ms: float) -> list[int]:
    """For each run the first track in which no other one is drawn at that time."""
    ends: list[float] = []
    found: list[int] = []
    for run in runs:
        track = next((at for at, end in enumerate(ends) if end <= run.begin_ms), len(ends))
        ends[track : track + 1] = [now_ms if run.end_ms is None else run.end_ms]
        found.append(track)
    return found


def _draw_run(run: RunLine, scale: TimeScale, y: float, height: float) -> Iterator[TimeBar]:
    if run.kept_from is not None:
        x = min(scale.place(run.begin_ms), 100 - _KEPT)
        yield TimeBar("kept", x, _KEPT, y, height, f"{run.run_id}: kept from {run.kept_from}", run.critical)
        return
    strip = () if run.loop is None else run.loop.ended
    for segment in run.segments:
        end = scale.total_ms if segment.end_ms is None else segment.end_ms
        x, width = _span(scale, segment.begin_ms, end)
        title = f"{run.run_id}: {_say(segment)} {say_span(max(end - segment.begin_ms, 0) / _SECOND)}"
        # What its iterations came to is drawn over it.
        shade = 1 if strip and segment.phase == "running" else 0
        look = _look_of(run, segment)
        yield TimeBar(look, x, width, y, height, title, run.critical, shade)
    if strip:
        yield from _draw_strip(run, strip, scale, y, height)


def _span(scale: TimeScale, begin_ms: float, end_ms: float) -> tuple[float, float]:
    x = scale.place(begin_ms)
    width = max(round(scale.place(end_ms) - x, 3), _LEAST)
    return min(x, 100 - width), width


def _say(segment: Segment) -> str:
    attempt = f"attempt {segment.attempt}" if segment.attempt is not None and segment.attempt > 1 else ""
    if segment.lost is not None:
        return f"delivery {segment.lost} was lost with its worker, and begun again, after"
    match segment.phase:
        case "queued":
            return "waited for a worker for"
        case "waiting":
            return "waited for"
        case "running" if segment.failed:
            return f"attempt {segment.attempt or 1} failed after"
        case "running":
            return f"{attempt} ran for".strip()
        case _:
            assert_never(segment.phase)


def _look_of(run: RunLine, segment: Segment) -> BarLook:
    if segment.failed or segment.lost is not None:
        return "failed"
    if segment.phase != "running":
        return segment.phase
    if run.end_ms is None or run.status == "waiting":
        return "running"
    # Its end has the colour of how it ended; what came before that went well.
    return run.status if segment is run.segments[-1] else "done"


# --- strips ---------------------------------------------------------------------------------------


def _draw_strip(
    run: RunLine, ended: Sequence[IterationMark], scale: TimeScale, y: float, height: float
) -> Iterator[TimeBar]:
    """The iterations that ended: the more at a time, the darker; those that failed at the foot."""
    end = scale.total_ms if run.end_ms is None else run.end_ms
    x, width = _span(scale, run.begin_ms, end)
    long = max(end - run.begin_ms, 1e-6)
    cells, failed = Counter[int](), Counter[int]()
    for one in ended:
        cell = min(int((one.at_ms - run.begin_ms) / long * _CELLS), _CELLS - 1)
        cells[cell] += 1
        failed[cell] += one.status == "failed"
    most = max(cells.values())
    for cell, count in sorted(cells.items()):
        title = f"{run.run_id}: {count} iterations ended"
        # The palest shade is that of the bar below.
        shade = 2 + (count - 1) * (_SHADES - 1) // most
        place, wide = round(x + width * cell / _CELLS, 3), round(width / _CELLS, 3)
        yield TimeBar("done", place, wide, y, height, title, shade=shade)
        if failed[cell]:
            foot = round(max(_FOOT, height * failed[cell] / count), 2)
            title = f"{run.run_id}: {failed[cell]} of {count} iterations failed"
            yield TimeBar("failed", place, wide, y + height - foot, foot, title)


def _draw_density(runs: Sequence[RunLine], scale: TimeScale) -> Iterator[TimeBar]:
    """How many runs there were at a time, where they are too many to be told apart."""
    width = scale.total_ms / _CELLS
    counts, failed = [0] * _CELLS, [0] * _CELLS
    for run in runs:
        end = scale.total_ms if run.end_ms is None else run.end_ms
        first, last = (min(int(at / max(width, 1e-6)), _CELLS - 1) for at in (run.begin_ms, end))
        for cell in range(first, last + 1):
            counts[cell] += 1
        failed[last] += run.status == "failed"
    most = max(counts, default=0)
    for cell, count in enumerate(counts):
        if count:
            look: BarLook = "failed" if failed[cell] else "done"
            title = f"{count} runs" + (f", {failed[cell]} failed" if failed[cell] else "")
            shade = 1 + (count - 1) * _SHADES // most
            place, wide = round(100 * cell / _CELLS, 3), round(100 / _CELLS, 3)
            yield TimeBar(look, place, wide, TOP, HEIGHT, title, shade=shade)


# --- versions -------------------------------------------------------------------------------------


def status_at(line: StepLine, version: int) -> str:
    """The status of a step as of a version; `not_run` before it has one."""
    at = bisect_right(line.changes, version, key=lambda change: change.version)
    return line.changes[at - 1].status if at else "not_run"
