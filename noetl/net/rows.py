"""Nets as rows: each step has a row of its own, and arcs run in lanes beside the rows.

So a graph can stand beside a table or a timeline of the same steps. It is how histories of commits
are drawn: a lane belongs to the step that is led to, and arcs to the same step share it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from noetl.net.model import Net

#: What leads from one step to another one: an arc, or what a handler is there for.
WireKind: TypeAlias = Literal["arc", "undo", "finally"]


@dataclass(frozen=True, slots=True)
class Wire:
    """What leads from the step of row `begin` to that of row `end`, in `lane` between them. It
    leads upwards, or back to its own row, where `end` is not greater. `id` is that of the arc;
    handlers have `step/kind`."""

    id: str
    kind: WireKind
    begin: int
    end: int
    lane: int


@dataclass(frozen=True, slots=True)
class StepRow:
    """Row and lane of a step, both from 0."""

    step: str
    row: int
    lane: int


@dataclass(frozen=True, slots=True)
class RowLayout:
    """The rows from top to bottom, and what leads from one to another. `lanes` counts them."""

    rows: tuple[StepRow, ...]
    wires: tuple[Wire, ...]
    lanes: int


def lay_out(net: Net, hidden: Collection[str] = ()) -> RowLayout:
    """The rows of a net: a step stands below those that lead to it, but where it is led back to;
    branches stay together, and handlers and the final step stand last. Steps that are `hidden` have
    none, nor has what leads to them or away."""
    order = {step: row for row, step in enumerate(one for one in _order(net) if one not in hidden)}
    links = [
        _Link(one, kind, order[a], order[b])
        for one, kind, a, b in _find_links(net)
        if a in order and b in order
    ]
    placing = _Placing(links)
    rows = tuple(StepRow(step, row, placing.place(row)) for step, row in order.items())
    return RowLayout(rows, tuple(placing.wire(one) for one in links), placing.count)


# --- order ----------------------------------------------------------------------------------------


def _order(net: Net) -> list[str]:
    """The steps from top to bottom."""
    ahead = {step.name: [arc.step for arc in step.ways] for step in net.transitions}
    back = _find_back(ahead, (net.entry, *net.steps))
    before = dict.fromkeys(ahead, 0)
    for source, targets in ahead.items():
        for target in targets:
            before[target] += (source, target) not in back
    last = {*net.handlers, *filter(None, (net.final_step,))}
    begins = [step for step in net.steps if not before[step] and step not in last]
    behind = [step for step in net.steps if step in net.handlers]
    found: dict[str, None] = {}
    # The final step is the only one that is left then.
    for begin in (net.entry, *begins, *behind, *net.steps):
        waiting = [begin] if before[begin] == 0 else []
        while waiting:
            step = waiting.pop()
            if step in found:
                continue
            found[step] = None
            for target in reversed(ahead[step]):
                before[target] -= (step, target) not in back
                if before[target] == 0:
                    waiting.append(target)
    return list(found)


def _find_back(ahead: Mapping[str, list[str]], begins: Iterable[str]) -> set[tuple[str, str]]:
    """The pairs of steps whose arcs close a circle, seen from those with which it begins."""
    found, seen = set[tuple[str, str]](), set[str]()
    for begin in begins:
        if begin in seen:
            continue
        seen.add(begin)
        path, open_ = {begin: iter(ahead[begin])}, [begin]
        while open_:
            step = open_[-1]
            target = next(path[step], None)
            if target is None:
                del path[open_.pop()]
            elif target in path:
                found.add((step, target))
            elif target not in seen:
                seen.add(target)
                path[target] = iter(ahead[target])
                open_.append(target)
    return found


# --- lanes ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Link:
    id: str
    kind: WireKind
    begin: int
    end: int


def _find_links(net: Net) -> Iterator[tuple[str, WireKind, str, str]]:
    for arc in net.arcs.values():
        yield arc.id, "arc", arc.source, arc.step
    for step in net.transitions:
        if step.compensate is not None:
            yield f"{step.name}/undo", "undo", step.name, step.compensate.step
        if step.cleanup is not None:
            yield f"{step.name}/finally", "finally", step.name, step.cleanup


@dataclass(frozen=True, slots=True)
class _Held:
    """Whose a lane is: what leads down, or back up, to the step of row `target`; until that row is
    behind, or the last from which it is led back."""

    target: int
    until: int


class _Placing:
    """The lanes, row by row."""

    def __init__(self, links: Iterable[_Link]) -> None:
        self._lanes: list[_Held | None] = []
        self._down, self._up = dict[int, int](), dict[int, int]()
        self._leading = defaultdict[int, list[int]](list)
        self._returning: dict[int, int] = {}
        for link in links:
            if link.end > link.begin:
                self._leading[link.begin].append(link.end)
            else:
                self._returning[link.end] = max(self._returning.get(link.end, 0), link.begin)

    @property
    def count(self) -> int:
        return len(self._lanes)

    def place(self, row: int) -> int:
        """The lane of the step of that row; what leaves it gets its lanes. To be called from top to
        bottom."""
        self._free(row)
        own = self._down.get(row)
        if own is None:
            own = self._take(_Held(row, row))
        # What leads on may keep the lane of its step, so that a chain is one straight line.
        self._lanes[own] = None
        for target in self._leading[row]:
            if target not in self._down:
                self._down[target] = self._take(_Held(target, target))
        if self._lanes[own] is None:
            # Nothing crosses the step itself.
            self._lanes[own] = _Held(row, row)
        if row in self._returning:
            self._up[row] = self._take(_Held(row, self._returning[row]))
        return own

    def wire(self, link: _Link) -> Wire:
        """The link in its lane, once all rows are placed."""
        lanes = self._down if link.end > link.begin else self._up
        return Wire(link.id, link.kind, link.begin, link.end, lanes[link.end])

    def _take(self, held: _Held) -> int:
        free = next((lane for lane, other in enumerate(self._lanes) if other is None), None)
        if free is None:
            self._lanes.append(held)
            return len(self._lanes) - 1
        self._lanes[free] = held
        return free

    def _free(self, row: int) -> None:
        """Lets go of the lanes that nothing leads through any more at that row."""
        self._lanes = [None if one is not None and one.until < row else one for one in self._lanes]
