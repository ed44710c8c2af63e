"""The shapes in which pages show values: a closed union, one branch of `values.html` for each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal, Self, TypeAlias, TypeVar

from noetl.ui.histograms import Histogram

_P = TypeVar("_P")


@dataclass(frozen=True, slots=True)
class ValuePages:
    """Which part is shown of something that has `total` parts: those from `first` on (from 0).
    `previous` and `next` are addresses, empty where nothing is there or leads there."""

    total: int
    first: int
    count: int
    previous: str = ""
    next: str = ""

    @classmethod
    def of(cls, total: int, page: int, size: int, link: Callable[[int], str] | None = None) -> Self:
        """The page of that number (from 0) of those of `size` parts; beyond the last one is the
        last one. `link` makes the address of another page."""
        at = min(page, max(0, (total - 1) // size))
        first = at * size
        count = min(size, total - first)
        if link is None:
            return cls(total, first, count)
        before = link(at - 1) if at else ""
        return cls(total, first, count, before, link(at + 1) if first + count < total else "")

    @property
    def is_whole(self) -> bool:
        return self.count == self.total

    def cut(self, parts: Sequence[_P]) -> Sequence[_P]:
        """Those of this page."""
        return parts[self.first : self.first + self.count]


@dataclass(frozen=True, slots=True)
class ShownScalar:
    """A short value on a line; `kind` says how it is written."""

    shape: ClassVar[str] = "scalar"
    is_inline: ClassVar[bool] = True
    kind: Literal["null", "boolean", "number", "text", "empty", "json"]
    text: str
    summary: ClassVar[str] = ""


@dataclass(frozen=True, slots=True)
class ShownText:
    """A long text, or the beginning of one that has `length` characters."""

    shape: ClassVar[str] = "text"
    is_inline: ClassVar[bool] = False
    text: str
    length: int
    is_whole: bool

    @property
    def summary(self) -> str:
        return f"{self.length:,} characters"

    @property
    def is_small(self) -> bool:
        return self.length <= 400


@dataclass(frozen=True, slots=True)
class ShownJson:
    """JSON text, or, where it is not whole, the beginning of it. `pages` are of a list."""

    shape: ClassVar[str] = "json"
    is_inline: ClassVar[bool] = False
    text: str
    is_whole: bool
    summary: str
    pages: ValuePages | None = None

    @property
    def is_small(self) -> bool:
        return len(self.text) <= 400


@dataclass(frozen=True, slots=True)
class ShownCounts:
    """Labels and their counts as bars."""

    shape: ClassVar[str] = "counts"
    is_inline: ClassVar[bool] = False
    chart: Histogram

    @property
    def summary(self) -> str:
        return f"{len(self.chart.bars)} labels, {self.chart.total} in all"

    @property
    def is_small(self) -> bool:
        return len(self.chart.bars) <= 16


@dataclass(frozen=True, slots=True)
class TableHead:
    """A column of a table."""

    name: str
    is_number: bool


@dataclass(frozen=True, slots=True)
class ShownTable:
    """Rows with the same columns; a cell is None where the row has no such field."""

    shape: ClassVar[str] = "table"
    is_inline: ClassVar[bool] = False
    columns: Sequence[TableHead]
    rows: Sequence[Sequence[ShownValue | None]]
    more_columns: int
    pages: ValuePages

    @property
    def summary(self) -> str:
        return f"{self.pages.total:,} row{'s' if self.pages.total != 1 else ''}"

    @property
    def is_small(self) -> bool:
        return self.pages.total <= 10


@dataclass(frozen=True, slots=True)
class ShownEntries:
    """The fields of a mapping, or the items of a list that is no table, with their numbers."""

    shape: ClassVar[str] = "entries"
    is_inline: ClassVar[bool] = False
    of: Literal["field", "item"]
    entries: Sequence[tuple[str, ShownValue]]
    pages: ValuePages

    @property
    def summary(self) -> str:
        return f"{self.pages.total:,} {self.of}{'s' if self.pages.total != 1 else ''}"

    @property
    def is_small(self) -> bool:
        return self.pages.total <= 8


@dataclass(frozen=True, slots=True)
class ShownSecret:
    """A secret that the value names: nothing of it is shown."""

    shape: ClassVar[str] = "secret"
    is_inline: ClassVar[bool] = True
    summary: ClassVar[str] = "a secret"


@dataclass(frozen=True, slots=True)
class ShownPicture:
    """A picture that this server has, at `source`."""

    shape: ClassVar[str] = "picture"
    is_inline: ClassVar[bool] = False
    is_small: ClassVar[bool] = True
    source: str
    alt: str
    summary: str


@dataclass(frozen=True, slots=True)
class ShownReference:
    """What is kept outside of the log: `about` says what it is. `whole` is where its value is
    found, `file` where its bytes are, empty: nowhere. `content` is what was read of it, or its
    preview (`is_preview`); `gone` says why nothing could be read."""

    shape: ClassVar[str] = "reference"
    is_inline: ClassVar[bool] = False
    about: str
    whole: str = ""
    file: str = ""
    expires_at: str = ""
    content: ShownValue | None = None
    is_preview: bool = False
    gone: str = ""

    @property
    def summary(self) -> str:
        return self.about

    @property
    def is_small(self) -> bool:
        return self.content is None or self.content.is_inline


ShownValue: TypeAlias = (
    ShownScalar
    | ShownText
    | ShownJson
    | ShownCounts
    | ShownTable
    | ShownEntries
    | ShownSecret
    | ShownPicture
    | ShownReference
)
