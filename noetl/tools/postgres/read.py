"""Rows out of PostgreSQL: `COPY` writes them to a file, and no more of them is in memory than is
handed back inline."""

from __future__ import annotations

import contextlib
import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final

from noetl.errors import BadRequest, ToolError
from noetl.facts.reference import Column
from noetl.facts.values import unique_names
from noetl.tools.kit.columns import DIGITS, decimal_type
from noetl.tools.kit.large import CSV, NEVER_INLINE, TableStore, scratch_folder
from noetl.tools.postgres.errors import PostgresErrors, adapt_values
from noetl.tools.sql.calls import (
    ResultBounds,
    RowCollector,
    StatementResult,
    kept_rows,
    refuse_too_large,
    refuse_too_many,
)
from noetl.tools.sql.text import BoundStatement

if TYPE_CHECKING:
    from psycopg2 import extensions

_READS = frozenset({"select", "values", "table", "with"})
#: Words of statements that change or lock something, or that are no query: these are sent as they
#: are.
_OTHERS = frozenset({"into", "insert", "update", "delete", "merge", "share"})
_BLOCK: Final = 5_000
#: Bytes that are written to the file at once.
_BUFFER: Final = 256 * 1024

#: Type in PostgreSQL → in a table, where its text reads the same in both.
_TYPES: Final[Mapping[int, str]] = {
    16: "BOOLEAN",
    17: "BLOB",
    18: "VARCHAR",
    19: "VARCHAR",
    20: "BIGINT",
    21: "BIGINT",
    23: "BIGINT",
    25: "VARCHAR",
    26: "BIGINT",
    114: "JSON",
    700: "DOUBLE",
    701: "DOUBLE",
    1042: "VARCHAR",
    1043: "VARCHAR",
    1082: "DATE",
    1083: "TIME",
    1114: "TIMESTAMP",
    1184: "TIMESTAMPTZ",
    2950: "UUID",
    3802: "JSON",
}
_TEMPORAL: Final = ("DATE", "TIMESTAMP", "TIMESTAMPTZ")
_NUMERIC: Final = 1700
_FIELD: Final = re.compile(r'("(?:[^"]|"")*+"|[^,"\n]*+)(?:,|\n)')


def is_read(bound: BoundStatement) -> bool:
    """Whether a statement only asks for rows, as far as its words tell."""
    words = bound.statement.words
    return bool(words) and words[0] in _READS and not _OTHERS.intersection(words)


class QueryReader:
    """One query on its way out. `go_on` raises where the call must end."""

    def __init__(
        self,
        cursor: extensions.cursor,
        faults: PostgresErrors,
        bounds: ResultBounds,
        go_on: Callable[[], None],
    ) -> None:
        self._cursor = cursor
        self._faults = faults
        self._bounds = bounds
        self._go_on = go_on

    def read(self, bound: BoundStatement, index: int) -> StatementResult | None:
        """The answer; None where the query has no columns. The query runs once. Raises
        ToolError."""
        text = bound.statement.text
        if bound.has_values:
            with self._faults.explain(index):
                text = self._cursor.mogrify(bound.pyformat(), adapt_values(bound)).decode()
        columns = self._describe(text, index)
        if not columns:
            return None
        with scratch_folder(self._bounds.shelf) as folder:
            path = Path(folder, "rows.csv")
            sink = self._copy(text, index, path)
            return self._answer(_Table(path, columns, sink), index)

    def _describe(self, text: str, index: int) -> Sequence[extensions.Column]:
        """Names and types of the columns, without a row being asked for."""
        # On separate lines: the statement may end in a comment.
        before = "SELECT * FROM (\n"
        with self._faults.explain(index, self._cursor, len(before)):
            self._cursor.execute(f"{before}{text}\n) AS q LIMIT 0")
        return self._cursor.description or ()

    def _copy(self, text: str, index: int, path: Path) -> CsvSink:
        with path.open("wb", buffering=_BUFFER) as file:
            sink = CsvSink(file, self._bounds, self._faults.place(index), self._go_on)
            try:
                with self._faults.explain(index):
                    self._cursor.copy_expert(f"COPY (\n{text}\n) TO STDOUT (FORMAT csv)", sink)
            except ToolError:
                # Otherwise the next call on the connection reads what was left to its end.
                self._cursor.connection.close()
                raise
        return sink

    def _answer(self, table: _Table, index: int) -> StatementResult:
        shelf = self._bounds.shelf
        status = f"SELECT {table.count}"
        if shelf is not None and table.size > shelf.inline_bytes and shelf.takes(table.names):
            types = None if table.holds_nan and shelf.inline_bytes != NEVER_INLINE else table.types(shelf)
            if types is not None:
                # What a type cannot hold after all goes the long way.
                with contextlib.suppress(BadRequest):
                    return kept_rows(table.names, shelf.put(table.path, CSV, types), table.count, status)
        rows = RowCollector(self._faults.place(index), table.names, self._bounds, table.known)
        with contextlib.closing(rows):
            for block in table.rows(self._cursor):
                self._go_on()
                rows.add(block)
            return rows.answer(status)


