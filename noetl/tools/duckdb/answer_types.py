"""Types of the columns of an answer: those that Parquet keeps, and what the others become."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from noetl.tools.kit.columns import DIGITS, plain_type
from noetl.tools.sql.rows import quote

#: Types that Parquet has not, or has with less in them.
_INEXACT: Final = re.compile(
    r"HUGEINT|INTERVAL|TIME WITH TIME ZONE|TIMETZ|TIME_NS|TIMESTAMP(?:TZ)?_NS|BIT\b|UNION|BIGNUM|VARINT|"
    r"VARIANT|GEOMETRY|TUPLE|NULL"
)
#: Types of a column that a table written as text can have.
_PLAIN: Final = re.compile(
    r"BOOLEAN|U?(?:TINY|SMALL|BIG)?INT(?:EGER)?|FLOAT|DOUBLE|DECIMAL\(\d+,\d+\)|VARCHAR|DATE|TIME|TIMESTAMP|"
    r"UUID|JSON|BLOB"
)
HUGE: Final = "HUGEINT"
_WIDE: Final = 10**DIGITS
_WITH_ZONE: Final = "TIMESTAMP WITH TIME ZONE"
#: Types that are exact only where they stand alone: inside of others JSON is text to the driver,
#: and would be a value behind Parquet; bytes are base64 text in rows, which makes no bytes again.
_ALONE: Final = (HUGE, "JSON", "BLOB")
_INSIDE: Final = re.compile(r"JSON|BLOB")


def is_exact(types: Sequence[str]) -> bool:
    """Whether rows of these types come back from Parquet as they are (whole numbers of 128 bits as
    decimals)."""
    return all(kind in _ALONE or not (_INEXACT.search(kind) or _INSIDE.search(kind)) for kind in types)


def table_types(names: Sequence[str], types: Sequence[str]) -> dict[str, str]:
    """The types that columns of a text table can have; the others follow their values."""
    known = {name: kind for name, kind in zip(names, types, strict=True) if _PLAIN.fullmatch(kind)}
    return known | {
        name: "TIMESTAMPTZ" for name, kind in zip(names, types, strict=True) if kind == _WITH_ZONE
    }


def holds_wide(rows: Sequence[Sequence[object]], types: Sequence[str]) -> bool:
    """Whether a whole number of 128 bits has more digits than a decimal."""
    huge = [at for at, kind in enumerate(types) if kind == HUGE]
    cells = (row[at] for row in rows for at in huge)
    return any(isinstance(cell, int) and abs(cell) >= _WIDE for cell in cells)


def parquet_types(names: Sequence[str], types: Sequence[str], is_wide: bool) -> dict[str, str]:
    """The types that the columns have in Parquet (`is_wide`: see `holds_wide`)."""
    plain = ["JSON" if is_wide and kind == HUGE else plain_type(kind) for kind in types]
    return dict(zip(names, plain, strict=True))


def with_parquet_columns(text: str, names: Sequence[str], types: Sequence[str], is_wide: bool) -> str:
    """The query `text` with columns that Parquet has."""
    cast = "CAST(CAST({0} AS VARCHAR) AS JSON) AS {0}" if is_wide else "CAST({0} AS DECIMAL(38,0)) AS {0}"
    chosen = ", ".join(
        (cast if kind == HUGE else "{0}").format(quote(name)) for name, kind in zip(names, types, strict=True)
    )
    # On separate lines: the statement may end in a comment.
    return f"SELECT {chosen} FROM (\n{text}\n) AS q({', '.join(map(quote, names))})"  # noqa: S608 - quoted
