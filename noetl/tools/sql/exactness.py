"""Numbers that a column holds otherwise than they are: exact ones with more digits behind the point
than it has are refused; a column of floats takes another number of them, and one that has digits
behind the point of a float, with a warning."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator
from decimal import Decimal
from itertools import chain
from math import isfinite
from typing import Final

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.sql.batches import Spell
from noetl.tools.sql.plan import WritePlan

#: Types of floats.
FLOATS: Final = ("real", "double precision", "FLOAT", "DOUBLE")
#: Types, or lists of them, whose numbers have the same number of digits behind the point.
_FIXED: Final = re.compile(
    r"(?:smallint|integer|bigint|U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|BIGNUM|(?P<money>money)|"
    r"(?:numeric|DECIMAL)\([0-9]+,(?P<scale>-?[0-9]+)\))(?:\[\d*\])*"
)
_MONEY_SCALE: Final = 2
_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?\s*", re.ASCII)
#: What fits every one of them, or is refused by the database.
_SURE: Final = frozenset({int, bool, type(None)})


def fixed_scale(kind: str) -> int | None:
    """Digits behind the point that numbers in a column of a type have; None where each has its own,
    or none is there."""
    found = _FIXED.fullmatch(kind)
    if found is None:
        return None
    return _MONEY_SCALE if found["money"] else int(found["scale"] or 0)


def exact_spellings(part: WritePlan) -> list[Spell | None]:
    """How the numbers of each column are written so that it takes them as they are; None where
    nothing is to be done. Raises ToolError(sql) for the first that a column would round."""
    return [_spelling(part, *each) for each in zip(part.columns, part.types, strict=True)]


def _spelling(part: WritePlan, column: str, kind: str) -> Spell | None:
    scale = fixed_scale(kind)
    if scale is None:
        return None
    values = [row.get(column) for row in part.rows]
    if scale >= 0 and _SURE.issuperset(map(type, values)):
        return None
    for row, value in zip(part.rows, values, strict=True):
        if _is_refused(value, scale):
            raise inexact(part.number_of(row), column, kind, value)
    return as_whole if scale == 0 else None


def inexact(
    index: int,
    column: str,
    kind: str,
    value: object,
    advice: str = "round the number before, or give the column more digits",
) -> ToolError:
    """What to raise for a number that a column does not hold as it is."""
    return ToolError(
        "sql",
        f"Row {index} (from 0): the column '{column}' is {kind}, which cannot hold {str(value)[:60]} as it "
        f"is; {advice}.",
        type="InexactNumber",
    )


def _is_refused(value: Json, scale: int) -> bool:
    """Whether nothing is written. A float comes of a measurement or of computing, and nobody counts
    on all of its digits: a column that has some rounds it, with a warning; one of integers would
    make another number of it."""
    numbers = chain(_exact_numbers(value), () if scale > 0 else _floats(value))
    return any(_is_cut(number, scale) for number in numbers)


def _exact_numbers(value: Json) -> Iterator[Decimal]:
    """The exact numbers that a value, or a list of them, is or is written as."""
    match value:
        case bool():
            return
        case int() | Decimal():
            yield Decimal(value)
        case str() if (said := number_in(value)) is not None:
            yield said
        case list():
            for item in value:
                yield from _exact_numbers(item)


def _floats(value: Json) -> Iterator[Decimal]:
    """The floats that a value, or a list of them, is, with the digits that every float has: what
    comes behind them is the noise of computing."""
    match value:
        case float() if isfinite(value):
            yield Decimal(f"{value:.15g}")
        case list():
            for item in value:
                yield from _floats(item)


def number_in(text: str) -> Decimal | None:
    """The number that a text says to a database, and nothing else."""
    return Decimal(text.strip()) if _NUMBER.fullmatch(text) else None


def _is_cut(number: Decimal, scale: int) -> bool:
    """Whether a number has more digits behind the point than `scale`; zeros at its end are none."""
    _, digits, exponent = number.as_tuple()
    return isinstance(exponent, int) and -exponent > scale and any(digits[scale + exponent :])


def as_whole(value: Json) -> Json:
    """A whole number without a point, which a column of integers takes; all else as it is."""
    match value:
        case float() if value.is_integer():
            return int(value)
        case Decimal():
            return int(value)
        case list():
            return list(map(as_whole, value))
        case _:
            return value


def rounding_notes(planned: WritePlan) -> set[str]:
    """Warnings of the numbers that columns make others of: the first of each."""
    pairs = zip(planned.columns, planned.types, strict=True)
    looked_at = {name: kind for name, kind in pairs if kind in FLOATS or rounds_floats(kind)}
    notes: dict[str, str] = {}
    every = (row for page in planned.write.pages() for row in page) if looked_at else ()
    for index, row in enumerate(every):
        for name in looked_at.keys() - notes.keys():
            if _is_rounded(row.get(name), looked_at[name]):
                notes[name] = rounding_note(index, name, looked_at[name], str(row[name]))
    return set(notes.values())


def rounds_floats(kind: str) -> bool:
    """Whether a column of the type rounds floats: it has digits behind the point."""
    return (fixed_scale(kind) or 0) > 0


def rounding_note(index: int, name: str, kind: str, number: str) -> str:
    """A warning that a column holds another number than the one of a row."""
    advice = "make it numeric or text" if kind in FLOATS else "round the number before"
    place = f"Row {index} (from 0): the column '{name}' is {kind}"
    return f"{place}, which holds another number than {number[:60]}; {advice}."


def _is_rounded(value: Json, kind: str) -> bool:
    if kind not in FLOATS:
        return any(_is_cut(number, fixed_scale(kind) or 0) for number in _floats(value))
    if type(value) is not int and not isinstance(value, Decimal):
        return False
    # What is too large for a float is refused by the database.
    with contextlib.suppress(OverflowError):
        return Decimal(repr(float(value))) != value
    return False
