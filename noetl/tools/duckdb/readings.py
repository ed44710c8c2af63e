"""How values of JSON become columns of DuckDB: what they are read as, and what that is made
into."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from noetl.facts.json import Json
from noetl.tools.kit.columns import ColumnValues
from noetl.tools.sql.batches import Spell, as_digits, as_document

#: The notation of `from_json`: the name of a type, `{field: shape}`, `[shape of items]`.
Shape = str | dict[str, "Shape"] | list["Shape"]

_INT128: Final = 1 << 127
#: Integers up to this are the same number as a float.
_FLOAT: Final = 1 << 53
#: Types that JSON is read into directly; all others are read as text and cast.
_DIRECT: Final = re.compile(
    r"BOOLEAN|U?(?:TINY|SMALL|BIG|HUGE)?INT(?:EGER)?|FLOAT|DOUBLE|STRUCT\(.*|MAP\(.*|.*\[\d*\]", re.DOTALL
)
_NAME: Final = re.compile(r"[A-Z]+(?:\([0-9]{1,2},[0-9]{1,2}\))?")


@dataclass(frozen=True, slots=True)
class ColumnReading:
    """A column on its way: `spell` writes its values into JSON, `shape` is what that is read as,
    and `cast` what SQL makes of it."""

    shape: Shape
    cast: str = "{}"
    spell: Spell | None = None

    def value(self, cell: str) -> str:
        """SQL for the value that was read as `cell`."""
        return self.cast.format(cell)


def reading_of(kind: Shape) -> ColumnReading:
    """How values become a column of a type, or of a shape. To DuckDB a number in JSON is a float,
    unless it is read as a decimal: so texts stand for exact numbers, and for JSON."""
    match kind:
        case "JSON":
            return ColumnReading("VARCHAR", "CAST({} AS JSON)", as_document)
        case "BLOB":
            return ColumnReading("VARCHAR", "from_base64({})")
        case "VARCHAR":
            return ColumnReading("VARCHAR", spell=as_digits)
        case str() if not _DIRECT.fullmatch(kind):
            return ColumnReading("VARCHAR", f"CAST({{}} AS {kind})", as_digits)
        case _:
            return ColumnReading(kind)


def is_type(text: str) -> bool:
    """Whether a text that came with rows is the name of a type, and nothing else."""
    return _NAME.fullmatch(text) is not None or _DIRECT.fullmatch(text) is not None


def shape_of(rows: Sequence[Mapping[str, Json]], name: str) -> Shape:
    """The shape of a column by its values: JSON where not all of them have one and the same."""
    shape = _shape(row.get(name) for row in rows)
    return "JSON" if _is_mixed(shape) else shape


def _is_mixed(shape: Shape) -> bool:
    match shape:
        case str():
            return shape == "JSON"
        case list():
            return any(map(_is_mixed, shape))
        case dict():
            return any(map(_is_mixed, shape.values()))


def _shape(values: Iterable[Json]) -> Shape:
    """The shape that all `values` fit."""
    present = [value for value in values if value is not None]
    kinds = {type(value) for value in present}
    if not kinds:
        return "VARCHAR"
    if kinds == {dict} and all(present):
        # A key that some of them lack is not null in those.
        names = dict.fromkeys(key for value in present for key in value)
        alike = all(len(value) == len(names) for value in present)
        # To DuckDB names that differ by case are the same.
        alike = alike and len({key.lower() for key in names}) == len(names)
        return {key: _shape(value[key] for value in present) for key in names} if alike else "JSON"
    if kinds == {list}:
        return [_shape(item for value in present for item in value)]
    if kinds == {int} and all(-_INT128 < value < _INT128 for value in present):
        is_long = any(not -(1 << 63) <= value < 1 << 63 for value in present)
        return "HUGEINT" if is_long else "BIGINT"
    if kinds == {int, float} and all(type(value) is float or abs(value) <= _FLOAT for value in present):
        return "DOUBLE"
    return ColumnValues(present).type
