"""What SQL tools yield: one shape for the answers of all statements."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from noetl.errors import ToolError
from noetl.facts.json import Json, JsonMap
from noetl.facts.values import as_dicts
from noetl.tools.kit.large import Shelf, Spool

#: More rows than this in one answer are a limit error.
MAX_ROWS = 1_000_000


@dataclass(frozen=True, slots=True)
class Answer:
    """What one statement left: `row_count` is rows returned or changed, `rows` a reference where they are too many."""

    columns: Sequence[str]
    rows: Sequence[Mapping[str, Json]] | JsonMap
    row_count: int
    status: str

    def as_json(self) -> dict[str, Json]:
        return {
            "rows": self.rows if isinstance(self.rows, Mapping) else list(self.rows),
            "row_count": self.row_count,
            "columns": list(self.columns),
            "status": self.status,
        }


@dataclass(frozen=True, slots=True)
class Bounds:
    """What an answer may be: at most about `most_bytes` of text where it is in memory; where there is a shelf, rows
    above its inline limit go there. `notes` gets what was left out of values."""

    most_bytes: int
    notes: set[str]
    shelf: Shelf | None = None


class Gathered:
    """The rows of one answer as they come: in a list, and from the inline limit on in a table of the result store
    (`types`: what is known of its columns). Where there is no such place, adding raises ToolError(limit) at more than
    `MAX_ROWS` rows or too much text, so that what is too large is not read to its end."""

    def __init__(
        self, place: str, names: Sequence[str], bounds: Bounds, types: Mapping[str, str] | None = None
    ) -> None:
        self.size = 0
        self._place, self._names, self._bounds = place, names, bounds
        self._types = types
        self._shelf = bounds.shelf if bounds.shelf is not None and bounds.shelf.takes(names) else None
        self._count = 0
        #: Rows are here, or in the spool, or (where there is no shelf) in the dicts.
        self._raw: list[Sequence[object]] = []
        self._spool: Spool | None = None
        self._dicts: list[dict[str, Json]] = []

    def add(self, rows: Sequence[Sequence[object]]) -> None:
        self._count += len(rows)
        if self._spool is not None:
            self._spool.add(rows, self._bounds.notes)
            return
        self.size += sum(map(_weight, rows))
        if self._shelf is None:
            self._dicts += as_dicts(self._names, rows, self._bounds.notes)
            refuse_too_many(self._place, self._count)
            refuse_too_large(self._place, self.size, self._bounds.most_bytes)
            return
        self._raw += rows
        if self.size > self._shelf.inline_bytes:
            self._spool = Spool(self._shelf, self._names, self._types)
            self._spool.add(self._raw, self._bounds.notes)
            self._raw = []

    @property
    def is_large(self) -> bool:
        """Whether the rows go to a table."""
        return self._spool is not None

    def answer(self, status: str) -> Answer:
        """Once all rows have come. Raises ToolError where they cannot be kept."""
        self.add([])  # where nothing is to stay inline that holds of no rows, too
        if self._spool is not None:
            return Answer(self._names, self._spool.kept(), self._count, status)
        rows = self._dicts or as_dicts(self._names, self._raw, self._bounds.notes)
        return Answer(self._names, rows, self._count, status)

    def close(self) -> None:
        """Drops what was not asked for."""
        if self._spool is not None:
            self._spool.close()


def refuse_too_many(place: str, count: int) -> None:
    """Raises ToolError(limit) at more rows than an answer in memory may have."""
    if count > MAX_ROWS:
        raise ToolError(
            "limit", f"{place} returned more than {MAX_ROWS} rows; add a LIMIT.", type="TooManyRows"
        )


def refuse_too_large(place: str, size: int, most: int) -> None:
    """Raises ToolError(limit) at more bytes of text than `most`."""
    if size > most:
        raise ToolError(
            "limit",
            f"{place} returned more than the {most:,} bytes that a result may have; "
            "select less, or write it to a table or a file.",
            type="TooManyBytes",
        )


def _weight(values: Iterable[object]) -> int:
    """About how many bytes `values` have as text, never too many."""
    size = 0
    for value in values:
        if isinstance(value, str | bytes | bytearray | memoryview):
            size += len(value)
        elif isinstance(value, list | tuple):
            size += _weight(value)
        elif isinstance(value, dict):
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
