"""A vector that is cheap to copy with one element changed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from noetl.facts.json import Json

_WIDTH = 64


@dataclass(frozen=True, slots=True)
class Slots:
    """`length` JSON values, null at first. `put` shares all but one chunk with the vector it came
    from, so that a loop of 10,000 iterations costs 10,000 small copies and not 10,000 large
    ones."""

    length: int
    chunks: tuple[tuple[Json, ...], ...]

    @classmethod
    def empty(cls, length: int) -> Slots:
        full, rest = divmod(length, _WIDTH)
        chunks = ((None,) * _WIDTH,) * full
        return cls(length, (*chunks, (None,) * rest) if rest else chunks)

    def grown(self, more: int) -> Slots:
        """A copy with `more` nulls behind the last element; whole chunks are shared."""
        whole = self.length // _WIDTH
        longer = Slots.empty(self.length + more)
        begun = tuple(value for chunk in self.chunks[whole:] for value in chunk)
        chunks = [*self.chunks[:whole], *longer.chunks[whole:]]
        if begun:
            chunks[whole] = begun + chunks[whole][len(begun) :]
        return Slots(longer.length, tuple(chunks))

    def put(self, index: int, value: Json) -> Slots:
        """A copy in which `index` (from 0) holds `value`. Raises IndexError outside of the
        vector."""
        outer, inner = divmod(index, _WIDTH)
        chunk = list(self.chunks[outer])
        chunk[inner] = value
        chunks = list(self.chunks)
        chunks[outer] = tuple(chunk)
        return Slots(self.length, tuple(chunks))

    def __getitem__(self, index: int) -> Json:
        outer, inner = divmod(index, _WIDTH)
        return self.chunks[outer][inner]

    def __iter__(self) -> Iterator[Json]:
        for chunk in self.chunks:
            yield from chunk

    def __len__(self) -> int:
        return self.length
