"""Rows against a table as it is: its names and types for their columns, and what becomes of a
column that a row does not name."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.nearest import nearest
from noetl.tools.sql.rows import TableWrite, quote


@dataclass(frozen=True, slots=True)
class TableColumn:
    """`has_default`: where a row is added without it, it may come to something else than null.
    `required`: it cannot be null, and has no default."""

    type: str
    has_default: bool = False
    required: bool = False


@dataclass(frozen=True, slots=True)
class WritePlan:
    """A write against a table as it is, or a part of one: `rows` that name the same columns.

    `columns` are called `names` in the table, and have `types`. An upsert finds rows by `key`, and
    changes `changed`; it has neither elsewhere. `telling` are the columns which it matters for
    whether a row names them. `filled` are columns that the rows do not name and that cannot be
    null: they get what the row of the table has that is changed.
    """

    write: TableWrite
    columns: tuple[str, ...]
    names: tuple[str, ...]
    types: tuple[str, ...]
    key: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    telling: frozenset[str] = frozenset()
    required: tuple[str, ...] = ()
    rows: Sequence[JsonMap] = ()

    @property
    def into(self) -> str:
        """The table with its columns, for INSERT INTO and COPY."""
        return f"{self.write.target} ({', '.join(map(quote, (*self.names, *self.filled)))})"

    @property
    def filled(self) -> tuple[str, ...]:
        """See above. A database looks at these before it finds out that there is such a row."""
        can_be_there = self.write.missing == "keep" and self.key and set(self.key) <= set(self.names)
        return tuple(name for name in self.required if name not in self.names) if can_be_there else ()

    def values(self, cells: Sequence[str]) -> str:
        """SQL for the values of a row: `cells` are those of `names`."""
        own = dict(zip(self.names, cells, strict=True))
        same = " AND ".join(f"old.{quote(name)} = {own[name]}" for name in self.key if name in own)
        old = f"FROM {self.write.target} AS old WHERE {same}"
        return ", ".join([*cells, *(f"(SELECT old.{quote(name)} {old})" for name in self.filled)])

    @property
    def extra(self) -> str:
        """What completes the INSERT of an upsert."""
        if not self.key:
            return ""
        changes = ", ".join(f"{quote(name)} = excluded.{quote(name)}" for name in self.changed)
        action = f"DO UPDATE SET {changes}" if changes else "DO NOTHING"
        return f" ON CONFLICT ({', '.join(map(quote, self.key))}) {action}"

    def insert_marks(self) -> str:
        """The INSERT of one row, with a `?` for each column."""
        marks = [f"? AS c{at}" for at, _ in enumerate(self.names)]
        cells = [f"r.c{at}" for at, _ in enumerate(self.names)]
        # Without the WHERE, ON CONFLICT would be read as the condition of a join.
        row = f"FROM (SELECT {', '.join(marks)}) AS r WHERE true"
        return f"INSERT INTO {self.into} SELECT {self.values(cells)} {row}{self.extra}"

    def number_of(self, row: JsonMap) -> int:
        """Which of all rows it is, from 0."""
        every = (one for page in self.write.pages() for one in page)
        return next(number for number, one in enumerate(every) if one == row)

    def parts(self) -> Iterator[WritePlan]:
        """The rows, those together that are written by one statement: in order, as long as they
        name the same columns. Raises ToolError(client_error)."""
        for page in self.write.pages():
            groups: dict[frozenset[str], list[JsonMap]] = {}
            if not self.telling:
                yield replace(self, rows=page)
                continue
            for row in page:
                is_whole = len(row) == len(self.columns)
                left_out = frozenset[str]() if is_whole else self.telling.difference(row)
                groups.setdefault(left_out, []).append(row)
            for left_out, rows in groups.items():
                yield self._without(left_out, rows)

    def _without(self, left_out: frozenset[str], rows: Sequence[JsonMap]) -> WritePlan:
        kept = [at for at, column in enumerate(self.columns) if column not in left_out]
        if not kept:
            raise ToolError(
                "client_error",
                "A row of `rows` is an empty mapping: leave it out, or set `missing: null`.",
                type="BadRows",
            )
        names = tuple(self.names[at] for at in kept)
        return replace(
            self,
            columns=tuple(self.columns[at] for at in kept),
            names=names,
            types=tuple(self.types[at] for at in kept),
            # By `default` a row that is there gets the defaults as well.
            changed=self.changed
            if self.write.missing == "default"
            else tuple(name for name in self.changed if name in names),
            rows=rows,
        )


def plan(
    write: TableWrite, known: Mapping[str, TableColumn], others: Sequence[str] = (), *, fold: bool
) -> WritePlan:
    """`write` with the names and types of the table's columns (`known`; empty: there is no table).

    `fold`: names that differ by case are the same. `others` are tables that there are. Raises
    ToolError(sql) that names the nearest table or column.
    """
    if not known:
        near = nearest(write.table[-1], others)
        hint = f"did you mean '{near}'?" if near else "create it in a task before this one."
        raise ToolError("sql", f"There is no table '{write.name}'; {hint}", type="UnknownTable")
    names = [_name_in_table(write, known, name, fold) for name in write.columns]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise ToolError("sql", f"`rows` name the column '{twice}' twice.", type="RepeatedColumn")
    key = [_name_in_table(write, known, name, fold) for name in write.key]
    columns = [known[name] for name in names]
    return WritePlan(
        write,
        write.columns,
        tuple(names),
        tuple(column.type for column in columns),
        tuple(key),
        tuple(name for name in names if name not in key) if key else (),
        _telling(write, columns),
        tuple(name for name, column in known.items() if column.required),
    )


def _name_in_table(write: TableWrite, known: Mapping[str, TableColumn], name: str, fold: bool) -> str:
    same = str.lower if fold else str
    own = {same(each): each for each in known}
    if (exact := own.get(same(name))) is not None:
        return exact
    near = nearest(name, known)
    hint = f"did you mean '{near}'?" if near else f"it has {', '.join(list(known)[:10])}."
    raise ToolError("sql", f"The table '{write.name}' has no column '{name}'; {hint}", type="UnknownColumn")


def _telling(write: TableWrite, columns: Sequence[TableColumn]) -> frozenset[str]:
    match write.missing:
        case "null" | "fail":
            return frozenset()
        case "keep" if write.key:
            return frozenset(write.columns)
        case "keep" | "default":
            pairs = zip(write.columns, columns, strict=True)
            return frozenset(name for name, column in pairs if column.has_default)


def check_bytes(planned: WritePlan, bytes_types: Container[str]) -> None:
    """Raises ToolError(sql) for the first value in a column of `bytes_types` that is not base64."""
    columns = [name for name, kind in zip(planned.columns, planned.types, strict=True) if kind in bytes_types]
    if not columns:
        return
    for index, row in enumerate(row for page in planned.write.pages() for row in page):
        for name in columns:
            _decode(row.get(name), index, name)


def decode_rows(part: WritePlan, bytes_types: Container[str]) -> Iterator[list[object]]:
    """The rows of a part in the order of its columns, with bytes in columns of `bytes_types`, which
    `check_bytes` has seen."""
    pairs = list(zip(part.columns, part.types, strict=True))
    for index, row in enumerate(part.rows):
        yield [
            _decode(row.get(name), index, name) if kind in bytes_types else row.get(name)
            for name, kind in pairs
        ]


def _decode(value: Json, index: int, name: str) -> object:
    if not isinstance(value, str):
        return value
    try:
        return base64.b64decode(value, validate=True)
    except (binascii.Error, ValueError):
        raise ToolError(
            "sql",
            f"Row {index} (from 0): the column '{name}' holds bytes, and its value is not base64 text.",
            type="BadBytes",
        ) from None
