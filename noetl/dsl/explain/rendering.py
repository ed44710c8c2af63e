"""The text form of problems: one line that programs can search, below it the line of the source and
a caret."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator

from rich.cells import cell_len

from noetl.dsl.problems import Code, Problem
from noetl.dsl.read.line_ends import split_lines

#: Problems of one code that are shown of one file.
MAX_SHOWN = 20
#: Characters of a line that are shown, and how many of them stand before the caret at most.
_WIDTH = 120
_BEFORE = 80
_INDENT = "    "


def render_problems(problems: Iterable[Problem], source_text: str | None = None) -> Iterator[str]:
    """The problems of one file; of many with the same code the first ones, and how many more there
    are."""
    seen: Counter[Code] = Counter()
    file = ""
    for problem in problems:
        file = problem.file
        seen[problem.code] += 1
        if seen[problem.code] <= MAX_SHOWN:
            yield render(problem, source_text)
    for code, count in seen.items():
        if count > MAX_SHOWN:
            yield f"{file}: and {count - MAX_SHOWN} more of {code}"


def render(problem: Problem, source_text: str | None = None) -> str:
    """The text form; with `source_text` also the line of the source and a caret below the
    column."""
    lines = [] if source_text is None else split_lines(source_text)
    if not 1 <= problem.line <= len(lines):
        return str(problem)
    line = lines[problem.line - 1].rstrip("\r\n").replace("\t", " ")
    at = problem.column - 1
    start = max(0, at - _BEFORE + 1)
    caret = " " * cell_len(line[start:at])
    return f"{problem}\n{_INDENT}{line[start : start + _WIDTH]}\n{_INDENT}{caret}^"
