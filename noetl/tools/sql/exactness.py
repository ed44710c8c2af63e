"""Numbers that a column holds otherwise than they are: exact ones with more digits behind the point
than it has are refused; a column of floats takes another number of them, and one that has digits
behind the point of a float, with a warning."""

from __future__ import annotations

import contextlib
import re
import struct
from collections.abc import Mapping
from decimal import Decimal
from functools import partial
from math import isfinite
from typing import Final, assert_never

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.tools.sql.batches import Spell, as_digits
from noetl.tools.sql.number_types import (
    TEXT,
    Fields,
    Fixed,
    Floating,
    Leaf,
    NumberType,
    Other,
    Pairs,
    Text,
    cells_of,
    leaves,
    number_type,
)
from noetl.tools.sql.plan import WritePlan

#: Types of floats.
FLOATS: Final = ("real", "double precision", "FLOAT", "DOUBLE")
_NUMBER: Final = re.compile(r"\s*[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,4})?\s*", re.ASCII)
#: What fits every one of them, or is refused by the database.
_SURE: Final = frozenset({int, bool, type(None)})
_DOUBLE_BITS: Final = 53
#: So many digits tell each single float from all others.
_SINGLE_DIGITS: Final = 9


def fixed_scale(kind: str) -> int | None:
    """Digits behind the point that numbers in a column of a type have; None where each has its own,
    or none is there."""
    match number_type(kind):
        case Fixed(scale):
            return scale
        case _:
            return None


def exact_spellings(part: WritePlan) -> list[Spell | None]:
    """How the numbers of each column are written so that it takes them as they are; None where
    nothing is to be done. Raises ToolError(sql) for the first that a column would round."""
    return [_spelling(part, *each) for each in zip(part.columns, part.types, strict=True)]


def _spelling(part: WritePlan, column: str, kind: str) -> Spell | None:
    shape = number_type(kind)
    # A text that stands by itself is written as all texts are.
    if kind == TEXT or not any(isinstance(leaf, Fixed | Text) for leaf in leaves(shape)):
        return None
    values = [row.get(column) for row in part.rows]
    if isinstance(shape, Fixed) and _fits_by_type(shape.scale, set(map(type, values))):
        return None
    for row, value in zip(part.rows, values, strict=True):
        if any(_is_refused(leaf, cell) for leaf, cell in cells_of(shape, value)):
            raise inexact(part.number_of(row), column, kind, value)
    return partial(_spelled, shape)


def _fits_by_type(scale: int, types: set[type]) -> bool:
    """Whether no value of these types is refused, or written otherwise."""
    sure = _SURE | {float} if scale > 0 else _SURE
    return scale >= 0 and types <= sure


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


def _is_refused(kind: Leaf, value: Json) -> bool:
    """Whether nothing is written. A float comes of a measurement or of computing, and nobody counts
    on all of its digits: a column that has some rounds it, with a warning; one of integers would
    make another number of it."""
    if not isinstance(kind, Fixed):
        return False
    number = _exact_number(value)
    if number is None and kind.scale <= 0:
        number = _float(value)
    return number is not None and _is_cut(number, kind.scale)


def _exact_number(value: Json) -> Decimal | None:
    """The exact number that a value is, or is written as."""
    match value:
        case bool():
            return None
        case int() | Decimal():
            return Decimal(value)
        case str():
            return number_in(value)
        case _:
            return None


def _float(value: Json) -> Decimal | None:
    """A float with the digits that every float has: what comes behind them is the noise of
    computing."""
    return Decimal(f"{value:.15g}") if isinstance(value, float) and isfinite(value) else None


def number_in(text: str) -> Decimal | None:
    """The number that a text says to a database, and nothing else."""
    return Decimal(text.strip()) if _NUMBER.fullmatch(text) else None


def _is_cut(number: Decimal, scale: int) -> bool:
    """Whether a number has more digits behind the point than `scale`; zeros at its end are none."""
    _, digits, exponent = number.as_tuple()
    return isinstance(exponent, int) and -exponent > scale and any(digits[scale + exponent :])


