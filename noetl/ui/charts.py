"""Counts over time as bars of an SVG picture, and shares of a whole as one bar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from noetl.usecases.ports import ExecutionStatus, Tally

#: From the bottom of a bar to its top: what has ended well carries the rest.
ORDER: Final[Sequence[ExecutionStatus]] = (
    "completed",
    "cancelled",
    "partial",
    "failed",
    "paused",
    "waiting",
    "pending",
    "running",
)
#: Units of the picture.
WIDTH: Final = 600
HEIGHT: Final = 60
#: A part that is there is seen, however many the highest bar counts.
_LEAST: Final = 1.5
_GAP: Final = 1.0


@dataclass(frozen=True, slots=True)
class BarPart:
    """The executions of one status in one span."""

    status: ExecutionStatus
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Bar:
    """One span: from `since` to before `until`."""

    since: datetime
    until: datetime
    x: float
    width: float
    parts: Sequence[BarPart]
    text: str


def make_bars(tally: Tally) -> list[Bar]:
    """Those of the spans in which there are executions."""
    if tally.since is None or tally.until is None or not tally.spans:
        return []
    most = max(sum(span.values()) for span in tally.spans) or 1
    width = WIDTH / len(tally.spans)
    long = (tally.until - tally.since) / len(tally.spans)
    return [
        Bar(
            tally.since + long * at,
            tally.since + long * (at + 1),
            round(width * at, 2),
            round(width - _GAP, 2),
            list(_stack([(name, span[name]) for name in ORDER if span.get(name)], most)),
            ", ".join(f"{span[name]} {name}" for name in ORDER if span.get(name)),
        )
        for at, span in enumerate(tally.spans)
        if any(span.values())
    ]


def count_spans(times: Sequence[datetime], since: datetime, until: datetime, spans: int) -> Tally:
    """Failures that were at these times, in so many equal spans from `since` to `until`."""
    long = max((until - since).total_seconds(), 1.0)
    counts = [0] * spans
    for time in times:
        counts[min(max(int((time - since).total_seconds() / long * spans), 0), spans - 1)] += 1
    found: list[dict[ExecutionStatus, int]] = [{"failed": count} if count else {} for count in counts]
    return Tally({"failed": len(times)}, since, since + timedelta(seconds=long), found, is_whole=True)


@dataclass(frozen=True, slots=True)
class Share:
    """A part of one bar that is `WIDTH` wide."""

    name: str
    count: int
    x: float
    width: float


def make_shares(counts: Iterable[tuple[str, int]]) -> list[Share]:
    """One for each name that counts something, side by side, in their order."""
    given = [(name, count) for name, count in counts if count]
    whole, found, x = sum(count for _, count in given), list[Share](), 0.0
    for name, count in given:
        width = WIDTH * count / whole
        found.append(Share(name, count, round(x, 2), round(width, 2)))
        x += width
    return found


def _stack(counts: Sequence[tuple[ExecutionStatus, int]], most: int) -> Iterator[BarPart]:
    heights = [(name, max(_LEAST, HEIGHT * count / most)) for name, count in counts]
    # Parts that were made visible are not to stand out at the top.
    scale = min(1.0, HEIGHT / sum(height for _, height in heights))
    bottom = float(HEIGHT)
    for name, height in heights:
        bottom -= height * scale
        yield BarPart(name, round(bottom, 2), round(height * scale, 2))


def say_rate(per_second: float) -> str:
    """How often something happens, for people: `41/s`, `4.1/s`, `12/min`, `3/h`."""
    if per_second >= 1:
        return f"{per_second:,.{int(per_second < 10)}f}/s"
    return f"{per_second * 60:.0f}/min" if per_second * 60 >= 1 else f"{per_second * 3600:.0f}/h"


def say_about(seconds: float) -> str:
    """A duration that is only estimated: `about 40 s`, `about 3 min`, `about 2 h`, `about 5 d`."""
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= 1.5 * size:
            return f"about {seconds / size:.0f} {unit}"
    return f"about {max(seconds, 1):.0f} s"


def say_span(seconds: float) -> str:
    """A duration for people: `0.8 ms`, `42 ms`, `1.42 s`, `3 m 04 s`, `2 h 05 m`, `3 d 04 h`."""
    if seconds < 0.9995:
        return f"{seconds * 1000:.{int(seconds < 0.01)}f} ms"
    if seconds < 10:
        return f"{seconds:.2f} s"
    whole = int(seconds)
    for unit, smaller, size, part in (("d", "h", 86400, 3600), ("h", "m", 3600, 60), ("m", "s", 60, 1)):
        if whole >= size:
            return f"{whole // size} {unit} {whole % size // part:02} {smaller}"
    return f"{whole} s"
