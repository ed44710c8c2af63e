"""The lines of a playbook at which an error points."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from textwrap import dedent
from typing import Final

from noetl.dsl.read.line_ends import split_lines
from noetl.errors import NotFound
from noetl.facts.outcome import ErrorInfo
from noetl.ui.run.look import RunLook
from noetl.usecases import catalog

#: Lines before and behind the one that is marked.
_AROUND: Final = 3


@dataclass(frozen=True, slots=True)
class SourceLine:
    number: int
    text: str
    is_marked: bool


def read_lines(look: RunLook, error: ErrorInfo | None) -> Sequence[SourceLine]:
    """Those around the line of the error; none where that is not known. Of an execution that was
    imported the catalog knows nothing: what is there under its path is another playbook."""
    if error is None or error.line is None or look.row.imported_at is not None:
        return ()
    try:
        found = catalog.playbook(look.visitor.rt, look.row.path, look.row.playbook_version)
    except NotFound:
        return ()
    lines, at = [line.rstrip("\r\n") for line in split_lines(found.content)], error.line
    if at > len(lines):
        return ()
    first = max(1, at - _AROUND)
    # As far to the left as they can stand: a drawer is narrow.
    shown = dedent("\n".join(lines[first - 1 : at + _AROUND])).split("\n")
    return [SourceLine(number, text, number == at) for number, text in enumerate(shown, first)]
