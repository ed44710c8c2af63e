"""The graph of a playbook as lines of an SVG picture beside the rows of its steps."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from noetl.net.diagram import label_arc
from noetl.net.model import Net
from noetl.net.rows import RowLayout, Wire, WireKind, lay_out

#: Pixels: of a row; from its top to the middle of the mark of its step; from there to the ends of
#: lines.
ROW: Final = 28
MIDDLE: Final = 14
_GAP: Final = 9
#: Pixels between lanes, and between them all where there are many.
_LANE: Final = 18
_ALL_LANES: Final = 240
#: Pixels by which what leads back swings out below its step, twice as far as above the other one.
_TURN: Final = 8
#: Pixels of a head of an arrow, and of a stripe that marks a region.
_HEAD: Final = 3
_STRIPE: Final = 4

#: What has become of an arc: it was followed, asked and not followed, or not asked yet.
ArcFate: TypeAlias = Literal["taken", "missed", "open"]


@dataclass(frozen=True, slots=True)
class GraphLine:
    """What leads from one step to another: `path` is the `d` of an SVG path."""

    id: str
    kind: WireKind
    path: str
    source: str
    target: str
    label: str


@dataclass(frozen=True, slots=True)
class GraphNode:
    """Where the mark of a step is, in pixels."""

    step: str
    x: float
    y: float


@dataclass(frozen=True, slots=True)
class RegionStripe:
    """Rows of a region that follow one another, in pixels."""

    region: str
    x: float
    y: float
    height: float


@dataclass(frozen=True, slots=True)
class Graph:
    """The picture, in pixels."""

    nodes: tuple[GraphNode, ...]
    lines: tuple[GraphLine, ...]
    stripes: tuple[RegionStripe, ...]
    width: float
    height: float


def draw_graph(net: Net, hidden: Collection[str] = ()) -> Graph:
    """The picture of a net, whatever becomes of its steps, but for those that are `hidden`."""
    layout = lay_out(net, hidden)
    stripes = _find_stripes(net, layout)
    left = 4.0 + (max((one.x for one in stripes), default=-_STRIPE) + _STRIPE)
    pen = _Pen(layout, left + _GAP, min(float(_LANE), _ALL_LANES / max(layout.lanes, 1)))
    nodes = tuple(GraphNode(one.step, *pen.find(one.row)) for one in layout.rows)
    lines = tuple(_draw_line(net, layout, pen, wire) for wire in layout.wires)
    width = pen.left + pen.lane * max(layout.lanes - 1, 0) + _GAP
    return Graph(nodes, lines, tuple(stripes), round(width, 1), ROW * len(nodes))


def _draw_line(net: Net, layout: RowLayout, pen: _Pen, wire: Wire) -> GraphLine:
    source, target = layout.rows[wire.begin].step, layout.rows[wire.end].step
    arc = net.arcs.get(wire.id)
    label = label_arc(arc) if arc is not None else _WORDS[wire.kind]
    return GraphLine(wire.id, wire.kind, pen.draw(wire), source, target, label)


_WORDS: Final[Mapping[WireKind, str]] = {"arc": "", "undo": "undone by", "finally": "finally"}


class _Pen:
    """Writes lines of a picture whose first lane is at `left`; lanes are `lane` apart."""

    def __init__(self, layout: RowLayout, left: float, lane: float) -> None:
        self._layout = layout
        self.left, self.lane = left, lane

    def find(self, row: int) -> tuple[float, float]:
        """The middle of the mark of a row."""
        return self._x(self._layout.rows[row].lane), MIDDLE + ROW * row

    def _x(self, lane: int) -> float:
        return round(self.left + self.lane * lane, 1)

    def draw(self, wire: Wire) -> str:
        """Downwards: aside to its lane within the first row, then straight. Upwards: around below
        its step, straight, and around above the other one."""
        (x, y), (end, bottom), lane = self.find(wire.begin), self.find(wire.end), self._x(wire.lane)
        tip = f"M{end - _HEAD} {bottom - _GAP - _HEAD}l{_HEAD} {_HEAD}l{_HEAD} {-_HEAD}"
        if wire.end > wire.begin:
            begin, aside = y + _GAP, y + ROW - _GAP
            middle = (begin + aside) / 2
            bend = f"V{aside}" if lane == x else f"C{x} {middle} {lane} {middle} {lane} {aside}"
            return f"M{x} {begin}{bend}V{bottom - _GAP}{tip}"
        under, over = y + _GAP + _TURN, bottom - _GAP - _TURN / 2
        return (
            f"M{x} {y + _GAP}C{x} {under} {lane} {under} {lane} {y}V{bottom}"
            f"C{lane} {over} {end} {over} {end} {bottom - _GAP}{tip}"
        )


# --- regions --------------------------------------------------------------------------------------


def _find_stripes(net: Net, layout: RowLayout) -> list[RegionStripe]:
    """A column for each region; those inside of another one stand at its right."""
    found: list[RegionStripe] = []
    for column, region in enumerate(reversed(net.regions)):
        rows = [one.row for one in layout.rows if one.step in region.steps]
        for first, last in _runs_of(rows):
            y, height = ROW * first + 2, ROW * (last - first + 1) - 4
            found.append(RegionStripe(region.name, column * (_STRIPE + 2), y, height))
    return found


def _runs_of(rows: list[int]) -> list[tuple[int, int]]:
    found: list[tuple[int, int]] = []
    for row in rows:
        if found and found[-1][1] == row - 1:
            found[-1] = (found[-1][0], row)
        else:
            found.append((row, row))
    return found
