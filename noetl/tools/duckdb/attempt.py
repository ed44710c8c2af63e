"""One call on its connection to DuckDB: it runs statements, or writes rows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Final

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.values import unique_names
from noetl.tools.duckdb.answer_types import (
    HUGE,
    holds_wide,
    is_exact,
    parquet_types,
    table_types,
    with_parquet_columns,
)
from noetl.tools.duckdb.causes import cause_of
from noetl.tools.duckdb.endless import (
    ENDS_ARE_DAYS,
    endless_columns,
    finite_numbers,
    may_be_endless,
    with_endless_texts,
)
from noetl.tools.duckdb.tables import write_rows
from noetl.tools.kit.calls import StopSignal
from noetl.tools.kit.columns import DIGITS, decimal_type
from noetl.tools.kit.files import advise_folder
from noetl.tools.kit.large import NEVER_INLINE, PARQUET_OPTIONS
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
from noetl.tools.sql.text import BoundStatement, Placeholder

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_FETCH: Final = 10_000
_LINE: Final = re.compile(r"^LINE (\d+):", re.MULTILINE)
_UNOPENED: Final = re.compile(r'Cannot open file "(.+)": No such file or directory$')
_ADVICE: Final = (
    " (names of files stand in the text or are parameters; `files` names what else SQL reaches; with "
    "`allow_external` INSTALL, LOAD and ATTACH stand before all others)"
)


@dataclass(frozen=True, slots=True)
class _Query:
    """A statement that yields rows, with what is known of them."""

    text: str
    values: dict[str, object] | None
    names: Sequence[str]
    types: Sequence[str]
    index: int
    kind: str

    @property
    def is_select(self) -> bool:
        """Whether it may run once more."""
        return self.kind == "SELECT"


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
        query = _Query(text, dict(bound.values) or None, names, types, index, kind)
        return self._collect(query, cursor, block)

    def _collect(
        self, query: _Query, cursor: DuckDBPyConnection, block: list[tuple[object, ...]]
    ) -> StatementResult:
        """The rows: `block`, and what the cursor has behind it."""
        names, types = query.names, query.types
        rows = RowCollector(
            self._errors.place(query.index), names, self._order.bounds, table_types(names, types)
        )
        exact, is_wide = query.is_select and is_exact(types), False
        ends = set[str]()
        with contextlib.closing(rows):
            while block:
                rows.add(parse_json_columns(block, types))
                refuse_interrupted(self._stop)
                if rows.is_large and exact:
                    return self._keep(query)
                is_wide = is_wide or holds_wide(block, types)
                ends |= {names[at] for at in may_be_endless(block, types)}
                block = cursor.fetchmany(_FETCH)
            if ends and query.is_select and (endless := self._endless(query)):
                return self._collect_endless(query, endless)
            if ends and not query.is_select:
                self._order.bounds.notes.add(ENDS_ARE_DAYS.format(", ".join(sorted(ends))))
            return rows.answer(query.kind, parquet_types(names, types, is_wide) if exact else None)

    def _endless(self, query: _Query) -> set[int]:
        source = f"(\n{query.text}\n)"
        return endless_columns(self._connection, source, query.values, query.names, query.types)

    def _collect_endless(self, query: _Query, endless: set[int]) -> StatementResult:
        """The rows of a query once more, with infinite values as texts."""
        text = with_endless_texts(query.text, query.names, query.types, endless)
        cursor = self._connection.execute(text, query.values)
        types = [str(column[1]) for column in cursor.description or []]
        return self._collect(replace(query, text=text, types=types), cursor, cursor.fetchmany(_FETCH))

    def _keep(self, query: _Query) -> StatementResult:
        """The rows of a query that turned out large: it runs once more, and DuckDB writes them by
        itself."""
        import duckdb  # see `DatabaseSetup`

        shelf = self._order.bounds.shelf
        assert shelf is not None  # otherwise nothing is large
        path = self._folder / f"rows-{query.index}.parquet"

        def copy(is_wide: bool) -> int:
            rows = with_parquet_columns(query.text, query.names, query.types, is_wide)
            self._connection.execute(f"COPY ({rows}\n) TO '{path}' ({PARQUET_OPTIONS})", query.values)
            return int(self._connection.fetchall()[0][0])

        try:
            count = copy(is_wide=False)
        except duckdb.ConversionException:
            if HUGE not in query.types:
                raise
            count = copy(is_wide=True)
        source = f"read_parquet('{path}')"
        if endless := endless_columns(self._connection, source, None, query.names, query.types):
            return self._collect_endless(query, endless)
        if shelf.inline_bytes != NEVER_INLINE:
            path = finite_numbers(self._connection, path, query.names, query.types, self._order.bounds.notes)
        refuse_too_large(self._errors.place(query.index), path.stat().st_size, shelf.most_bytes)
        return kept_rows(query.names, shelf.put_parquet(path), count, "SELECT")

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
