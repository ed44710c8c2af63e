"""How a CSV file is read where nobody says how: as RFC 4180 has it.

The first line says how many fields each line has, and what separates them; only `"` quotes, and
nothing is a comment. Left alone, DuckDB looks for the reading that most lines fit: it passes over
lines, and sees one column where lines differ."""

from __future__ import annotations

import codecs
import csv
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, TypeAlias

from noetl.errors import ToolError
from noetl.facts.reference import Column
from noetl.tools.duckdb.causes import csv_cause, why_bad
from noetl.tools.duckdb.file_patterns import literal_pattern
from noetl.tools.kit.columns import decimal_type
from noetl.tools.sql.rows import quote, quote_text

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: What DuckDB reads without an extension.
Encoding: TypeAlias = Literal["utf-8", "utf-16", "latin-1"]

_DELIMITERS: Final = (",", ";", "\t", "|")
#: Lines that say what separates fields.
_SAMPLE: Final = 200
_UTF16_MARKS: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
#: Digits that every float keeps.
_FLOAT_DIGITS: Final = 15
#: How a date begins of which nobody guesses what is its day and what its month.
_ISO: Final = "%Y"
_ROUNDED: Final = ("DOUBLE", "HUGEINT")
_IGNORE: Final = ", ignore_errors = true"
_SHOWN_LINES: Final = 5


@dataclass(frozen=True, slots=True)
class CsvLayout:
    """A CSV file, and all that its reader has to know. `blank` lines stand before the first one."""

    path: Path
    encoding: Encoding
    blank: int
    delimiter: str
    columns: tuple[Column, ...]
    has_header: bool = True
    #: Options for dates and times that are written in a way of their own.
    formats: str = ""

    def scan(self, more: str = "") -> str:
        """What reads the file in the place of a table in SQL. `more` options begin with a comma."""
        types = ", ".join(f"{quote_text(one.name)}: {quote_text(one.type)}" for one in self.columns)
        return (
            f"read_csv({self._options()}, auto_detect = false, header = {str(self.has_header).lower()}, "
            f"columns = {{{types}}}{self.formats}{more})"
        )

    def question(self) -> str:
        """SQL that asks DuckDB what the columns are."""
        return (
            "SELECT HasHeader, Columns, DateFormat, TimestampFormat "  # noqa: S608 - quoted
            f"FROM sniff_csv({self._options()}{_IGNORE})"
        )

    def _options(self) -> str:
        return (
            f"{quote_text(literal_pattern(self.path))}, encoding = '{self.encoding}', skip = {self.blank}, "
            f"delim = {quote_text(self.delimiter)}, quote = '\"', escape = '\"', comment = ''"
        )

    @property
    def as_text(self) -> CsvLayout:
        """The same with nothing but texts."""
        return replace(self, columns=tuple(Column(one.name, "VARCHAR") for one in self.columns), formats="")


def layout_of(
    connection: DuckDBPyConnection, path: Path, place: str, encoding: Encoding = "utf-8"
) -> CsvLayout:
    """How to read the file, which messages call `place`. Raises ToolError(sql), and what DuckDB
    raises where it cannot reach the file."""
    blank, lines = _first_lines(connection, path, place, encoding)
    delimiter = _delimiter("\n".join(lines))
    plain = CsvLayout(path, encoding, blank, delimiter, _text_columns(lines, delimiter))
    return _with_exact_numbers(connection, _with_types(connection, plain))


def _first_lines(
    connection: DuckDBPyConnection, path: Path, place: str, encoding: Encoding
) -> tuple[int, list[str]]:
    """How many blank lines there are, and those behind them, as far as they are needed."""
    with path.open("rb") as file:
        if encoding == "utf-8" and file.read(2) in _UTF16_MARKS:
            raise _unreadable(place, "it is UTF-16, not UTF-8; say `encoding: utf-16`, or save it as UTF-8.")
    lines = [text.removeprefix("\ufeff") for text in _sample(connection, path, place, encoding)]
    blank = sum(1 for _ in takewhile(lambda line: not line.strip(), lines))
    if blank == len(lines):
        raise _unreadable(place, "it is empty; a CSV file has a line with the names of its columns.")
    if any("\0" in line for line in lines):
        raise _unreadable(place, "it holds NUL bytes; say the `encoding` that it is in, or save it as UTF-8.")
    return blank, lines[blank:]


def _sample(connection: DuckDBPyConnection, path: Path, place: str, encoding: Encoding) -> list[str]:
    import duckdb  # the driver takes 90 ms

    try:
        # Lines that cannot be read are named where all are read, unless there is no other.
        lines = lines_of(path, f", encoding = '{encoding}'{_IGNORE}")
        found = connection.execute(f"FROM {lines} LIMIT {_SAMPLE}").fetchall()
        if not found:
            connection.execute(f"FROM {lines.replace(_IGNORE, '')}")
    except duckdb.InvalidInputException as error:
        raise _unreadable(place, f"{csv_cause(error)}.") from error
    return [str(line or "") for (line,) in found]


def lines_of(path: Path, more: str = "") -> str:
    """What reads the lines of a text file, a row each, in the place of a table in SQL. `more`
    options begin with a comma."""
    # A line is one field: a text does not hold this character, and in JSON it is escaped.
    return (
        f"read_csv({quote_text(literal_pattern(path))}, columns = {{line: 'VARCHAR'}}, delim = '\x1e', "
        f"quote = '', escape = '', comment = '', header = false, auto_detect = false, "
        f"strict_mode = false{more})"
    )


