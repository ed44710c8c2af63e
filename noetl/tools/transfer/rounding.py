"""Exact numbers that a target has floats for: it holds another number, and the transfer says so."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from noetl.facts.reference import Column
from noetl.tools.sql.plan import FLOATS, WritePlan, rounding_note
from noetl.tools.sql.rows import quote
from noetl.tools.transfer.load import StagedTable

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Types of numbers that no float may hold, with their digits behind the point.
_EXACT: Final = re.compile(r"U?BIGINT|DECIMAL\([0-9]+,(?P<scale>[0-9]+)\)")


def rounded_numbers(reader: DuckDBPyConnection, staged: StagedTable, plan: WritePlan) -> set[str]:
    """A warning for each column, with the first row of it."""
    notes = set[str]()
    for column, name, kind in zip(staged.columns, plan.names, plan.types, strict=True):
        exact = _EXACT.fullmatch(column.type)
        if exact is None or kind not in FLOATS:
            continue
        first = reader.execute(_first_rounded(staged, column, int(exact["scale"] or 0))).fetchone()
        if first is not None:
            notes.add(rounding_note(int(first[0]), name, kind, str(first[1])))
    return notes


def _first_rounded(staged: StagedTable, column: Column, scale: int) -> str:
    """The query for the first row whose number is not what a float is written as."""
    cell = quote(column.name)
    written = f"TRY_CAST(CAST(CAST({cell} AS DOUBLE) AS VARCHAR) AS DECIMAL(38,{scale}))"
    return (
        f"SELECT file_row_number, CAST({cell} AS VARCHAR) FROM {staged.source(0, staged.rows)} "  # noqa: S608
        f"WHERE {cell} IS NOT NULL AND {written} IS DISTINCT FROM CAST({cell} AS DECIMAL(38,{scale})) "
        "ORDER BY 1 LIMIT 1"
    )
