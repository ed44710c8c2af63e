"""Comments that a rewritten text has no place for any more: they come before the step that they
were in."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from yaml import scan

from noetl.dsl.read.compose import LOADER
from noetl.dsl.read.source import Source, read

_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*")
_ITEM: Final = re.compile(r"( *)- *\Z")


def with_lost(before: str, after: str) -> str:
    """`after` with the comments of `before` that it lacks: before their step, or first of all where
    that cannot be."""
    lost = _lost(before, after)
    if not lost:
        return after
    was, now = read(before, ""), read(after, "")
    first: list[str] = []
    above: dict[int, list[str]] = defaultdict(list)
    starts = _starts(now, after.split("\n"))
    for line, comment in lost:
        place = starts.get(_step_at(was, line))
        if place is None:
            first.append(comment)
        else:
            above[place[0]].append(" " * place[1] + comment)
    lines = [one for number, line in enumerate(after.split("\n"), 1) for one in (*above[number], line)]
    found = "\n".join((*first, *lines))
    return found if read(found, "").data == now.data else "".join(f"{one}\n" for _, one in lost) + after


def _lost(before: str, after: str) -> Sequence[tuple[int, str]]:
    """The comments whose place is gone, with the lines that they stood in."""
    left = Counter(comment for _, comment in _comments(after))
    lost = []
    for line, comment in _comments(before):
        if left[comment]:
            left[comment] -= 1
        else:
            lost.append((line, comment))
    return lost


def _comments(text: str) -> Iterator[tuple[int, str]]:
    """What stands behind a # between two tokens, and its line."""
    at, line = 0, 1
    for token in scan(text, Loader=LOADER):
        for found in _COMMENT.finditer(text[at : token.start_mark.index]):
            yield line + text.count("\n", at, at + found.start()), found[0].rstrip()
        line += text.count("\n", at, token.end_mark.index)
        at = token.end_mark.index


def _steps(source: Source) -> Iterator[tuple[int, Any]]:
    """The line in which each step begins, and its name."""
    workflow: Any = (source.data or {}).get("workflow") or []
    for index, step in enumerate(workflow):
        mark = source.marks.get(("workflow", index))
        if mark is not None and isinstance(step, dict):
            yield mark.line, step.get("step")


def _step_at(source: Source, line: int) -> Any:
    """The name of the step that `line` is in; None before the first one."""
    name = None
    for begins, step in _steps(source):
        if begins > line:
            break
        name = step
    return name


def _starts(source: Source, lines: Sequence[str]) -> Mapping[Any, tuple[int, int]]:
    """Name of a step → the line that it begins, and how far that is indented; only steps that have
    a line of their own."""
    found = {}
    for index, (line, name) in enumerate(_steps(source)):
        item = _ITEM.match(lines[line - 1][: source.marks["workflow", index].column - 1])
        if item is not None and isinstance(name, str):
            found[name] = (line, len(item[1]))
    return found
