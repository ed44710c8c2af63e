"""Values that rows do not have: infinite days and instants, of which the driver makes the last and
the first that Python has, stay what they are, as texts; NaN and infinite numbers are null."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.facts.values import NOT_FINITE, notes_of_columns
from noetl.tools.kit.large import PARQUET_OPTIONS
from noetl.tools.sql.rows import quote, quote_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_KINDS: Final = (
    "DATE",
    "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE",
    "TIMESTAMP_S",
    "TIMESTAMP_MS",
    "TIMESTAMP_NS",
)
#: What the driver makes of the infinite ones, and of nothing else but these themselves.
_ENDS: Final = (date.min, date.max, datetime.min, datetime.max)  # noqa: DTZ901 - the zone is set aside
#: A warning of rows that a statement yields which changes something, and cannot run once more.
ENDS_ARE_DAYS: Final = (
    "An infinite date of a statement that is no query is shown as the last, or the first, that Python has: "
    "look at {}"
)


def may_be_endless(rows: Iterable[Sequence[object]], types: Sequence[str]) -> Iterator[int]:
    """The columns, by their place, in which a value may be infinite."""
    places = {at for at, kind in enumerate(types) if kind in _KINDS}
    for row in rows if places else ():
        for at in list(places):
            cell = row[at]
            if (cell.replace(tzinfo=None) if isinstance(cell, datetime) else cell) in _ENDS:
                places.remove(at)
                yield at


def endless_columns(
    connection: DuckDBPyConnection, source: str, values: object, names: Sequence[str], types: Sequence[str]
) -> set[int]:
    """The columns of `source`, which stands in the place of a table, in which a value is
    infinite."""
    places = [at for at, kind in enumerate(types) if kind in _KINDS]
    return _columns_where("isinf({})", connection, source, values, names, places)


def finite_numbers(
    connection: DuckDBPyConnection, path: Path, names: Sequence[str], types: Sequence[str], notes: set[str]
) -> Path:
    """The table at `path` with null in the place of numbers that rows do not have, as few rows have
    it; `notes` says so."""
    places = [at for at, kind in enumerate(types) if kind in ("FLOAT", "DOUBLE")]
    source = f"read_parquet({quote_text(path)})"
    found = _columns_where("NOT isfinite({})", connection, source, None, names, places)
    if not found:
        return path
    notes |= notes_of_columns({names[at]: [NOT_FINITE] for at in found})
    cells = [(quote(name), at in found) for at, name in enumerate(names)]
    chosen = ", ".join(
        f"CASE WHEN isfinite({cell}) THEN {cell} END AS {cell}" if odd else cell for cell, odd in cells
    )
    finite = path.with_suffix(".finite.parquet")
    connection.execute(f"COPY (SELECT {chosen} FROM {source}) TO {quote_text(finite)} ({PARQUET_OPTIONS})")  # noqa: S608
    return finite


def _columns_where(
    test: str,
    connection: DuckDBPyConnection,
    source: str,
    values: object,
    names: Sequence[str],
    places: Sequence[int],
) -> set[int]:
    """Those of the columns at `places` in which `test` holds of a value."""
    if not places:
        return set()
    asked = ", ".join(f"bool_or({test.format(quote(names[at]))})" for at in places)
    columns = ", ".join(map(quote, names))
    found = connection.execute(f"SELECT {asked} FROM {source} AS q({columns})", values).fetchall()[0]  # noqa: S608
    return {at for at, holds in zip(places, found, strict=True) if holds}


def with_endless_texts(text: str, names: Sequence[str], types: Sequence[str], places: set[int]) -> str:
    """The query `text` with texts in the place of infinite values in the columns at `places`."""
    chosen = ", ".join(
        _either(quote(name), kind) if at in places else quote(name)
        for at, (name, kind) in enumerate(zip(names, types, strict=True))
    )
    # On separate lines: the statement may end in a comment.
    return f"SELECT {chosen} FROM (\n{text}\n) AS q({', '.join(map(quote, names))})"  # noqa: S608 - quoted


def _either(cell: str, kind: str) -> str:
    both = f"UNION(finite {kind}, endless VARCHAR)"
    return (
        f"CASE WHEN {cell} IS NULL THEN NULL WHEN isfinite({cell}) THEN CAST({cell} AS {both}) "
        f"ELSE CAST(CAST({cell} AS VARCHAR) AS {both}) END AS {cell}"
    )
