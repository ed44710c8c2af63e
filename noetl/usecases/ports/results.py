"""The port of results that are too large for the log."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Protocol

from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Column, Retention


class Results(Protocol):
    """Results that are too large for the log, by content (see `noetl.facts.reference`)."""

    def put(self, value: Json, keep: Retention) -> JsonMap:
        """Keeps `value` and returns its reference. The same value twice in one place is one object.
        Raises BadRequest where it is no JSON, Unavailable where the store takes nothing."""

    def put_file(self, path: Path, content_type: str, keep: Retention) -> JsonMap:
        """Keeps the bytes of a file as they are; its reference loads to a list of mappings where it
        is a table (Parquet, NDJSON), to the value of JSON, to a text, else to base64. Never reads
        all of it at once."""

    def put_table(self, path: Path, content_type: str, columns: Sequence[Column], keep: Retention) -> JsonMap:
        """Keeps a table that was written as text as Parquet; its reference tells `meta.rows`, and
        its preview columns and the first rows. Never reads all of it at once. Raises BadRequest
        where it is no such table.

        `text/csv` is as PostgreSQL's COPY writes it: UTF-8, an empty field is null and `""` the
        empty text, bytes are `\\x` and hexadecimal digits; fields are in the order of `columns`.
        Its first line is a row, unless the content type says `text/csv; header=present` (RFC 4180).
        `application/x-ndjson` is a mapping on each line, its keys the columns' names in any order;
        a key that is missing is null, others are passed over, bytes are base64.
        """

    def load(self, reference: Mapping[str, Json], /) -> Json:
        """What the reference stands for, not to be changed: others share it. Raises NotFound where
        it is gone, BadRequest where it is no reference to a result."""

    def holds(self, reference: Mapping[str, Json], /) -> bool:
        """Whether what the reference stands for is there; nothing of it is read. Raises NotFound
        for another store's, BadRequest where it is no reference to a result."""

    def file(self, reference: Mapping[str, Json], /) -> AbstractContextManager[Path]:
        """A local file, for reading, that holds the bytes of the object (uncompressed); there while
        the block runs. Of a store on this machine it is the object itself where that is
        possible."""

    def places(self) -> Iterator[str]:
        """Every place (see `Retention.place`) that holds anything."""

    def remove(self, place: str) -> int:
        """Removes all that is kept there; the number of objects."""
