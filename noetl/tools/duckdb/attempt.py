"""One call on its connection to DuckDB: it runs statements, or writes rows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.values import unique_names
from noetl.tools.duckdb.causes import cause_of
from noetl.tools.duckdb.tables import write_rows
from noetl.tools.kit.calls import StopSignal
from noetl.tools.kit.columns import DIGITS, decimal_type, plain_type
from noetl.tools.kit.files import advise_folder
from noetl.tools.kit.large import PARQUET_OPTIONS
from noetl.tools.sql.calls import (
    ROWS,
    RowCollector,
    SqlCall,
    SqlErrors,
    StatementResult,
    kept_rows,
    refuse_interrupted,
    refuse_too_large,
    result_of,
)
from noetl.tools.sql.rows import quote
from noetl.tools.sql.text import BoundStatement, Placeholder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

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
_HUGE: Final = "HUGEINT"
_WIDE: Final = 10**DIGITS
_WITH_ZONE: Final = "TIMESTAMP WITH TIME ZONE"
#: Types that are exact only where they stand alone: inside of others JSON is text to the driver,
#: and would be a value behind Parquet; bytes are base64 text in rows, which makes no bytes again.
_ALONE: Final = (_HUGE, "JSON", "BLOB")
_INSIDE: Final = re.compile(r"JSON|BLOB")
_FETCH: Final = 10_000
_LINE: Final = re.compile(r"^LINE (\d+):", re.MULTILINE)
_UNOPENED: Final = re.compile(r'Cannot open file "(.+)": No such file or directory$')
_ADVICE: Final = (
    " (names of files stand in the text or are parameters; `files` names what else SQL reaches; with "
    "`allow_external` INSTALL, LOAD and ATTACH stand before all others)"
)


class DuckDbErrors(SqlErrors):
    """Explains errors of DuckDB."""

    section = "duckdb"

    @contextlib.contextmanager
    def explain(self, place: int | str = ROWS) -> Iterator[None]:
        """`place`: see `SqlErrors.failure`. Raises ToolError for what DuckDB raises."""
        import duckdb  # see `DatabaseSetup`

        try:
            yield
        except duckdb.Error as error:
            cause, line = cause_of(error), None
            if unopened := _UNOPENED.search(cause):
                cause += advise_folder(Path(unopened[1]))
            if isinstance(place, int):
                cause += _ADVICE if isinstance(error, duckdb.PermissionException) else ""
                counted = _LINE.search(str(error))
                line = self.bound[place].statement.line + int(counted[1]) - 1 if counted else None
            raise self.failure(
                place,
                error,
                cause,
                {},
                kind="limit" if isinstance(error, duckdb.OutOfMemoryException) else "sql",
                retryable=isinstance(error, duckdb.TransactionException),
                line=line,
            ) from error


class DuckDbAttempt:
    """The statements of one call, and their results. Files of large answers lie in `folder`.
    `confine`, where it is given, runs before statement `free`, or before rows are written: until
    then the connection is not confined."""

    def __init__(
        self,
        connection: DuckDBPyConnection,
        order: SqlCall,
        stop: StopSignal,
        folder: Path,
        confine: Callable[[], None] | None,
        free: int,
    ) -> None:
        self._connection = connection
        self._order = order
        self._stop = stop
        self._folder = folder
        self._confine = confine
        self._free = free
        self._errors = DuckDbErrors(order.bound, order.has_lines)

    def run(self) -> dict[str, Json]:
        """The result. Raises ToolError; what is not committed by then goes with the connection."""
        if not self._order.transaction:
            return self._do()
        self._connection.execute("BEGIN")
        result = self._do()
        with self._errors.explain(self._order.last):
            self._connection.execute("COMMIT")
        return result

    def _do(self) -> dict[str, Json]:
        if self._order.write is None:
            return result_of([self._answer(*each) for each in enumerate(self._order.bound)])
        with self._errors.explain():
            if self._confine is not None:
                self._confine()
            go_on = partial(refuse_interrupted, self._stop)
            return write_rows(self._connection, self._order.write, go_on, self._order.bounds.notes)

    def _answer(self, index: int, bound: BoundStatement) -> StatementResult:
        refuse_interrupted(self._stop)
        refuse_wide_values(bound)
        with self._errors.explain(index):
            if self._confine is not None and index == self._free:
                self._confine()
            return self._run(bound, index)

    def _run(self, bound: BoundStatement, index: int) -> StatementResult:
        # From the first word on: DuckDB counts lines of errors in two ways where a comment stands
        # before it.
        text = bound.dollar()[bound.statement.lead :]
        kind, yields = self._kind(text)
        cursor = self._connection.execute(text, dict(bound.values) or None)
        described = cursor.description or []
        block = cursor.fetchmany(_FETCH) if described else []
        if not yields and [column[0] for column in described] in ([], ["Count"]):
            return StatementResult([], [], int(block[0][0]) if block else 0, kind)
        names = unique_names(column[0] for column in described)
        types = [str(column[1]) for column in described]
        rows = RowCollector(self._errors.place(index), names, self._order.bounds, table_types(names, types))
        exact, is_wide = kind == "SELECT" and is_exact(types), False
        with contextlib.closing(rows):
            while block:
                rows.add(parse_json_columns(block, types))
                refuse_interrupted(self._stop)
                if rows.is_large and exact:
                    return self._keep(text, bound, names, types, index)
                is_wide = is_wide or holds_wide(block, types)
                block = cursor.fetchmany(_FETCH)
            return rows.answer(kind, parquet_types(names, types, is_wide) if exact else None)

    def _keep(
        self, text: str, bound: BoundStatement, names: Sequence[str], types: Sequence[str], index: int
    ) -> StatementResult:
        """The rows of a query that turned out large: it runs once more, and DuckDB writes them by
        itself."""
        import duckdb  # see `DatabaseSetup`

        shelf = self._order.bounds.shelf
        assert shelf is not None  # otherwise nothing is large
        path = self._folder / f"rows-{index}.parquet"

        def copy(is_wide: bool) -> int:
            rows = with_parquet_columns(text, names, types, is_wide)
            self._connection.execute(
                f"COPY ({rows}\n) TO '{path}' ({PARQUET_OPTIONS})", dict(bound.values) or None
            )
            return int(self._connection.fetchall()[0][0])

        try:
            count = copy(is_wide=False)
        except duckdb.ConversionException:
            if _HUGE not in types:
                raise
            count = copy(is_wide=True)
        refuse_too_large(self._errors.place(index), path.stat().st_size, shelf.most_bytes)
        return kept_rows(names, shelf.put_parquet(path), count, "SELECT")

    def _kind(self, text: str) -> tuple[str, bool]:
        """The statement's type (`SELECT`), and whether rows are all that it yields."""
        import duckdb  # see `DatabaseSetup`

        parsed = self._connection.extract_statements(text)
        if not parsed:
            return "", False
        results = list(parsed[-1].expected_result_type)
        return parsed[-1].type.name, results == [duckdb.ExpectedResultType.QUERY_RESULT]


