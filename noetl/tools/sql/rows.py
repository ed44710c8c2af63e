"""Rows that a task writes to a table: checked, named, and cut into pieces that fit into memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Lazy
from noetl.tools.kit.references import load_reference, pages, rows_of
from noetl.tools.sql.config import Missing, SqlConfig
from noetl.usecases.ports import Results

_LONGEST_NAME = 128
_PART = re.compile(r'"(?:[^"]|"")+"|[^".]+')


@dataclass(frozen=True, slots=True)
class TableWrite:
    """Rows on their way into a table. `table` is its name in parts; `columns` are those that any
    row has.

    `missing` says what becomes of a column that a row does not name. `repeated` counts rows whose
    key comes again.
    """

    table: tuple[str, ...]
    mode: str
    rows: Sequence[JsonMap]
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    repeated: int = 0
    missing: Missing = "keep"

    @property
    def name(self) -> str:
        """The table, for people."""
        return ".".join(self.table)

    @property
    def target(self) -> str:
        """The table, for SQL."""
        return ".".join(map(quote, self.table))

    @property
    def delete(self) -> str:
        """The statement that removes all rows."""
        return f"DELETE FROM {self.target}"  # noqa: S608 - quoted

    def pages(self) -> Iterator[Sequence[JsonMap]]:
        """The rows in order, in parts that are in memory; of those with one key there is one in a
        part. Raises ToolError(client_error) where one is no mapping."""
        if not isinstance(self.rows, Lazy):
            yield self.rows
            return
        start = 0
        for page in self.rows.pages():
            _check_rows(page, start)
            yield _one_of_each(page, self.key, self.missing)
            start += len(page)

    def result(self) -> dict[str, Json]:
        """`{rows_written, row_count, table, mode, columns}`."""
        return {
            "rows_written": len(self.rows),
            "row_count": len(self.rows),
            "table": self.name,
            "mode": self.mode,
            "columns": list(self.columns),
        }

    def warnings(self) -> list[str]:
        if not self.repeated:
            return []
        what = (
            "merged with a later one that has"
            if self.missing == "keep"
            else "left out because a later one has"
        )
        return [f"Rows {what} their key: {self.repeated}"]


def quote(name: str) -> str:
    """An identifier as SQL takes it, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def quote_text(text: object) -> str:
    """A text literal of SQL."""
    return "'" + str(text).replace("'", "''") + "'"


def quote_table(text: str) -> str:
    """`schema.table` as SQL takes it. Raises ToolError(client_error) where it is not the name of a
    table."""
    return ".".join(map(quote, table_of(text)))


def write_of(config: SqlConfig, results: Results | None = None) -> TableWrite | None:
    """What `config` wants written; None where it runs SQL. Rows behind a reference are read as they
    are written. Raises ToolError(client_error)."""
    if config.table is None:
        return None
    if config.rows is None and config.mode == "replace":
        # A misspelt name is null as well.
        raise _unusable(
            "`rows` is null, and `mode: replace` would empty the table: correct the name that it reads, or "
            "hand over an empty list if that is meant.",
            "BadRows",
        )
    rows = _rows(config.rows, results)
    columns = _columns(rows)
    for name in (*columns, *config.keys):
        _check_name(name, "column")
    if rows and not columns:
        raise _unusable("`rows` hold no columns: every row is an empty mapping.", "BadRows")
    if rows and (missing := next((name for name in config.keys if name not in columns), None)):
        raise _unusable(f"`key` names the column '{missing}', which no row has.", "BadKey")
    if config.missing == "fail":
        _refuse_gaps(rows, columns)
    kept = rows if isinstance(rows, Lazy) else _one_of_each(rows, config.keys, config.missing)
    repeated = len(rows) - len(kept)
    return TableWrite(
        table_of(config.table), config.mode, kept, columns, config.keys, repeated, config.missing
    )


def _unusable(message: str, type: str) -> ToolError:
    return ToolError("client_error", message, type=type)


def _rows(given: Json, results: Results | None) -> Sequence[JsonMap]:
    opened = load_reference(given, results, "`rows`")
    if isinstance(opened, Mapping) and "rows" not in opened:
        return [opened]
    rows = rows_of(opened, results, "`rows`")
    if rows is None:
        rows = []
    if isinstance(rows, Lazy):
        return rows
    if not isinstance(rows, list):
        kind = type(given).__name__
        raise _unusable(
            f"`rows` must be a list of mappings, one mapping, or a SQL task's result; it is of type {kind}.",
            "BadRows",
        )
    return rows


def _columns(rows: Sequence[JsonMap]) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for page in pages(rows):
        _check_rows(page, 0)
        for row in page:
            names |= dict.fromkeys(row)
    return tuple(names)


def _check_rows(rows: Sequence[Json], start: int) -> None:
    for index, row in enumerate(rows, start):
        if not isinstance(row, Mapping):
            raise _unusable(
                f"Row {index} (from 0) of `rows` is of type {type(row).__name__}; write it as a "
                "mapping of columns.",
                "BadRows",
            )


def _refuse_gaps(rows: Sequence[JsonMap], columns: Sequence[str]) -> None:
    every = (row for page in pages(rows) for row in page)
    for index, row in enumerate(every):
        if len(row) < len(columns):
            name = next(name for name in columns if name not in row)
            raise _unusable(
                f"Row {index} (from 0) of `rows` does not name the column '{name}', which others do: "
                "name it, or say with `missing: keep`, `null` or `default` what becomes of it.",
                "MissingColumn",
            )


def table_of(text: str) -> tuple[str, ...]:
    """`schema.table`; a part in double quotes may hold anything. Raises ToolError where it is no
    such name."""
    parts = _PART.findall(text)
    if not 1 <= len(parts) <= 3 or ".".join(parts) != text:
        raise _unusable(
            f"`table` '{text[:200]}' is no name of a table; write `table`, `schema.table`, or "
            "parts in double quotes.",
            "BadName",
        )
    names = tuple(part[1:-1].replace('""', '"') if part.startswith('"') else part.strip() for part in parts)
    for name in names:
        _check_name(name, "table")
    return names


def _check_name(name: str, what: str) -> None:
    if not name.strip() or len(name) > _LONGEST_NAME or not name.isprintable():
        raise _unusable(
            f"{name[:60]!r} cannot be the name of a {what}: names are 1 to {_LONGEST_NAME} "
            "printable characters.",
            "BadName",
        )


def _one_of_each(rows: Sequence[JsonMap], key: tuple[str, ...], missing: Missing) -> Sequence[JsonMap]:
    """One row of those with the same key, which a statement must not change twice: the last, and by
    `keep` with what earlier ones name besides, as if they were written one after another.

    A key with a null in it is no key: such rows all stay.
    """
    if not key:
        return rows
    last: dict[object, JsonMap] = {}
    for index, row in enumerate(rows):
        values = [row.get(name) for name in key]
        mark: object = index if any(value is None for value in values) else json.dumps(values)
        earlier = last.pop(mark, None)
        last[mark] = row if earlier is None or missing != "keep" else {**earlier, **row}
    return list(last.values())