class _Table:
    """What COPY wrote."""

    def __init__(self, path: Path, columns: Sequence[extensions.Column], sink: CsvSink) -> None:
        self.path, self.count, self.size = path, sink.rows, sink.size
        self._endless = sink.endless
        #: Whether a number may be in it that JSON does not have: it is null in rows, few or many.
        self.holds_nan = sink.holds_nan
        self.names = unique_names(column.name for column in columns)
        self._columns = columns

    @property
    def known(self) -> dict[str, str]:
        """The types of those columns that a table can have as they are."""
        return known_types(self.names, self._columns, endless=self._endless)

    def types(self, shelf: TableStore) -> list[Column] | None:
        """The columns of a table that reads the text itself; None where Python has to."""
        known = self.known
        open_ended = [
            at
            for at, column in enumerate(self._columns)
            if column.type_code == _NUMERIC and self.names[at] not in known
        ]
        if open_ended:
            found = decimals(self.path, len(self.names), open_ended, shelf.scratch)
            known |= {self.names[at]: kind for at, kind in found.items()}
        is_complete = len(known) == len(self.names)
        return [Column(name, known[name]) for name in self.names] if is_complete else None

    def rows(self, cursor: extensions.cursor) -> Iterator[list[tuple[object, ...]]]:
        """The rows as the driver would have read them."""
        kinds = [column.type_code for column in self._columns]

        def value(kind: Any, text: str | None) -> object:
            return None if text is None else cursor.cast(kind, text)

        with self.path.open(encoding="utf-8", newline="\n") as file:
            every = records(file)
            while block := list(itertools.islice(every, _BLOCK)):
                yield [tuple(map(value, kinds, record)) for record in block]


def known_types(
    names: Sequence[str], columns: Sequence[extensions.Column], *, endless: bool
) -> dict[str, str]:
    """The types of those columns that a table can have as they are; `endless`: a date may be in it
    that only PostgreSQL has."""
    found = {name: _type(column) for name, column in zip(names, columns, strict=True)}
    return {
        name: kind for name, kind in found.items() if kind is not None and not (endless and kind in _TEMPORAL)
    }


def is_endless(cell: object) -> bool:
    """Whether a value may be a date that only PostgreSQL has."""
    return type(cell) is str and ("infinity" in cell or " BC" in cell)


def _type(column: extensions.Column) -> str | None:
    if column.type_code == _NUMERIC:
        digits, scale = column.precision, column.scale
        fits = digits is not None and scale is not None and 0 < digits <= DIGITS and 0 <= scale <= digits
        return f"DECIMAL({digits},{scale})" if fits else None
    from psycopg2 import extensions  # see `Postgres`

    found = _TYPES.get(column.type_code)
    # What the driver has no reader for is text: enumerations, network addresses, XML.
    return found or (None if column.type_code in extensions.string_types else "VARCHAR")


class CsvSink:
    """A file of CSV that counts its rows and refuses too much. COPY sends each row by itself, and
    so the driver writes it."""

    def __init__(self, file: IO[bytes], bounds: ResultBounds, place: str, go_on: Callable[[], None]) -> None:
        self.rows = 0
        self.size = 0
        #: Whether a date may be in it that only PostgreSQL has: those stay texts.
        self.endless = False
        #: Whether NaN or an infinity may be in it.
        self.holds_nan = False
        self._file = file
        self._bounds, self._place, self._go_on = bounds, place, go_on
        self._most = bounds.most_bytes if bounds.shelf is None else bounds.shelf.most_bytes

    def write(self, row: bytes) -> None:
        """Takes one row. Raises ToolError where there is too much, or the call must end."""
        self._go_on()
        self._file.write(row)
        self.rows += 1
        self.size += len(row)
        self.endless = self.endless or b"infinity" in row or b" BC" in row
        self.holds_nan = self.holds_nan or b"NaN" in row or b"Infinity" in row
        refuse_too_large(self._place, self.size, self._most)
        if self._bounds.shelf is None:
            refuse_too_many(self._place, self.rows)


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
        kind = decimal_type(whole, scale)
        if plain and kind is not None:
            fitting[at] = kind
    return fitting
