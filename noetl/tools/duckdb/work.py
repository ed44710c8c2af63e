"""What one call does on its connection to DuckDB: statements or rows."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.values import unique_names
from noetl.tools.duckdb.errors import first_line
from noetl.tools.duckdb.read import as_kept, is_exact, parsed, table_types
from noetl.tools.duckdb.write import written
from noetl.tools.kit.calls import Stop
from noetl.tools.kit.large import PARQUET_OPTIONS
from noetl.tools.sql.rows import Write
from noetl.tools.sql.text import Bound
from noetl.tools.sql.values import Answer, Bounds, Gathered, refuse_too_large, result_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_SHOWN = 200
_FETCH = 10_000
_LINE = re.compile(r"^LINE (\d+):", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Order:
    """What a call asks for."""

    bound: list[Bound]
    write: Write | None
    transaction: bool
    has_lines: bool
    bounds: Bounds
    #: Where files of large answers may lie.
    folder: Path | None = None
    #: Runs once, before statement `free`: the connection is not confined yet.
    confine: Callable[[], None] | None = None
    free: int = 0


class Work:
    """The statements of one call, and what came of them."""

    def __init__(self, connection: DuckDBPyConnection, order: Order, stop: Stop) -> None:
        self._connection = connection
        self._order = order
        self._bound = order.bound
        self._stop = stop

    def run(self) -> dict[str, Json]:
        """The result. Raises ToolError; what is not committed by then goes with the connection."""
        if not self._order.transaction and self._order.write is None:
            return self._do()
        self._connection.execute("BEGIN")
        result = self._do()
        with self._explained(len(self._bound) - 1):
            self._connection.execute("COMMIT")
        return result

    def _do(self) -> dict[str, Json]:
        if self._order.write is None:
            return result_of([self._answer(*each) for each in enumerate(self._bound)])
        with self._explained(-1):
            self._confine(0)
            return written(self._connection, self._order.write, self._go_on)

    def _go_on(self) -> None:
        if self._stop.pulled:
            raise ToolError("sql", "The statement was interrupted.", type="Interrupted")

    @contextlib.contextmanager
    def _explained(self, index: int) -> Iterator[None]:
        import duckdb  # see `duckdb_open`

        try:
            yield
        except duckdb.Error as error:
            raise self._error(error, index) from error

    def _answer(self, index: int, bound: Bound) -> Answer:
        self._go_on()
        with self._explained(index):
            self._confine(index)
            return self._run(bound, index)

    def _confine(self, index: int) -> None:
        if self._order.confine is not None and index == self._order.free:
            self._order.confine()

    def _run(self, bound: Bound, index: int) -> Answer:
        # From the first word on: DuckDB counts lines of errors in two ways where a comment stands before it.
        text = bound.dollar()[bound.statement.lead :]
        kind, yields = self._kind(text)
        cursor = self._connection.execute(text, dict(bound.values) or None)
        described = cursor.description or []
        rows = cursor.fetchmany(_FETCH) if described else []
        if not yields and [column[0] for column in described] in ([], ["Count"]):
            return Answer([], [], int(rows[0][0]) if rows else 0, kind)
        names = unique_names(column[0] for column in described)
        types = [str(column[1]) for column in described]
        gathered = Gathered(self._place(index), names, self._order.bounds, table_types(names, types))
        with contextlib.closing(gathered):
            while rows:
                gathered.add(parsed(rows, types))
                self._go_on()
                if gathered.is_large and kind == "SELECT" and is_exact(types):
                    return self._kept(as_kept(text, names, types), bound, names, index)
                rows = cursor.fetchmany(_FETCH)
            return gathered.answer(kind)

    def _kept(self, text: str, bound: Bound, names: Sequence[str], index: int) -> Answer:
        """The rows of a query that turned out large: it runs once more, and DuckDB writes them by itself."""
        folder, shelf = self._order.folder, self._order.bounds.shelf
        assert folder is not None
        assert shelf is not None  # otherwise nothing is large
        path = folder / f"rows-{index}.parquet"
        self._connection.execute(
            f"COPY ({text}\n) TO '{path}' ({PARQUET_OPTIONS})", dict(bound.values) or None
        )
        count = self._connection.fetchall()[0][0]
        refuse_too_large(self._place(index), path.stat().st_size, shelf.most_bytes)
        return Answer(names, shelf.put_parquet(path), int(count), "SELECT")

    def _kind(self, text: str) -> tuple[str, bool]:
        """The statement's type (`SELECT`), and whether rows are all that it yields."""
        import duckdb  # see `duckdb_open`

        parsed = self._connection.extract_statements(text)
        if not parsed:
            return "", False
        results = list(parsed[-1].expected_result_type)
        return parsed[-1].type.name, results == [duckdb.ExpectedResultType.QUERY_RESULT]

    def _error(self, error: Exception, index: int) -> ToolError:
        name = type(error).__name__
        kind = "limit" if name == "OutOfMemoryException" else "sql"
        if index < 0:
            return ToolError(
                kind,
                f"The rows cannot be written: {first_line(error)}",
                retryable=name == "TransactionException",
                type=name,
                extras={"duckdb": {}},
            )
        bound = self._bound[index]
        line = bound.statement.line
        if told := _LINE.search(str(error)):
            line += int(told[1]) - 1
        hint = ""
        if name == "PermissionException":
            hint = (
                " (names of files stand in the text or are parameters; `files` names what else SQL reaches; with "
                "`allow_external` INSTALL, LOAD and ATTACH stand before all others)"
            )
        return ToolError(
            kind,
            f"{self._place(index)} failed at line {line}: {first_line(error)}{hint}",
            retryable=name == "TransactionException",
            type=name,
            line=line if self._order.has_lines else None,
            extras={"duckdb": {"statement_index": index, "statement": bound.statement.text[:_SHOWN]}},
        )

    def _place(self, index: int) -> str:
        return f"Statement {index + 1} of {len(self._bound)}" if len(self._bound) > 1 else "The statement"