def refuse_wide_values(bound: BoundStatement) -> None:
    """Raises ToolError for a parameter of which DuckDB would make a float."""
    written = {piece.key: piece.source for piece in bound.pieces if isinstance(piece, Placeholder)}
    for key, value in bound.values.items():
        if isinstance(value, Decimal) and decimal_type(*_digits(value)) is None:
            raise ToolError(
                "client_error",
                f"The parameter `{written.get(key, key)}` has more than {DIGITS} digits, which no number of "
                "DuckDB has; round it, or bind it as a text.",
                type="TooManyDigits",
            )


def _digits(number: Decimal) -> tuple[int, int]:
    """Digits before and behind the point."""
    return max(number.adjusted() + 1, 0), max(-int(number.as_tuple().exponent), 0)


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
    huge = [at for at, kind in enumerate(types) if kind == _HUGE]
    cells = (row[at] for row in rows for at in huge)
    return any(isinstance(cell, int) and abs(cell) >= _WIDE for cell in cells)


def parquet_types(names: Sequence[str], types: Sequence[str], is_wide: bool) -> dict[str, str]:
    """The types that the columns have in Parquet (`is_wide`: see `holds_wide`)."""
    plain = ["JSON" if is_wide and kind == _HUGE else plain_type(kind) for kind in types]
    return dict(zip(names, plain, strict=True))


def with_parquet_columns(text: str, names: Sequence[str], types: Sequence[str], is_wide: bool) -> str:
    """The query `text` with columns that Parquet has."""
    cast = "CAST(CAST({0} AS VARCHAR) AS JSON) AS {0}" if is_wide else "CAST({0} AS DECIMAL(38,0)) AS {0}"
    chosen = ", ".join(
        (cast if kind == _HUGE else "{0}").format(quote(name))
        for name, kind in zip(names, types, strict=True)
    )
    # On separate lines: the statement may end in a comment.
    return f"SELECT {chosen} FROM (\n{text}\n) AS q({', '.join(map(quote, names))})"  # noqa: S608 - quoted


def parse_json_columns(rows: Sequence[Sequence[object]], types: Sequence[str]) -> Sequence[Sequence[object]]:
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
            return json.loads_exactly(cell)
    return cell
