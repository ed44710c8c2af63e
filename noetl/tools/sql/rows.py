"""Rows that a task writes to a table: checked, named, and cut into pieces that fit into memory."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from noetl.errors import ToolError
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import nearest
from noetl.facts.reference import Lazy
from noetl.tools.kit.references import pages, rows_of
from noetl.tools.sql.config import SqlConfig
from noetl.usecases.ports import Results

_LONGEST_NAME = 128
_PART = re.compile(r'"(?:[^"]|"")+"|[^".]+')


@dataclass(frozen=True, slots=True)
class TableWrite:
    """Rows on their way into a table. `table` is its name in parts; `columns` are those that any
    row has.

    `repeated` counts rows left out because a later one has the same key.
    """

    table: tuple[str, ...]
    mode: str
    rows: Sequence[JsonMap]
    columns: tuple[str, ...]
    key: tuple[str, ...] = ()
    repeated: int = 0

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
        """The rows in order, in parts that are in memory; of those with one key a part holds the
        last only. Raises ToolError(client_error) where one is no mapping."""
        if not isinstance(self.rows, Lazy):
            yield self.rows
            return
        start = 0
        for page in self.rows.pages():
            _check_rows(page, start)
            yield _last_of_each(page, self.key)
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
        return [f"Rows left out because a later one has their key: {self.repeated}"]


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A write against a table as it is: `names` are its own names of the columns, `types` their
    types.

    `extra` completes the INSERT for an upsert.
    """

    write: TableWrite
    names: tuple[str, ...]
    types: tuple[str, ...]
    extra: str = ""

    @property
    def into(self) -> str:
        """The table with its columns, for INSERT INTO and COPY."""
        return f"{self.write.target} ({', '.join(map(quote, self.names))})"

    def insert_marks(self) -> str:
        """The INSERT of one row, with a `?` for each column."""
        marks = ", ".join("?" for _ in self.names)
        return f"INSERT INTO {self.into} VALUES ({marks}){self.extra}"  # noqa: S608 - quoted


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
    rows = _rows(config.rows, results)
    columns = _columns(rows)
    for name in (*columns, *config.keys):
        _check_name(name, "column")
    if rows and not columns:
        raise _unusable("`rows` hold no columns: every row is an empty mapping.", "BadRows")
    if rows and (missing := next((name for name in config.keys if name not in columns), None)):
        raise _unusable(f"`key` names the column '{missing}', which no row has.", "BadKey")
    kept = rows if isinstance(rows, Lazy) else _last_of_each(rows, config.keys)
    return TableWrite(table_of(config.table), config.mode, kept, columns, config.keys, len(rows) - len(kept))


def _unusable(message: str, type: str) -> ToolError:
    return ToolError("client_error", message, type=type)


def _rows(given: Json, results: Results | None) -> Sequence[JsonMap]:
    rows = rows_of(given, results, "`rows`")
    if rows is None:
        rows = []
    if isinstance(rows, Lazy):
        return rows
    if not isinstance(rows, list):
        kind = type(given).__name__
        raise _unusable(
            f"`rows` must be a list of mappings, or a mapping with `rows`; it is of type {kind}.", "BadRows"
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


def _last_of_each(rows: Sequence[JsonMap], key: tuple[str, ...]) -> Sequence[JsonMap]:
    """Rows without those whose key comes again: a statement must not change a row twice.

    A key with a null in it is no key: such rows all stay.
    """
    if not key:
        return rows
    last: dict[object, JsonMap] = {}
    for index, row in enumerate(rows):
        values = [row.get(name) for name in key]
        mark: object = index if any(value is None for value in values) else json.dumps(values)
        last.pop(mark, None)
        last[mark] = row
    return list(last.values())


def plan(write: TableWrite, known: Mapping[str, str], others: Sequence[str] = (), *, fold: bool) -> WritePlan:
    """`write` with the names and types of the table's columns (`known`; empty: there is no table).

    `fold`: names that differ by case are the same. `others` are tables that there are. Raises
    ToolError(sql) that names the nearest table or column.
    """
    if not known:
        near = nearest(write.table[-1], others)
        hint = f"did you mean '{near}'?" if near else "create it in a task before this one."
        raise ToolError("sql", f"There is no table '{write.name}'; {hint}", type="UnknownTable")
    same = str.lower if fold else str
    own = {same(name): name for name in known}

    def find(name: str) -> str:
        if (found := own.get(same(name))) is not None:
            return found
        near = nearest(name, known)
        hint = f"did you mean '{near}'?" if near else f"it has {', '.join(list(known)[:10])}."
        raise ToolError(
            "sql", f"The table '{write.name}' has no column '{name}'; {hint}", type="UnknownColumn"
        )

    names = [find(name) for name in write.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ToolError("sql", f"`rows` name the column '{twice}' twice.", type="RepeatedColumn")
    extra = _on_conflict([find(name) for name in write.key], names) if write.key else ""
    return WritePlan(write, tuple(names), tuple(known[name] for name in names), extra)


def _on_conflict(key: Sequence[str], names: Sequence[str]) -> str:
    rest = [name for name in names if name not in key]
    changes = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in rest)
    action = f"DO UPDATE SET {changes}" if changes else "DO NOTHING"
    return f" ON CONFLICT ({', '.join(map(quote, key))}) {action}"