def _unreadable(place: str, why: str) -> ToolError:
    return ToolError("sql", f"{place} cannot be read: {why}", type="BadCsv")


def _delimiter(text: str) -> str:
    """What separates the fields of the first line: of several the one by which most lines have as
    many fields as that."""
    first, *others = [line for line in "".join(text.split('"')[::2]).splitlines() if line]
    counts = {one: first.count(one) for one in _DELIMITERS if one in first}
    return max(
        counts,
        key=lambda one: (sum(line.count(one) == counts[one] for line in others), counts[one]),
        default=_DELIMITERS[0],
    )


def _text_columns(lines: list[str], delimiter: str) -> tuple[Column, ...]:
    names: list[str] = []
    for number, field in enumerate(_first_record(lines, delimiter)):
        name = field.strip() or f"column{number}"
        names.append(f"{name}_{number}" if name.lower() in map(str.lower, names) else name)
    return tuple(Column(name, "VARCHAR") for name in names)


def _first_record(lines: list[str], delimiter: str) -> list[str]:
    try:
        return next(csv.reader((f"{line}\n" for line in lines), delimiter=delimiter))
    except csv.Error:  # a field longer than Python's module takes
        return lines[0].split(delimiter)


def _with_types(connection: DuckDBPyConnection, plain: CsvLayout) -> CsvLayout:
    """The layout with what DuckDB makes of the values; with texts alone where it sees other columns
    than the first line has, so that the first line that differs is found where it is read."""
    import duckdb  # the driver takes 90 ms

    try:
        has_header, columns, day, instant = connection.execute(plain.question()).fetchall()[0]
    except duckdb.InvalidInputException:
        return plain
    if len(columns) != len(plain.columns):
        return plain
    forms = {"DATE": ("dateformat", day), "TIMESTAMP": ("timestampformat", instant)}
    guessed = {kind for kind, (_, form) in forms.items() if form is not None and not form.startswith(_ISO)}
    formats = "".join(
        f", {option} = {quote_text(form)}"
        for kind, (option, form) in forms.items()
        if form is not None and kind not in guessed
    )
    types = [(one["name"], "VARCHAR" if one["type"] in guessed else one["type"]) for one in columns]
    typed = tuple(Column(name, kind) for name, kind in types)
    return replace(plain, columns=typed, has_header=has_header, formats=formats)


def _with_exact_numbers(connection: DuckDBPyConnection, layout: CsvLayout) -> CsvLayout:
    """The layout with decimals, or texts, in the place of numbers that a float would round."""
    rounded = [one for one in layout.columns if one.type in _ROUNDED]
    if not rounded:
        return layout
    asked = ", ".join(_digits_of(quote(one.name)) for one in rounded)
    measured = connection.execute(f"SELECT {asked} FROM {layout.as_text.scan(_IGNORE)}").fetchall()[0]  # noqa: S608
    types = {
        one.name: _number_type(one.type, *measured[3 * at : 3 * at + 3]) for at, one in enumerate(rounded)
    }
    columns = tuple(Column(one.name, types.get(one.name, one.type)) for one in layout.columns)
    return replace(layout, columns=columns)


def _digits_of(cell: str) -> str:
    """SQL for whether floats hold all numbers of a column, and for the most digits before the point
    (null: not all are written by digits alone) and behind it."""
    digits = f"length(ltrim(regexp_replace(split_part(lower({cell}), 'e', 1), '[^0-9]', '', 'g'), '0'))"
    same = f"CAST(TRY_CAST({cell} AS DOUBLE) AS VARCHAR) = {cell}"
    is_plain = f"regexp_full_match(trim({cell}), '[+-]?[0-9]*[.]?[0-9]*')"
    whole = f"length(ltrim(split_part(trim({cell}), '.', 1), '+-0'))"
    return (
        f"coalesce(bool_and({digits} <= {_FLOAT_DIGITS} OR {same}), true), "
        f"CASE WHEN bool_and({is_plain}) THEN max({whole}) END, "
        f"max(length(split_part(trim({cell}), '.', 2)))"
    )


def _number_type(kind: str, is_float: bool, whole: int | None, scale: int | None) -> str:
    if kind == "DOUBLE" and is_float:
        return kind
    return (whole is not None and decimal_type(whole, scale or 0)) or "VARCHAR"


def unreadable(error: Exception, place: str, columns: tuple[Column, ...]) -> ToolError:
    """What to raise for an error of DuckDB while it reads the file."""
    names = ", ".join(one.name for one in columns)
    return _unreadable(place, f"{csv_cause(error)}; its columns are {names}.")


def rejected_lines(connection: DuckDBPyConnection, place: str) -> tuple[str, ...]:
    """What was left out of the file that was scanned with `store_rejects`, as warnings. Raises
    ToolError where that may be more than a line: behind a quote that does not end."""
    found = connection.execute(
        "SELECT line, first(error_message), first(error_type = 'UNQUOTED VALUE') FROM reject_errors "
        "GROUP BY line ORDER BY line"
    ).fetchall()
    shown = [f"line {line} {why_bad(cause)}" for line, cause, _ in found[:_SHOWN_LINES]]
    if endless := next((f"line {line} {why_bad(cause)}" for line, cause, is_open in found if is_open), None):
        raise _unreadable(place, f"{endless}; nobody knows where it ends, so it cannot be skipped.")
    more = ", ..." if len(found) > len(shown) else ""
    count = "1 line was" if len(found) == 1 else f"{len(found):,} lines were"
    return (f"{place}: {count} left out: {'; '.join(shown)}{more}",) if found else ()
