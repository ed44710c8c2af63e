"""Values of executions as pages show them: which shape each has, and how much of it is shown.

What is shown of a value is bounded, and no more of it is looked at: of a list of a million rows,
one page.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import islice
from typing import Any, Final, TypeAlias

from noetl.errors import BadRequest, NotFound, Unavailable
from noetl.facts.json import Json, JsonMap
from noetl.facts.reference import Lazy, Load, is_reference, load_value
from noetl.facts.secret import is_secret
from noetl.ui import histograms
from noetl.ui.json_text import is_open, make_visible, write_json
from noetl.ui.pictures import find_picture
from noetl.ui.references import may_open, preview_of, read_reference
from noetl.ui.shapes import (
    ShownCounts,
    ShownEntries,
    ShownJson,
    ShownPicture,
    ShownReference,
    ShownScalar,
    ShownSecret,
    ShownTable,
    ShownText,
    TableHead,
    ValuePages,
)
from noetl.ui.shapes import (
    ShownValue as ShownValue,
)

#: Characters that are shown of a value.
LONGEST: Final = 100_000
#: Rows, fields and items of one page, and of what lies within a value.
PAGE: Final = 50
_WITHIN: Final = 20
#: Columns of a table.
MOST_COLUMNS: Final = 20
#: Characters of JSON, and of a text, that stand on a line.
_LINE: Final = 80
_SHORT_TEXT: Final = 200
#: Mappings and lists within each other that have a shape of their own.
_DEEPEST: Final = 4
#: References that are opened in one value: itself, and some of its fields or items.
_MOST_OPENED: Final = 6
#: What each part of a value counts beside its own characters: what the page says around it.
_PART: Final = 40

#: The address of the page of that number, from 0.
Link: TypeAlias = Callable[[int], str]


def show_value(
    value: Json,
    load: Load | None = None,
    page: int = 0,
    link: Link | None = None,
    *,
    most: int = LONGEST,
    name: str = "",
) -> ShownValue:
    """A value for the macro `show_value` of values.html. Raises for no JSON.

    Where it is a reference, or some of its fields or items are, `load` opens them; without `load`,
    and of those that lie deeper, previews are shown. `page` (from 0) is the one of its rows, fields
    or items that is shown; with `link` it leads to those around it. `most` bounds the characters.
    `name` is what it stands under.
    """
    return _Show(load, page, link, most).show(value, 0, name)


def has_more(shown: ShownValue) -> bool:
    """Whether there is more of the value than `shown`, and than what is folded in it."""
    match shown:
        case ShownReference():
            return True
        case ShownText() | ShownJson() if not shown.is_whole:
            return True
        case ShownJson() | ShownTable() | ShownEntries():
            parts = shown.entries if isinstance(shown, ShownEntries) else ()
            is_whole = shown.pages is None or shown.pages.is_whole
            return not is_whole or any(has_more(one) for _, one in parts)
        case _:
            return False


def as_text(value: Json) -> str:
    """A value as text, up to `LONGEST` characters; empty for null."""
    if value is None:
        return ""
    if isinstance(value, str):
        return make_visible(_cut(value, LONGEST))
    found = write_json(value, LONGEST)
    return found.text if found.is_whole else f"{found.text}\n…"


def read_page(text: str | None) -> int:
    """The number of a page, as it stands in an address; 0 for what is none."""
    return int(text) if text and text.isascii() and text.isdigit() and len(text) < 10 else 0


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}\n…"


@dataclass(slots=True)
class _Show:
    """One value. `left` counts down the characters that may still be shown of it, and `opens` the
    references that may be opened."""

    load: Load | None
    page: int
    link: Link | None
    left: int = LONGEST
    opens: int = _MOST_OPENED

    def show(self, value: Json, depth: int, name: str = "") -> ShownValue:
        """`value`, which stands under `name`."""
        self.left -= _PART
        match value:
            case str():
                return self._show_text(value)
            case _ if not isinstance(value, Mapping | list | tuple | Lazy):
                return self._show_line(value)
            case _ if is_secret(value):
                return ShownSecret()
            case Mapping() if is_reference(value):
                return self._show_reference(value, depth)
            case Mapping() if source := find_picture(value):
                return ShownPicture(*source)
            case Mapping() if histograms.is_counts(value) and histograms.says_counts(value, name):
                return ShownCounts(histograms.make_histogram(value))
            case _ if not is_open(value) or (depth and self._fits_line(value)):
                return self._show_line(value)
            case _ if depth >= _DEEPEST or self.left <= 0:
                return self._show_json(value)
            case Mapping():
                return self._show_fields(value, depth)
            case _:
                return self._show_items(value, depth)

    # --- short and long texts -------------------------------------------------------------------

    def _show_text(self, text: str) -> ShownScalar | ShownText:
        if not text:
            return ShownScalar("empty", '""')
        if len(text) <= _SHORT_TEXT and "\n" not in text:
            self.left -= len(text)
            return ShownScalar("text", make_visible(text))
        # Something is seen of each, though much was shown before it.
        shown = text[: max(self.left, _SHORT_TEXT)]
        self.left -= len(shown)
        return ShownText(make_visible(shown), len(text), is_whole=len(shown) == len(text))

    def _show_line(self, value: Json) -> ShownScalar:
        text = write_json(value, _SHORT_TEXT, indent=False).text
        self.left -= len(text)
        match value:
            case None:
                return ShownScalar("null", text)
            case bool():
                return ShownScalar("boolean", text)
            case int() | float() | Decimal():
                return ShownScalar("number", text)
            case _:
                return ShownScalar("json" if is_open(value) else "empty", text)

    def _fits_line(self, value: Json) -> bool:
        """Whether its JSON stands on a line, and holds nothing that has a shape of its own."""
        if len(value) > _LINE // 2:
            return False
        inner = value.values() if isinstance(value, Mapping) else value
        return (
            all(not is_open(one) and not is_secret(one) for one in inner)
            and write_json(value, _LINE, indent=False).is_whole
        )

    def _show_json(self, value: Json, pages: ValuePages | None = None, *, indent: bool = True) -> ShownJson:
        found = write_json(value, max(self.left, _SHORT_TEXT), indent=indent)
        self.left -= len(found.text)
        size = f"{len(found.text):,} characters of JSON" if found.is_whole else "JSON"
        return ShownJson(found.text, found.is_whole, _say_items(pages) if pages else size, pages)

    # --- lists and mappings -----------------------------------------------------------------------

    def _show_fields(self, value: JsonMap, depth: int) -> ShownEntries:
        pages = self._find_page(len(value), depth)
        part = islice(value.items(), pages.first, pages.first + pages.count)
        entries = [
            (make_visible(_cut(key, _SHORT_TEXT)), self._show_field(key, item, value, depth))
            for key, item in part
        ]
        return ShownEntries("field", entries, pages)

    def _show_field(self, name: str, item: Json, around: JsonMap, depth: int) -> ShownValue:
        """A field of a mapping. The rows of an SQL result stand page by page, as those of a list
        do."""
        is_list = isinstance(item, list | tuple | Lazy)
        if name == "rows" and is_list and "row_count" in around and depth == 0 and self.link is not None:
            return self._show_items(item, 0) if is_open(item) else self.show(item, 1)
        return self.show(item, depth + 1, name)

    def _show_items(self, value: Sequence[Json], depth: int) -> ShownValue:
        pages = self._find_page(len(value), depth)
        part = pages.cut(value)
        if all(_is_row(one) for one in part):
            return self._show_table(part, pages, depth)
        if all(_is_short(one) for one in part):
            return self._show_json(part, pages, indent=False)
        numbers = range(pages.first, pages.first + len(part))
        shown = [self.show(one, depth + 1) for one in part]
        entries = [(str(number), one) for number, one in zip(numbers, shown, strict=True)]
        return ShownEntries("item", entries, pages)

    def _show_table(self, rows: Sequence[JsonMap], pages: ValuePages, depth: int) -> ShownTable:
        names = list(dict.fromkeys(name for row in rows for name in islice(row, 10 * MOST_COLUMNS)))
        shown = names[:MOST_COLUMNS]
        # Of many rows with much in each the first ones are shown, as far as the text goes.
        cells = [[self.show(row[name], depth + 1) if name in row else None for name in shown] for row in rows]
        heads = [
            TableHead(make_visible(_cut(name, _LINE)), _are_numbers(row[at] for row in cells))
            for at, name in enumerate(shown)
        ]
        return ShownTable(heads, cells, len(names) - len(shown), pages)

    def _find_page(self, total: int, depth: int) -> ValuePages:
        if depth:
            return ValuePages(total, 0, min(total, _WITHIN))
        return ValuePages.of(total, self.page, PAGE, self.link)

    # --- references -------------------------------------------------------------------------------

    def _show_reference(self, reference: JsonMap, depth: int) -> ShownValue:
        facts = read_reference(reference)
        shown = ShownReference(facts.about, facts.whole, facts.file, facts.expires_at)
        if facts.picture:
            return replace(shown, content=ShownPicture(facts.picture, facts.about, facts.about))
        if self.load is None or depth > 1 or not self.opens or not may_open(reference, facts):
            return self._with_preview(shown, reference)
        self.opens -= 1
        try:
            # Lists are read here, as far as they are shown.
            content = self.show(load_value(reference, self.load), depth)
        except (NotFound, BadRequest, Unavailable) as error:
            # Gone, out of reach, or data of a tool that only looks like a reference.
            return replace(self._with_preview(shown, reference), gone=make_visible(error.message))
        return replace(shown, content=content)

    def _with_preview(self, shown: ShownReference, reference: JsonMap) -> ShownReference:
        preview = preview_of(reference)
        if preview is None:
            return shown
        content = _Show(None, 0, None, min(max(self.left, _SHORT_TEXT), 10 * _SHORT_TEXT)).show(preview, 1)
        return replace(shown, content=content, is_preview=True)


def _is_row(value: Json) -> bool:
    """Whether it is a mapping for a row of a table: with short fields, and no references."""
    if not isinstance(value, Mapping) or not value or is_reference(value) or is_secret(value):
        return False
    return all(_is_cell(item) for item in islice(value.values(), MOST_COLUMNS))


def _is_cell(value: Any) -> bool:
    if not is_open(value):
        return True
    is_few = len(value) <= _LINE // 2 and not is_reference(value)
    return is_few and write_json(value, _LINE, indent=False).is_whole


def _is_short(value: Json) -> bool:
    if isinstance(value, str):
        return len(value) <= _SHORT_TEXT and "\n" not in value
    return not isinstance(value, Mapping | list | tuple | Lazy)


def _are_numbers(cells: Iterable[ShownValue | None]) -> bool:
    """Whether there are numbers, and nothing else but gaps."""
    kinds = {one.kind if isinstance(one, ShownScalar) else "" for one in cells if one is not None} - {"null"}
    return kinds == {"number"}


def _say_items(pages: ValuePages) -> str:
    return f"{pages.total:,} item{'s' if pages.total != 1 else ''}"
