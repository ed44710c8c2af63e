"""Types of columns: what is known of them, and else what their values say.

A type has DuckDB's name, as Parquet keeps it, wherever the rows came from and however many there
are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from decimal import Context, Decimal
from functools import partial
from itertools import combinations
from typing import Final

from noetl.facts import json
from noetl.facts.json import Json

#: Digits of the widest decimal of a table, and of the widest integer that is none.
DIGITS: Final = 38
_INT64: Final = 1 << 63
_INT64_DIGITS: Final = 19
#: Python's type of every value of a column → the column's type. Anything else, and any mixture but
#: of exact numbers, is JSON.
_ALIKE: Final[Mapping[type, str]] = {
    bool: "BOOLEAN",
    int: "BIGINT",
    float: "DOUBLE",
    str: "VARCHAR",
    bytes: "BLOB",
}


_SPELLINGS: Final[Mapping[str, str]] = {
    "TIMESTAMP WITH TIME ZONE": "TIMESTAMPTZ",
    "HUGEINT": f"DECIMAL({DIGITS},0)",
    '"NULL"': "VARCHAR",
}
#: In a type: a name, which stays, and what Parquet has by another name, at any depth.
_WORD: Final = re.compile(
    r"""(?P<name>"(?:[^"]|"")*")|(?P<enum>ENUM\((?:'(?:[^']|'')*'(?:, )?)+\))|"""
    r"(?P<instant>\bTIMESTAMP_M?S\b)|(?P<array>\[\d+\])"
)
_PLAIN_WORDS: Final = {"enum": "VARCHAR", "instant": "TIMESTAMP", "array": "[]"}


class ColumnValues:
    """What the values of one column have in common."""

    __slots__ = ("_kinds", "_scale", "_whole")

    def __init__(self, values: Iterable[object] = ()) -> None:
        self._kinds: set[type] = set()
        self._whole = self._scale = 0
        for value in values:
            self.add(value)

    def add(self, value: object) -> None:
        """Takes a value of a driver, or of JSON; null says nothing."""
        if value is None:
            return
        kind = type(value)
        if isinstance(value, int) and not -_INT64 <= value < _INT64:
            kind, value = Decimal, Decimal(value)
        if isinstance(value, Decimal):
            self._measure(value)
        self._kinds.add(bytes if kind in (bytearray, memoryview) else kind)

    def _measure(self, number: Decimal) -> None:
        scale = number.as_tuple().exponent
        if isinstance(scale, int):
            self._whole = max(self._whole, number.adjusted() + 1)
            self._scale = max(self._scale, -scale)

    @property
    def holds_exact(self) -> bool:
        """Whether an exact number is among them."""
        return Decimal in self._kinds

    @property
    def type(self) -> str:
        """The type that all of them fit; VARCHAR where there is none."""
        if self.holds_exact and self._kinds <= {int, Decimal}:
            whole = max(self._whole, _INT64_DIGITS if int in self._kinds else 1)
            return decimal_type(whole, self._scale) or "JSON"
        if len(self._kinds) > 1:
            return "JSON"
        return next((_ALIKE.get(kind, "JSON") for kind in self._kinds), "VARCHAR")


def names_alike(names: Sequence[str]) -> tuple[str, str] | None:
    """The first two names that differ in nothing but case: to a table they are one."""
    pairs = combinations(names, 2) if len({name.lower() for name in names}) < len(names) else ()
    return next((pair for pair in pairs if pair[0].lower() == pair[1].lower()), None)


def decimal_type(whole: int, scale: int) -> str | None:
    """The type of exact numbers with so many digits before and behind the point; None where no
    table has one. It does not depend on the digits before it: few rows have the type of many."""
    return f"DECIMAL({DIGITS},{scale})" if whole + scale <= DIGITS else None


def plain_type(kind: str) -> str:
    """A type of DuckDB as Parquet keeps it, by its short name."""
    plain = _WORD.sub(lambda found: _PLAIN_WORDS.get(found.lastgroup or "", found[0]), kind)
    return _SPELLINGS.get(plain, plain)


def types_of(
    names: Sequence[str], rows: Sequence[Sequence[object]], known: Mapping[str, str]
) -> dict[str, str]:
    """The type of each column: the one that is known, else what its values say."""
    return {
        name: known.get(name) or ColumnValues(row[at] for row in rows).type for at, name in enumerate(names)
    }


def settle(rows: Sequence[dict[str, Json]], name: str, kind: str) -> None:
    """Gives values of a column that was typed by its values the form that they have in a table:
    exact numbers as many digits behind the point as the type says, those inside of documents that
    of JSON."""
    scale = _SCALED.fullmatch(kind)
    if scale is None and kind != "JSON":
        return
    form = _settle_document if scale is None else partial(_rescale, Decimal(1).scaleb(-int(scale[1])))
    for row in rows:
        row[name] = None if row[name] is None else form(row[name])


def _rescale(step: Decimal, number: int | Decimal) -> Decimal:
    return Decimal(number).quantize(step, context=_WIDE)


def _settle_document(value: Json) -> Json:
    is_exact = json.MARK in json.dumps(value, typed=True)
    return json.loads_exactly(json.dumps(value)) if is_exact else value


#: Decimals that have digits behind the point; others are integers.
_SCALED: Final = re.compile(r"DECIMAL\([0-9]+,([1-9][0-9]*)\)")
_WIDE: Final = Context(prec=2 * DIGITS)
