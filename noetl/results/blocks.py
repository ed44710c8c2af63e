"""Lists in blocks, of which only those are read that are looked into."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any, overload

from noetl.errors import BadRequest
from noetl.facts.json import Json
from noetl.facts.reference import Lazy, Load


class Blocks(Lazy):
    """A list of blocks, one behind the other."""

    __slots__ = ()

    @abstractmethod
    def ends(self) -> Sequence[int]:
        """Where each block begins, and behind these where the last one ends."""

    @abstractmethod
    def block(self, number: int) -> Sequence[Json]:
        """The items of one block, not to be changed."""

    def __len__(self) -> int:
        return self.ends()[-1]

    @overload
    def __getitem__(self, index: int) -> Json: ...
    @overload
    def __getitem__(self, index: slice) -> list[Json]: ...
    def __getitem__(self, index: int | slice) -> Json | list[Json]:
        if isinstance(index, slice):
            return self._some(range(*index.indices(len(self))))
        at = index if index >= 0 else index + len(self)
        if not 0 <= at < len(self):
            raise IndexError(index)
        return self._some(range(at, at + 1))[0]

    def _some(self, wanted: range) -> list[Json]:
        """Each block is read once, however many of its items are wanted."""
        items: list[Json] = []
        ends, start, end = self.ends(), 0, 0
        block: Sequence[Json] = ()
        for at in wanted:
            if not start <= at < end:
                number = bisect_right(ends, at) - 1
                start, end = ends[number], ends[number + 1]
                block = self.block(number)
            items.append(block[at - start])
        return items

    def pages(self) -> Iterator[list[Json]]:
        for number, (start, end) in enumerate(pairwise(self.ends())):
            if end > start:
                yield list(self.block(number))


class PartBlocks(Blocks):
    """What a manifest loads to: each part is read when somebody looks into it. Raises BadRequest
    where `manifest` is none."""

    __slots__ = ("_ends", "_load", "_parts")

    def __init__(self, manifest: Mapping[str, Any], load: Load) -> None:
        self._load = load
        self._parts: list[Mapping[str, Any]] = list(manifest["parts"])
        if not all(map(_is_part, self._parts)):
            raise BadRequest("A part of this manifest has neither `items` nor `ref`, or no `count`.")
        self._ends = list(accumulate((part["count"] for part in self._parts), initial=0))

    def ends(self) -> Sequence[int]:
        return self._ends

    def block(self, number: int) -> Sequence[Json]:
        """Raises BadRequest where the part is no list of as many items as the manifest says."""
        part = self._parts[number]
        items = part["items"] if "items" in part else self._load(part["ref"])
        if not isinstance(items, Lazy | list) or len(items) != part["count"]:
            raise BadRequest("A part of this manifest is no list of as many items as it says.")
        return items

    def pages(self) -> Iterator[list[Json]]:
        for number in range(len(self._parts)):
            items = self.block(number)
            yield from items.pages() if isinstance(items, Lazy) else [list(items)]


def _is_part(part: Any) -> bool:
    if not isinstance(part, Mapping) or not isinstance(part.get("count"), int) or part["count"] < 0:
        return False
    return isinstance(part.get("items"), list) or isinstance(part.get("ref"), Mapping)
