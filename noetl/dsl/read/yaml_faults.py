"""What the YAML parser says, with the place where the cure is and a word on it."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

from noetl.dsl.read.line_ends import split_lines

_ONLY_A_KEY: Final = re.compile(r"\s*(?:-\s+)*[\w.-]+\s*\Z")
#: The parser says these of where it gave up; what has to be mended is where it began.
_BEGUN: Final = ("a quoted scalar found unexpected end", "could not find expected ':'")
_HINTS: Final = (
    ("unknown escape", r"write \\ for a backslash, or put the text in single quotes"),
    ("quoted scalar found unexpected end", "close the quote that opens here"),
    ("could not find expected ':'", "write key: value; quote a text that goes over several lines"),
    ("alphabetic or numeric character", "quote texts that begin with * or &"),
    ("expected node content", "a value is missing, or a comma too many"),
)
_FIRST: Final = {
    "%": "quote texts that begin with %",
    "@": "quote texts that begin with @",
    "`": "quote texts that begin with `",
    "\t": "indent with spaces",
    "|": "texts of several lines cannot stand inside of { } or [ ]",
    ">": "texts of several lines cannot stand inside of { } or [ ]",
}


def explain(error: yaml.MarkedYAMLError, text: str) -> tuple[str, str, Any]:
    """The message, the hint, and the mark of the parser or None, of an error in `text`."""
    what = " ".join(filter(None, (error.context, error.problem))) or "not YAML"
    mark = error.problem_mark or error.context_mark
    if any(words in what for words in _BEGUN):
        mark = error.context_mark or mark
    return what, _hint(what, _around(text, mark), error.context_mark), mark


def _around(text: str, mark: Any) -> tuple[str, str]:
    """What stands before the mark in its line, and the character at it."""
    if mark is None:
        return "", ""
    lines = split_lines(text)
    line = lines[mark.line] if mark.line < len(lines) else ""
    return line[: mark.column], line[mark.column : mark.column + 1]


def _hint(what: str, around: tuple[str, str], began: Any) -> str:
    before, at = around
    if "\\t" in what or "tab" in what:
        return "indent with spaces"
    if "mapping values are not allowed" in what:
        return (
            "the line before goes on here: indent this one like the keys beside it, and write a blank "
            "behind every colon"
            if _ONLY_A_KEY.match(before)
            else "quote texts that contain ': '"
        )
    if "cannot start any token" in what:
        return _FIRST.get(at, "quote it")
    if at in ("}", "]") and "block" in what:
        return "remove it: no bracket is open here"
    if began is not None and ("',' or" in what or "block" in what):
        place = f"line {began.line + 1}, column {began.column + 1}"
        if "',' or" in what:
            return f"the bracket of {place} is still open: a comma is missing, or its end"
        return f"indent it like what it belongs to; the lines before belong to {place}"
    return next((hint for words, hint in _HINTS if words in what), "")
