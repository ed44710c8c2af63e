"""The text of the playbook that an execution runs, with the opened step and what is wrong with it
marked."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any, Final

from noetl.errors import NotFound
from noetl.net.model import Net
from noetl.ui.json_text import make_visible
from noetl.ui.run.look import RunLook
from noetl.usecases import catalog, inspect
from noetl.usecases.ports import ExecutionRow, PlaybookRow
from noetl.usecases.runtime import Runtime

if TYPE_CHECKING:
    from pygments.token import _TokenType

#: Lines of one page, characters of one line, and of a text that is coloured.
PAGE: Final = 3_000
_LONGEST: Final = 2_000
_MOST_COLOURED: Final = 200_000
#: Lines before an opened step that lies far below.
_ABOVE: Final = 100
#: What may stand around the name of a step, in a piece that is one.
_STANDS_ALONE: Final = re.compile(r"[ '\"]*")


@dataclass(frozen=True, slots=True)
class Span:
    """A piece of a line, the class that colours it, and where it leads; empty: none, nowhere."""

    text: str
    kind: str = ""
    address: str = ""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of the file; `faults` and `warnings` are what is said about it."""

    number: int
    spans: Sequence[Span]
    is_marked: bool
    faults: Sequence[str]
    warnings: Sequence[str]


def gather(look: RunLook) -> Mapping[str, Any]:
    """What `run/source.html` shows."""
    rt, row = look.visitor.rt, look.row
    playbook = _find_playbook(rt, row)
    net = inspect.net_of(rt, look.execution_id)
    texts = [] if playbook is None else playbook.content.split("\n")
    if texts and not texts[-1]:
        texts.pop()
    marked = _find_lines(texts, net, look.step)
    begin = _find_begin(look, marked)
    lines = list(_show(look, net, playbook, texts, marked, begin)) if playbook is not None else []
    return {
        "lines": lines,
        "line_count": len(texts),
        "earlier": look.here(line=max(begin + 1 - PAGE, 1)) if begin else "",
        "later": look.here(line=begin + PAGE + 1) if begin + PAGE < len(texts) else "",
        "file": net.file,
        "marked": marked,
        "opened": look.step if marked else "",
    }


def _find_playbook(rt: Runtime, row: ExecutionRow) -> PlaybookRow | None:
    """The version that it runs. Of a specimen the catalog knows nothing: what stands there under
    its path is another playbook."""
    if row.imported_at is not None:
        return None
    try:
        return catalog.playbook(rt, row.path, row.playbook_version)
    except NotFound:
        return None


def _find_begin(look: RunLook, marked: range) -> int:
    """The index of the first line of the page."""
    asked = look.number("line")
    if asked is not None:
        return max(asked - 1, 0)
    return marked.start - 1 - _ABOVE if marked and marked.start > PAGE else 0


# --- which lines ----------------------------------------------------------------------------------


def _find_lines(texts: Sequence[str], net: Net, step: str | None) -> range:
    """The numbers of the lines of a step: to the last one that is indented deeper than it."""
    first = net.steps[step].line if step is not None and step in net.steps else 0
    if not 1 <= first <= len(texts):
        return range(0)
    indent, last = _indent_of(texts[first - 1]), first
    for number in range(first + 1, len(texts) + 1):
        text = texts[number - 1]
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        if _indent_of(text) <= indent:
            break
        last = number
    return range(first, last + 1)


def _indent_of(text: str) -> int:
    return len(text) - len(text.lstrip(" "))


def _find_faults(look: RunLook) -> Mapping[int, list[str]]:
    """What went wrong, by the line that it is about."""
    found = defaultdict[int, list[str]](list)
    errors = [look.report.error, *(step.get("error") for step in look.report.steps.values())]
    for error in filter(None, errors):
        line, message = error.get("line"), str(error.get("message"))
        if isinstance(line, int) and message not in found[line]:
            found[line].append(message)
    return found


def _find_warnings(look: RunLook) -> Mapping[int, list[str]]:
    found = defaultdict[int, list[str]](list)
    for one in look.report.warnings:
        if isinstance(line := one.get("line"), int):
            found[line].append(" ".join(filter(None, (one.get("code"), one.get("message")))))
    return found


# --- how they are shown ---------------------------------------------------------------------------


def _show(
    look: RunLook, net: Net, playbook: PlaybookRow, texts: Sequence[str], marked: range, begin: int
) -> Iterator[SourceLine]:
    steps = {one.line: one.name for one in reversed(net.transitions)}
    faults, warnings = _find_faults(look), _find_warnings(look)
    coloured = _colour(playbook.content) if len(playbook.content) <= _MOST_COLOURED else None
    for number in range(begin + 1, min(begin + PAGE, len(texts)) + 1):
        text, step = texts[number - 1], steps.get(number, "")
        spans = [Span(text)] if coloured is None else coloured[number - 1]
        address = look.to(tab=None, step=step, run=None, iteration=None) if step else ""
        yield SourceLine(
            number,
            list(_link(list(_cut(spans)), step, address)),
            number in marked,
            faults.get(number, ()),
            warnings.get(number, ()),
        )


def _cut(spans: Sequence[Span]) -> Iterator[Span]:
    left = _LONGEST
    for one in spans:
        if left <= 0:
            yield Span("…")
            return
        yield Span(make_visible(one.text[:left]), one.kind)
        left -= len(one.text)


def _link(spans: Sequence[Span], step: str, address: str) -> Iterator[Span]:
    """The name of a step in the line where it begins leads to it."""
    is_open = bool(step)
    for one in spans:
        before, name, behind = one.text.rpartition(step) if is_open and one.kind != "y-key" else ("", "", "")
        if not name or not _STANDS_ALONE.fullmatch(before) or not _STANDS_ALONE.fullmatch(behind):
            yield one
            continue
        is_open = False
        yield from (each for each in (Span(before, one.kind), Span(name, one.kind, address)) if each.text)
        yield Span(behind, one.kind)


def _colour(content: str) -> list[list[Span]]:
    """The lines of a text in pieces that have a colour."""
    from pygments.lexers.data import YamlLexer  # few requests are for a text

    lines: list[list[Span]] = [[]]
    for _, token, text in YamlLexer().get_tokens_unprocessed(content):
        kind = _class_of(token)
        first, *others = text.split("\n")
        _add(lines[-1], first, kind)
        for other in others:
            lines.append([])
            _add(lines[-1], other, kind)
    return lines


def _add(line: list[Span], text: str, kind: str) -> None:
    """Puts it behind the others, or to the last one where that has the same colour."""
    if not text:
        return
    if line and line[-1].kind == kind:
        text = line.pop().text + text
    line.append(Span(text, kind))


def _class_of(token: _TokenType) -> str:
    return next((kind for family, kind in _list_classes() if token in family), "")


@cache
def _list_classes() -> Sequence[tuple[_TokenType, str]]:
    """By kinds of words: the class that colours them."""
    from pygments.token import Comment, Keyword, Literal, Name, Punctuation, String  # see `_colour`

    return (
        (Comment, "y-comment"),
        (Name.Tag, "y-key"),
        (Punctuation, "y-mark"),
        (Name, "y-text"),
        (Keyword, "y-number"),
        (Literal.Number, "y-number"),
        (String, "y-text"),
        (Literal, "y-text"),
    )
