"""The iterations of a loop as small cells of one picture, each by its index."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from noetl.facts.brief import brief
from noetl.facts.events import Event, IterationFailed
from noetl.history.run_details import IterationStanding, LoopedItems, find_items, find_standings

#: Cells of a row: of few, and of many, which are half as large. More than that are shown as ranges.
_COLUMNS: Final = 40
_DENSE_COLUMNS: Final = 80
_DENSE: Final = 400
MOST_CELLS: Final = 2_000
#: So many iterations are links, whatever became of them.
MOST_LINKS: Final = 500
#: Units of the picture from one cell to the next.
PITCH: Final = 12
#: Iterations that are named beside the picture.
_NAMED: Final = 12
#: Characters of an item.
_SHOWN: Final = 60

#: What a range is shown as: what one would look for first.
_ORDER: Final[Sequence[IterationStanding]] = ("failed", "cancelled", "waiting", "running", "open", "done")
_TELLING: Final = frozenset({"failed", "cancelled", "waiting"})
_WORDS: Final[Mapping[IterationStanding, str]] = {"open": "not begun"}


@dataclass(frozen=True, slots=True)
class IterationCell:
    """One iteration, or a range of them, at `x`, `y` of the picture. Without a `url` it leads
    nowhere."""

    standing: IterationStanding
    x: int
    y: int
    text: str
    url: str | None
    index: int


@dataclass(frozen=True, slots=True)
class NamedIterations:
    """Iterations that one looks for first: the first ones of a standing, and how many follow."""

    standing: IterationStanding
    first: Sequence[tuple[int, str]]
    more: int


@dataclass(frozen=True, slots=True)
class IterationMap:
    """`each` is how many iterations a cell stands for."""

    total: int
    each: int
    cells: Sequence[IterationCell]
    named: Sequence[NamedIterations]

    @property
    def width(self) -> int:
        return min(_columns(len(self.cells)), max(1, len(self.cells))) * PITCH

    @property
    def height(self) -> int:
        return -(-len(self.cells) // _columns(len(self.cells))) * PITCH

    @property
    def scale(self) -> float:
        """How large its units are."""
        return _COLUMNS / _columns(len(self.cells))


def _columns(cells: int) -> int:
    return _DENSE_COLUMNS if cells > _DENSE else _COLUMNS


def map_iterations(
    events: Sequence[Event], total: int, *, over: bool, address: Callable[[int], str]
) -> IterationMap:
    """Those that the events of a run tell of; `address` is that of an iteration's page."""
    standings = find_standings(events, total, over=over)
    each = max(1, -(-total // MOST_CELLS))
    texts = _Texts(find_items(events), dict(_failures(events)))
    drawn = _Drawing(standings, each, texts, address)
    return IterationMap(total, each, list(drawn.cells()), list(drawn.named()))


def _failures(events: Sequence[Event]) -> Iterator[tuple[int | None, str]]:
    for event in events:
        if isinstance(event.fact, IterationFailed) and event.fact.error.item_text:
            yield event.draft.iteration, event.fact.error.item_text


@dataclass(frozen=True, slots=True)
class _Texts:
    """What is known of items without fetching them."""

    items: LoopedItems
    failures: Mapping[int | None, str]

    def of(self, index: int) -> str:
        known = self.failures.get(index)
        if known is not None:
            return f", item {known}"
        chunks = reversed([(0, self.items.first), *self.items.added])
        start, chunk = next((one for one in chunks if one[0] <= index), (0, None))
        if not isinstance(chunk, list) or index - start >= len(chunk):
            return ""
        return f", item {brief(chunk[index - start], _SHOWN)}"


@dataclass(frozen=True, slots=True)
class _Drawing:
    standings: Sequence[IterationStanding]
    each: int
    texts: _Texts
    address: Callable[[int], str]

    def cells(self) -> Iterator[IterationCell]:
        starts = range(0, len(self.standings), self.each)
        columns = _columns(len(starts))
        for number, first in enumerate(starts):
            part = self.standings[first : first + self.each]
            standing = min(part, key=_ORDER.index)
            index = first + part.index(standing)
            is_link = len(self.standings) <= MOST_LINKS or standing in _TELLING
            yield IterationCell(
                standing,
                number % columns * PITCH,
                number // columns * PITCH,
                self._text(first, part, standing, index),
                self.address(index) if is_link else None,
                index,
            )

    def _text(self, first: int, part: Sequence[IterationStanding], standing: str, index: int) -> str:
        if len(part) == 1:
            return f"iteration {first}{self.texts.of(first)}: {say_standing(part[0])}"
        counts = ", ".join(f"{part.count(one)} {say_standing(one)}" for one in _ORDER if one in part)
        begin = f"iterations {first} to {first + len(part) - 1}: {counts}"
        return f"{begin}; {index} {standing}" if standing in _TELLING else begin

    def named(self) -> Iterator[NamedIterations]:
        for standing in _ORDER[:3]:
            found = [index for index, one in enumerate(self.standings) if one == standing]
            if found:
                first = [(index, self.address(index)) for index in found[:_NAMED]]
                yield NamedIterations(standing, first, len(found) - len(first))


def say_standing(standing: IterationStanding) -> str:
    return _WORDS.get(standing, standing)
