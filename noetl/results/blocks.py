"""Lists in blocks: what is looked at decides what is read."""

from __future__ import annotations

from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import overload

from noetl.facts.json import Json
from noetl.facts.reference import Lazy


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
