"""Rows as the JSON that statements carry, in pieces."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from typing import TypeAlias

from noetl.facts import json
from noetl.facts.json import Json, JsonMap

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


def batches(
    rows: Sequence[JsonMap], columns: Sequence[str], spellings: Sequence[Spell | None] = ()
) -> Iterator[str]:
    """The rows as JSON lists of `{c0, c1, ...}` in the order of `columns`; a key that a row lacks
    is null. `spellings` are those of the columns, which none has unless given."""
    texts: list[str] = []
    size = 0
    named = zip(columns, spellings or [None] * len(columns), strict=True)
    cells = [(f"c{index}", name, spell) for index, (name, spell) in enumerate(named)]
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
