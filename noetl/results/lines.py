"""NDJSON: lines in compressed blocks, which can be read one by one.

A gzip file may consist of members, one behind the other; ours end where lines end. The places of
the members are found by going through the file once, when somebody first looks into it.
"""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import IO, Final

from noetl.errors import BadRequest
from noetl.facts.json import Json
from noetl.results.blocks import Blocks

#: Bytes of text in one block, and in one line.
BLOCK_BYTES: Final = 256 * 1024
MAX_LINE: Final = 64 * 1024 * 1024
_GZIP: Final = 31
_CHUNK: Final = 64 * 1024


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


def pack(source: IO[bytes], target: IO[bytes]) -> None:
    """Compresses in blocks of whole lines. Raises BadRequest for a line that is too long."""
    for text in _texts(source):
        target.write(gzip.compress(text, compresslevel=4, mtime=0))


def count(path: Path) -> int:
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


def index(packed: IO[bytes]) -> list[LineBlock]:
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