def _spelled(kind: NumberType, value: Json) -> Json:
    """Whole numbers without a point, which columns of integers take, and the digits of what becomes
    a text; all else as it is."""
    match kind, value:
        case _, list():
            return [_spelled(kind, item) for item in value]
        case Fixed(0), float() if value.is_integer():
            return int(value)
        case Fixed(0), Decimal():
            return int(value)
        case Text(), _:
            return as_digits(value)
        case Fields(types), Mapping():
            inner = dict(types)
            return {name: _spelled(inner.get(name, Other()), item) for name, item in value.items()}
        case Pairs(_, inner), Mapping():
            return {name: _spelled(inner, item) for name, item in value.items()}
        case _:
            return value


def rounding_notes(planned: WritePlan) -> set[str]:
    """Warnings of the numbers that columns make others of: the first of each."""
    pairs = zip(planned.columns, planned.types, strict=True)
    left = {
        name: (kind, number_type(kind)) for name, kind in pairs if holds_floats(kind) or rounds_floats(kind)
    }
    notes = set[str]()
    every = (row for page in planned.write.pages() for row in page) if left else ()
    for index, row in enumerate(every):
        rounded = [name for name, (_, shape) in left.items() if _holds_rounded(shape, row.get(name))]
        for name in rounded:
            notes.add(rounding_note(index, name, left.pop(name)[0], str(row[name])))
    return notes


def _holds_rounded(shape: NumberType, value: Json) -> bool:
    """Whether a column of the shape makes another number of the value, or of one within it."""
    if value is None or (type(value) is float and isinstance(shape, Floating)):
        return False
    if isinstance(shape, Fixed | Floating) and not isinstance(value, list):
        return _is_rounded(shape, value)
    return any(_is_rounded(leaf, cell) for leaf, cell in cells_of(shape, value))


def holds_floats(kind: str) -> bool:
    """Whether there are floats in a column of the type."""
    return any(isinstance(leaf, Floating) for leaf in leaves(number_type(kind)))


def rounds_floats(kind: str) -> bool:
    """Whether a column of the type rounds floats: its numbers have digits behind the point."""
    return any(isinstance(leaf, Fixed) and leaf.scale > 0 for leaf in leaves(number_type(kind)))


def rounding_note(index: int, name: str, kind: str, number: str) -> str:
    """A warning that a column holds another number than the one of a row."""
    advice = "round the number before" if rounds_floats(kind) else "make it numeric or text"
    place = f"Row {index} (from 0): the column '{name}' is {kind}"
    return f"{place}, which holds another number than {number[:60]}; {advice}."


def _is_rounded(kind: Leaf, value: Json) -> bool:
    match kind:
        case Fixed(scale):
            # Most floats are what they are rounded to: no need to look at their digits.
            if scale <= 0 or not isinstance(value, float) or round(value, scale) == value:
                return False
            number = _float(value)
            return number is not None and _is_cut(number, scale)
        case Floating(bits):
            is_exact = type(value) is int or isinstance(value, Decimal)
            return is_exact and _differs_as_float(Decimal(value), bits)
        case Text() | Other():
            return False
        case _:
            assert_never(kind)


def _differs_as_float(number: Decimal, bits: int) -> bool:
    # What is too large for a float is refused by the database.
    with contextlib.suppress(OverflowError):
        nearest = float(number)
        text = repr(nearest) if bits == _DOUBLE_BITS else _single_text(nearest)
        return Decimal(text) != number
    return False


def _single_text(number: float) -> str:
    """The shortest text that says the single float next to a number."""
    single = _as_single(number)
    texts = (f"{single:.{digits}g}" for digits in range(1, _SINGLE_DIGITS + 1))
    return next(text for text in texts if _as_single(float(text)) == single)


def _as_single(number: float) -> float:
    return float(struct.unpack("<f", struct.pack("<f", number))[0])
