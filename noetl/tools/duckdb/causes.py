"""What errors of DuckDB say: their cause in one sentence, without the advice that follows it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_CSV: Final = re.compile(
    r"CSV Error on Line: (?P<line>\d+)\n"
    r"(?:Original Line: ?(?P<text>.*?)\n+)?"
    r"(?P<cause>(?:Expected Number|Error when|Invalid unicode|Value with|Maximum line)[^\n]*)",
    re.DOTALL,
)
_FILE: Final = re.compile(r"^  file = (.*)$", re.MULTILINE)
_FIELDS: Final = re.compile(r"Expected Number of Columns: (\d+) Found: (\d+)")
_VALUE: Final = re.compile(
    r'Error when converting column "(?P<column>.*)"\. .*?string "(?P<value>.*)" to \'(?P<type>.*)\'',
    re.DOTALL,
)
#: Words of DuckDB → why a line cannot be read, behind its number.
_REASONS: Final = {
    "Invalid unicode": "is not in UTF-8: save the file so, or say the `encoding` of a CSV file",
    "Value with unterminated quote": "has a quote that does not end where a field does; one inside of a "
    "field is doubled",
    "Maximum line": "is longer than 2,000,000 bytes",
}
_NO_CSV: Final = "The CSV Parser state machine reached an invalid state"
#: Characters of a line that are shown.
_SHOWN: Final = 200


@dataclass(frozen=True, slots=True)
class BadLine:
    """A line of a CSV file that cannot be read: its number from 1, why, and what it holds."""

    number: int
    why: str
    text: str

    def __str__(self) -> str:
        shown = f" (it is {self.text[:_SHOWN]!r})" if self.text else ""
        return f"line {self.number} {self.why}{shown}"


def bad_line(error: Exception) -> BadLine | None:
    """The line that an error is about; None where it is about something else."""
    found = _CSV.search(str(error))
    return found and BadLine(int(found["line"]), why_bad(found["cause"]), found["text"] or "")


def why_bad(cause: str) -> str:
    """Why a line cannot be read, behind its number, from DuckDB's words."""
    if (counts := _FIELDS.match(cause)) is not None:
        fields = "1 field" if counts[2] == "1" else f"{counts[2]} fields"
        return f"has {fields} in the place of {counts[1]}"
    if (wrong := _VALUE.match(cause)) is not None:
        return (
            f"has {wrong['value'][:_SHOWN]!r} in the column '{wrong['column']}', which is {wrong['type']} by "
            "the lines before"
        )
    known = (why for words, why in _REASONS.items() if cause.startswith(words))
    return next(known, f"is refused: {cause.strip().rstrip('.')}")


def csv_cause(error: Exception) -> str:
    """Why a CSV file cannot be read, with the line, the column and the value."""
    if _NO_CSV in str(error):
        return "its lines end in different ways (LF and CRLF), or it is no CSV by RFC 4180"
    return str(bad_line(error) or _first_line(error))


def cause_of(error: Exception) -> str:
    """The cause of any error."""
    if bad_line(error) is None:
        return _first_line(error)
    file = _FILE.search(str(error))
    return f"The file {file[1] if file else ''} cannot be read: {csv_cause(error)}"


def _first_line(error: Exception) -> str:
    return (str(error).strip().splitlines() or [type(error).__name__])[0]
