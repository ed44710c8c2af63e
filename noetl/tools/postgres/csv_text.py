"""CSV as PostgreSQL's COPY writes it: an empty field is null, `""` the empty text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final

_FIELD: Final = re.compile(r'("(?:[^"]|"")*+"|[^,"\n]*+)(?:,|\n)')
_DIGITS: Final = 38


def records(lines: Iterable[str]) -> Iterator[list[str | None]]:
    """The rows of a file whose lines end in `\\n`, and whose texts may hold further ones."""
    open_row = ""
    for line in lines:
        row = open_row + line
        if row.count('"') % 2:
            open_row = row
            continue
        open_row = ""
        yield list(map(_value, _FIELD.findall(row)))


def _value(field: str) -> str | None:
    return field[1:-1].replace('""', '"') if field.startswith('"') else field or None


def decimals(path: Path, width: int, places: Sequence[int], scratch: Path) -> dict[int, str]:
    """DECIMAL types that hold all numbers of the columns at `places` (from 0) of a file with
    `width` columns exactly.

    A column that none holds is left out.
    """
    import duckdb  # the driver takes 90 ms

    types = ", ".join(f"'c{at}': 'VARCHAR'" for at in range(width))
    measures = ", ".join(
        f"coalesce(max(length(split_part(ltrim(c{at}, '-'), '.', 1))), 1), "
        f"coalesce(max(length(split_part(c{at}, '.', 2))), 0), "
        f"coalesce(bool_and(regexp_full_match(c{at}, '-?[0-9]+([.][0-9]+)?')), true)"
        for at in places
    )
    settings: dict[str, str | bool | int | float | list[str]] = {
        "memory_limit": "160MB",
        "threads": 1,
        "temp_directory": str(scratch),
    }
    with duckdb.connect(":memory:", config=settings) as connection:
        found = connection.execute(
            f"SELECT {measures} FROM read_csv(?, header = false, auto_detect = false, "  # noqa: S608
            "delim = ',', quote = '\"', "
            f"escape = '\"', nullstr = '', allow_quoted_nulls = false, max_line_size = 33554432, "
            f"buffer_size = 33555456, columns = {{{types}}})",
            [str(path)],
        ).fetchone()
    assert found is not None  # an aggregate has one row
    fitting: dict[int, str] = {}
    for number, at in enumerate(places):
        whole, scale, plain = found[3 * number : 3 * number + 3]
        if plain and whole + scale <= _DIGITS:
            fitting[at] = f"DECIMAL({whole + scale},{scale})"
    return fitting
