"""What SQL tools yield: one shape for the answers of all statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.facts.values import as_dicts

#: More rows than this in one answer are a limit error.
MAX_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What one statement left: `row_count` is rows returned or changed."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, Json]]
    row_count: int
    status: str

    def as_json(self) -> dict[str, Json]:
        return {
            "rows": list(self.rows),
            "row_count": self.row_count,
            "columns": list(self.columns),
            "status": self.status,
        }


class Gathered:
    """The rows of one answer as they come. Adding raises ToolError(limit) at more than `most` rows or about
    `most_bytes` of text, so that what is too large is not read to its end."""

    def __init__(self, place: str, most: int, most_bytes: int, notes: set[str]) -> None:
        self.rows: list[dict[str, Json]] = []
        self.size = 0
        self._place, self._most, self._most_bytes, self._notes = place, most, most_bytes, notes

    def add(self, names: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
        if len(self.rows) + len(rows) > self._most:
            raise ToolError(
                "limit",
                f"{self._place} returned more than {self._most} rows; add a LIMIT.",
                type="TooManyRows",
            )
        dicts = as_dicts(names, rows, self._notes)
        self.size += sum(_weight(row.values()) for row in dicts)
        if self.size > self._most_bytes:
            raise ToolError(
                "limit",
                f"{self._place} returned more than the {self._most_bytes:,} bytes that a result may have; "
                "select less, or write it to a table or a file.",
                type="TooManyBytes",
            )
        self.rows += dicts


def _weight(values: Iterable[Json]) -> int:
    """About how many bytes `values` have as text, never too many."""
    size = 0
    for value in values:
        kind = type(value)
        if kind is str:
            size += len(value)
        elif kind is list:
            size += _weight(value)
        elif kind is dict:
            size += _weight(value.values())
        else:
            size += 1
    return size


def result_of(answers: Sequence[Answer]) -> dict[str, Json]:
    """`{rows, row_count, columns, command_0, command_1, ...}`; the top level is the last statement's."""
    commands = [answer.as_json() for answer in answers]
    last = commands[-1]
    top = {name: last[name] for name in ("rows", "row_count", "columns")}
    return top | {f"command_{index}": command for index, command in enumerate(commands)}
