"""The rows of a write, in the pieces that a statement carries: as JSON, and as lists of values."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Callable, Container, Iterator, Sequence
from decimal import Decimal
from typing import TypeAlias

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.tools.sql.rows import TableWrite, WritePlan

#: Rows, and characters of JSON text, that one statement carries at most.
_ROWS = 5_000
_CHARACTERS = 4_000_000

#: How a value is written into the JSON that a database reads.
Spell: TypeAlias = Callable[[Json], Json]


def as_document(value: Json) -> Json:
    """A text with the JSON of `value`, for what makes floats of the numbers in JSON."""
    return None if value is None else json.dumps(value)


def as_digits(value: Json) -> Json:
    """A text in the place of an exact number, for the same."""
    return json.digits(value) if isinstance(value, Decimal) else value


def batches(write: TableWrite, spellings: Sequence[Spell | None] = ()) -> Iterator[str]:
    """The rows as JSON lists of `{c0, c1, ...}` in the order of `columns`; a key that a row lacks
    is null. `spellings` are those of the columns that have one."""
    for page in write.pages():
        yield from json_batches(page, write.columns, spellings or [None] * len(write.columns))


def json_batches(
    rows: Sequence[JsonMap], columns: Sequence[str], spellings: Sequence[Spell | None]
) -> Iterator[str]:
    """Some rows so (see `batches`), in pieces that fit into memory."""
    texts: list[str] = []
    size = 0
    cells = [
        (f"c{index}", name, spell) for index, (name, spell) in enumerate(zip(columns, spellings, strict=True))
    ]
    for row in rows:
        text = json.dumps(
            {key: row.get(name) if spell is None else spell(row.get(name)) for key, name, spell in cells}
        )
        if texts and (len(texts) >= _ROWS or size + len(text) > _CHARACTERS):
            yield "[" + ",".join(texts) + "]"
            texts, size = [], 0
        texts.append(text)
        size += len(text)
    if texts:
        yield "[" + ",".join(texts) + "]"


def decode_rows(planned: WritePlan, bytes_types: Container[str]) -> Iterator[list[object]]:
    """The rows in the order of their columns, with bytes in columns of `bytes_types`. Raises
    ToolError(sql) for a value there that is not base64."""
    every = (row for page in planned.write.pages() for row in page)
    for index, row in enumerate(every):
        yield [
            _decode(row.get(name), index, name) if kind in bytes_types else row.get(name)
            for name, kind in zip(planned.write.columns, planned.types, strict=True)
        ]


def _decode(value: Json, index: int, name: str) -> object:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ToolError(
            "sql",
            f"Row {index} (from 0): the column '{name}' holds bytes, and its value is not base64 text.",
            type="BadBytes",
        ) from None
