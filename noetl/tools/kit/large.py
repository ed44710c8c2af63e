"""Answers too large for the log: their rows go to the result store as a table, and never all of
them into memory."""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from math import isfinite
from pathlib import Path
from typing import Final, Literal

from noetl.errors import BadRequest, ToolError, Unavailable
from noetl.facts import json
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Column, Retention
from noetl.facts.values import json_safe, notes_of_columns
from noetl.pipeline.model import Call
from noetl.tools.kit.base import Services
from noetl.tools.kit.columns import ColumnValues
from noetl.usecases.ports import Results

#: How a file is laid out: `text/csv` as PostgreSQL's COPY writes it, or one mapping on each line.
TextType = Literal["text/csv", "application/x-ndjson"]
CSV: Final[TextType] = "text/csv"
NDJSON: Final[TextType] = "application/x-ndjson"
PARQUET: Final = "application/vnd.apache.parquet"
#: The inline limit of an answer that goes to the store even where it has no rows.
NEVER_INLINE: Final = -1
#: How DuckDB writes it: rows that lie together are read together.
PARQUET_OPTIONS: Final = "FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 20480"

#: The same, where columns of JSON are texts with the JSON in them.
NDJSON_OF_TEXTS: Final = "application/x-ndjson; json=text"


@dataclass(frozen=True, slots=True)
class TableStore:
    """Where rows go that have more than `inline_bytes` bytes of text. More than `most_bytes` are
    refused."""

    results: Results
    keep: Retention
    inline_bytes: int
    most_bytes: int
    scratch: Path

    def takes(self, names: Sequence[str]) -> bool:
        """Whether a table can have these columns: in Parquet's readers names that differ by case
        are the same."""
        return bool(names) and all(names) and len({name.lower() for name in names}) == len(names)

    def put(self, path: Path, form: str, columns: Sequence[Column]) -> JsonMap:
        """The reference to the table in a text file. Raises ToolError, and BadRequest where it is
        none."""
        try:
            return self.results.put_table(path, form, columns, self.keep)
        except Unavailable as error:
            raise _store_failure(error) from error

    def put_parquet(self, path: Path) -> JsonMap:
        """The reference to a Parquet file. Raises ToolError."""
        try:
            return self.results.put_file(path, PARQUET, self.keep)
        except Unavailable as error:
            raise _store_failure(error) from error


def scratch_folder(shelf: TableStore | None) -> tempfile.TemporaryDirectory[str]:
    """A folder for the files of one answer."""
    if shelf is not None:
        shelf.scratch.mkdir(parents=True, exist_ok=True)
    return tempfile.TemporaryDirectory(prefix="noetl-rows-", dir=None if shelf is None else shelf.scratch)


def shelf_of(call: Call, services: Services) -> TableStore | None:
    """Where the large answers of `call` go; None where there is no result store."""
    if services.results is None:
        return None
    how = call.result
    inline = services.inline_bytes if how.inline_bytes is None else how.inline_bytes
    return TableStore(
        services.results, retention_of(call, services), inline, services.table_limit, services.scratch
    )


def retention_of(call: Call, services: Services) -> Retention:
    """For whom, and until when, what `call` puts into the result store is kept."""
    return call.result.keep(call.where.execution_id, services.clock())


def _store_failure(error: Exception) -> ToolError:
    return ToolError("internal", f"The rows cannot be kept: {error}", retryable=True, type="StoreUnavailable")


class RowSpool:
    """Rows on their way into a table, as lines of JSON in a file. Types of columns follow the
    values, unless `types` knows better."""

    def __init__(
        self, shelf: TableStore, names: Sequence[str], types: Mapping[str, str] | None = None
    ) -> None:
        self.rows = 0
        self.size = 0
        self._shelf = shelf
        self._names = list(names)
        self._types = dict(types or {})
        self._seen = [ColumnValues() for _ in self._names]
        self._notes: dict[str, set[str]] = {name: set() for name in self._names}
        self._holds_exact = False
        self._folder = scratch_folder(shelf)
        self._path = Path(self._folder.name, "rows.ndjson")
        self._file = self._path.open("w", encoding="utf-8")

    def add_column(self, name: str) -> None:
        """One that rows have from now on."""
        self._names.append(name)
        self._seen.append(ColumnValues())
        self._notes[name] = set()

    def add(self, rows: Iterable[Sequence[object]], notes: set[str]) -> None:
        """Raises ToolError(limit) where there is too much of it."""
        for row in rows:
            self.rows += 1
            self.size += self._file.write(self._line(row))
        notes |= notes_of_columns(self._notes)
        if self.size > self._shelf.most_bytes:
            raise ToolError(
                "limit",
                f"The answer has more than the {self._shelf.most_bytes:,} bytes that a table may "
                "have; select less, or move the rows with `kind: transfer`.",
                type="TooManyBytes",
            )

    def _line(self, row: Sequence[object]) -> str:
        cells: dict[str, Json] = {}
        for name, value, seen in zip(self._names, row, self._seen, strict=True):
            if value is None:
                continue
            seen.add(value)
            is_text = (type(value) is Decimal and name in self._types) or self._is_kept(name, value)
            cells[name] = str(value) if is_text else json_safe(value, self._notes[name])
        text = _encode(cells)
        self._holds_exact = self._holds_exact or json.MARK in text
        return text + "\n"

    def _is_kept(self, name: str, value: object) -> bool:
        """Whether a number that JSON does not have (NaN) goes on in the table, which nobody reads
        as JSON."""
        is_odd = type(value) is float and not isfinite(value)
        return is_odd and self._shelf.inline_bytes == NEVER_INLINE and self._types.get(name) == "DOUBLE"

    def close(self) -> None:
        self._file.close()
        self._folder.cleanup()

    def store(self) -> JsonMap:
        """The reference to the table. Raises ToolError."""
        self._file.close()
        try:
            try:
                return self._put(self._types)
            except BadRequest:
                # What no type can hold (infinite days, years before Christ) stays what it is as
                # text.
                return self._put({})
        except BadRequest as error:
            raise ToolError("sql", f"The rows make no table: {error}", type="BadTable") from error
        finally:
            self._folder.cleanup()

    def _put(self, types: Mapping[str, str]) -> JsonMap:
        columns = [
            Column(name, types.get(name) or seen.type)
            for name, seen in zip(self._names, self._seen, strict=True)
        ]
        if not self._holds_exact:
            return self._shelf.put(self._path, NDJSON, columns)
        return self._shelf.put(self._spell_out(columns), NDJSON_OF_TEXTS, columns)

    def _spell_out(self, columns: Sequence[Column]) -> Path:
        """The rows with texts in the place of exact numbers, and of JSON: what reads JSON into a
        table makes floats of numbers in it."""
        documents = [column.name for column in columns if column.type == "JSON"]
        path = Path(self._folder.name, "texts.ndjson")
        with self._path.open(encoding="utf-8") as lines, path.open("w", encoding="utf-8") as file:
            for line in lines:
                cells = json.loads(line)
                texts = {name: json.dumps(cells[name]) for name in documents if name in cells}
                digits = {name: json.digits(one) for name, one in cells.items() if type(one) is Decimal}
                file.write(json.dumps({**cells, **digits, **texts}) + "\n")
        return path


_encode: Final = json.encoder(typed=True, ensure_ascii=True)
