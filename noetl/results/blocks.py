"""Lists in blocks, of which only those are read that are looked into: the parts of a manifest, and
the lines of NDJSON.

NDJSON is compressed in blocks of lines: a gzip file may consist of members, one behind the other,
and ours end where lines end. The places of the members are found by going through the file once,
when a task or template first looks into it.
"""

from __future__ import annotations

import gzip
import zlib
from abc import abstractmethod
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from pathlib import Path
from typing import IO, Any, Final, overload

from noetl.errors import BadRequest
from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.reference import Lazy, Load

#: Bytes of text in one block, and in one line.
BLOCK_BYTES: Final = 256 * 1024
MAX_LINE: Final = 64 * 1024 * 1024
_GZIP: Final = 31
_CHUNK: Final = 64 * 1024


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


@dataclass(frozen=True, slots=True)
class LineBlock:
    """Where a member lies in the file, and how many lines that are not blank it holds."""

    start: int
    end: int
    rows: int


class LineBlocks(Blocks):
    """The lines as values. `index` finds the blocks, `read` yields the packed bytes from a start to
    an end, `cached` remembers a block; `rows` is the length where it is known."""

    __slots__ = ("_cached", "_index", "_read", "_rows")

    def __init__(
        self,
        index: Callable[[], Sequence[LineBlock]],
        read: Callable[[int, int], bytes],
        cached: Callable[[int, Callable[[], tuple[Json, int]]], Json],
        rows: int | None = None,
    ) -> None:
        self._index = index
        self._read = read
        self._cached = cached
        self._rows = rows

    def ends(self) -> Sequence[int]:
        return list(accumulate((block.rows for block in self._index()), initial=0))

    def __len__(self) -> int:
        return super().__len__() if self._rows is None else self._rows

    def block(self, number: int) -> Sequence[Json]:
        items: Sequence[Json] = self._cached(number, lambda: self._parse(number))
        return items

    def _parse(self, number: int) -> tuple[Json, int]:
        block = self._index()[number]
        text = gzip.decompress(self._read(block.start, block.end))
        lines = [line for line in text.split(b"\n") if line.strip()]
        first = self.ends()[number]
        return [_value(line, first + at) for at, line in enumerate(lines)], len(text)


def _value(line: bytes, number: int) -> Json:
    try:
        return json.loads(line)
    except (ValueError, RecursionError) as error:
        raise BadRequest(f"Row {number} (from 0) of this result is not JSON: {error}.") from error


def pack_lines(source: IO[bytes], target: IO[bytes]) -> None:
    """Compresses in blocks of whole lines. Raises BadRequest for a line that is too long."""
    for text in _texts(source):
        target.write(gzip.compress(text, compresslevel=4, mtime=0))


def count_lines(path: Path) -> int:
    """The number of lines that are not blank. Raises BadRequest for a line that is too long."""
    with path.open("rb") as source:
        return sum(1 for text in _texts(source) for line in text.split(b"\n") if line.strip())


def _texts(source: IO[bytes]) -> Iterator[bytes]:
    """Whole lines, about a block at a time."""
    while text := source.read(BLOCK_BYTES):
        text += source.readline(MAX_LINE)
        if len(text) > MAX_LINE and not text.endswith(b"\n"):
            raise BadRequest(f"A line of this NDJSON is longer than {MAX_LINE:,} bytes.")
        yield text


def index_lines(packed: IO[bytes]) -> list[LineBlock]:
    """The members of a packed file, in bounded memory. Raises zlib.error or EOFError where it is
    damaged."""
    blocks: list[LineBlock] = []
    at, rest = 0, b""
    while chunk := rest or packed.read(_CHUNK):
        start, rows, line = at, 0, b""
        member = zlib.decompressobj(_GZIP)
        while True:
            *lines, line = (line + member.decompress(chunk)).split(b"\n")
            rows += sum(1 for one in lines if one.strip())
            at += len(chunk) - len(member.unused_data)
            if member.eof:
                break
            chunk = packed.read(_CHUNK)
            if not chunk:
                raise EOFError("it ends early")
        rest = member.unused_data
        blocks.append(LineBlock(start, at, rows + bool(line.strip())))
    return blocks
