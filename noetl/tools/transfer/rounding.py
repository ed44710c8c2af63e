"""Numbers that a target holds otherwise: a transfer refuses exact ones that have too many digits
behind the point, and says where exact ones become floats, and floats are rounded."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from noetl.facts.reference import Column
from noetl.tools.sql.exactness import FLOATS, fixed_scale, inexact, rounding_note, rounds_floats
from noetl.tools.sql.plan import WritePlan
from noetl.tools.sql.rows import quote
from noetl.tools.transfer.load import StagedTable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Types of numbers that no float may hold, with their digits behind the point.
_EXACT: Final = re.compile(r"U?(?:INTEGER|BIGINT)|DECIMAL\([0-9]+,(?P<scale>[0-9]+)\)")
#: Types of floats, by those of the target.
_FLOATS: Final = {"real": "FLOAT", "double precision": "DOUBLE"}
#: Type of floats → digits that each of them has.
_SURE_DIGITS: Final = {"FLOAT": 6, "DOUBLE": 15}
#: Types whose values may be numbers with digits behind the point, or texts of some.
_FRACTIONAL: Final = re.compile(r"FLOAT|DOUBLE|VARCHAR|JSON|DECIMAL\([0-9]+,(?P<scale>[0-9]+)\)")


def refuse_cut_numbers(reader: DuckDBPyConnection, staged: StagedTable, plan: WritePlan) -> None:
    """Raises ToolError for the first number with more digits behind the point than its column of
    the target has."""
    columns = zip(staged.columns, plan.names, plan.types, strict=True)
    tested = [(name, kind, column) for column, name, kind in columns if _may_be_cut(column.type, kind)]
    if not tested:
        return
    firsts = ", ".join(
        f"min(file_row_number) FILTER (WHERE {_is_cut(column, max(fixed_scale(kind) or 0, 0))})"
        for _, kind, column in tested
    )
    rows = staged.source(0, staged.rows)
    found = reader.execute(f"SELECT {firsts} FROM {rows}").fetchall()[0]  # noqa: S608 - quoted
    for (name, kind, column), row in zip(tested, found, strict=True):
        if row is not None:
            cell = f"SELECT {_text_of(column)} FROM {staged.source(row, row + 1)}"  # noqa: S608 - quoted
            raise inexact(row, name, kind, reader.execute(cell).fetchall()[0][0])


def _may_be_cut(kind: str, wanted: str) -> bool:
    found, scale = _FRACTIONAL.fullmatch(kind), fixed_scale(wanted)
    if found is None or scale is None or wanted.endswith("]"):
        return False
    if kind in _SURE_DIGITS and scale > 0:
        return False  # it is rounded, with a warning
    return found["scale"] is None or int(found["scale"]) > scale


def _text_of(column: Column) -> str:
    """SQL for the number of a cell as it is written; of a float as many digits as each has."""
    cell = quote(column.name)
    if (sure := _SURE_DIGITS.get(column.type)) is not None:
        return f"format('{{:.{sure}g}}', CAST({cell} AS DOUBLE))"
    return f"trim(CAST({cell} AS VARCHAR), '\" ')"


def _is_cut(column: Column, scale: int) -> str:
    """SQL for whether digits behind the point are cut."""
    text = _text_of(column)
    behind = f"rtrim(regexp_extract({text}, '^[+-]?[0-9]*[.]([0-9]*)$', 1), '0')"
    kept = f"CAST(TRY_CAST({text} AS DECIMAL(38,{scale})) AS DOUBLE)"
    is_power = f"regexp_full_match({text}, '[+-]?[0-9.]+[eE][+-]?[0-9]+')"
    return f"(length({behind}) > {scale} OR ({is_power} AND {kept} <> TRY_CAST({text} AS DOUBLE)))"


def rounded_numbers(reader: DuckDBPyConnection, staged: StagedTable, plan: WritePlan) -> set[str]:
    """A warning for each column, with the first row of it."""
    notes = set[str]()
    for column, name, kind in zip(staged.columns, plan.names, plan.types, strict=True):
        test = _rounding_test(column, kind)
        first = reader.execute(_first_where(staged, column, test)).fetchone() if test else None
        if first is not None:
            notes.add(rounding_note(int(first[0]), name, kind, str(first[1])))
    return notes


def _rounding_test(column: Column, kind: str) -> str:
    """SQL for whether a column of the target makes another number of a cell; empty where it never
    does."""
    exact = _EXACT.fullmatch(column.type)
    if exact is not None and kind in FLOATS:
        return _differs_as_float(quote(column.name), int(exact["scale"] or 0), _FLOATS.get(kind, kind))
    is_rounded = column.type in _SURE_DIGITS and rounds_floats(kind) and not kind.endswith("]")
    return _is_cut(column, fixed_scale(kind) or 0) if is_rounded else ""


def _differs_as_float(cell: str, scale: int, kind: str) -> str:
    written = f"TRY_CAST(CAST(CAST({cell} AS {kind}) AS VARCHAR) AS DECIMAL(38,{scale}))"
    return f"{cell} IS NOT NULL AND {written} IS DISTINCT FROM CAST({cell} AS DECIMAL(38,{scale}))"


def _first_where(staged: StagedTable, column: Column, test: str) -> str:
    cell = quote(column.name)
    return (
        f"SELECT file_row_number, CAST({cell} AS VARCHAR) FROM {staged.source(0, staged.rows)} "  # noqa: S608
        f"WHERE {test} ORDER BY 1 LIMIT 1"
    )
