"""Rows out of DuckDB: what Parquet keeps exactly DuckDB writes by itself, the rest goes through Python in pieces."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Sequence
from typing import Final

from noetl.tools.sql.rows import quoted

#: Types that Parquet has not, or has with less in them.
_INEXACT: Final = re.compile(
    r"HUGEINT|INTERVAL|TIME WITH TIME ZONE|TIMETZ|TIME_NS|TIMESTAMP_NS|BIT\b|UNION|BIGNUM|VARINT|VARIANT|GEOMETRY|NULL"
)
#: Types of a column that a table written as text can have.
_PLAIN: Final = re.compile(
    r"BOOLEAN|U?(?:TINY|SMALL|BIG)?INT(?:EGER)?|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|VARCHAR|DATE|TIME|TIMESTAMP|UUID|JSON|BLOB"
)
_WITH_ZONE: Final = "TIMESTAMP WITH TIME ZONE"


def is_exact(types: Sequence[str]) -> bool:
    """Whether rows of these types come back from Parquet as they are (whole numbers of 128 bits as decimals)."""
    return all(kind == "HUGEINT" or not _INEXACT.search(_outside_of_json(kind)) for kind in types)


def _outside_of_json(kind: str) -> str:
    # JSON in a list or a structure is text to the driver, and would be a value behind Parquet.
    return kind if kind == "JSON" else kind.replace("JSON", "UNION")


def table_types(names: Sequence[str], types: Sequence[str]) -> dict[str, str]:
    """The types that columns of a text table can have; the others follow their values."""
    known = {name: kind for name, kind in zip(names, types, strict=True) if _PLAIN.fullmatch(kind)}
    return known | {
        name: "TIMESTAMPTZ" for name, kind in zip(names, types, strict=True) if kind == _WITH_ZONE
    }


def as_kept(text: str, names: Sequence[str], types: Sequence[str]) -> str:
    """The query `text` with columns that Parquet has."""
    chosen = ", ".join(
        f"CAST({quoted(name)} AS DECIMAL(38,0)) AS {quoted(name)}" if kind == "HUGEINT" else quoted(name)
        for name, kind in zip(names, types, strict=True)
    )
    # On a line of its own: the statement may end in a comment.
    return f"SELECT {chosen} FROM (\n{text}\n) AS q({', '.join(map(quoted, names))})"  # noqa: S608 - quoted


def parsed(rows: Sequence[Sequence[object]], types: Sequence[str]) -> Sequence[Sequence[object]]:
    """The rows, with what is in columns of JSON in the place of its text."""
    if "JSON" not in types:
        return rows
    return [
        [_value(cell) if kind == "JSON" else cell for cell, kind in zip(row, types, strict=True)]
        for row in rows
    ]


def _value(cell: object) -> object:
    if isinstance(cell, str):
        with contextlib.suppress(ValueError, RecursionError):
            return json.loads(cell)
    return cell
