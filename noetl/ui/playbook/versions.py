"""The versions of a playbook, and in what two of them differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import urlencode

from noetl.ui.asked import read_number
from noetl.ui.playbook.look import PlaybookLook
from noetl.ui.playbook.source import split_lines
from noetl.usecases import catalog
from noetl.usecases.playbooks import COUNTED, NetChange, compare_versions, list_versions

#: Lines around a change that are shown with it.
AROUND: Final = 3
#: Lines of a text that is compared.
MOST_LINES: Final = 10_000

DiffKind: TypeAlias = Literal["same", "added", "removed", "gap"]


@dataclass(frozen=True, slots=True)
class DiffLine:
    """A line, with its number in the text at the left and in the one at the right. A gap stands
    where lines that are the same are left out."""

    kind: DiffKind
    left: int | None
    right: int | None
    text: str


@dataclass(frozen=True, slots=True)
class ShownDiff:
    """In what version `right` differs from `left`. `change` None: it is not known what they do
    otherwise. `is_long`: the texts are too long to be compared."""

    left: int
    right: int
    lines: list[DiffLine]
    added: int
    removed: int
    change: NetChange | None
    is_long: bool


def gather(look: PlaybookLook) -> Mapping[str, Any]:
    """What `playbook/versions.html` shows."""
    left, right = read_number(look.asked, "left"), read_number(look.asked, "right")
    versions = list_versions(look.visitor.rt, look.path)
    return {
        "versions": versions,
        "queries": {
            one.head.version: urlencode({"path": look.path, "version": one.head.version}) for one in versions
        },
        "has_principals": any(one.principal for one in versions),
        "counted": COUNTED,
        "is_counted_whole": sum(one.executions for one in versions) < COUNTED,
        "diff": None if left is None or right is None else _find_diff(look, left, right),
        # What is offered first: the newest one beside the one before.
        "chosen": (left or max(look.newest - 1, 1), right or look.newest),
    }


def _find_diff(look: PlaybookLook, left: int, right: int) -> ShownDiff:
    """Raises NotFound where there is no such version."""
    rt = look.visitor.rt
    one, other = (split_lines(catalog.playbook(rt, look.path, version).content) for version in (left, right))
    is_long = max(len(one), len(other)) > MOST_LINES
    lines = [] if is_long else list(compare_texts(one, other))
    return ShownDiff(
        left,
        right,
        lines,
        sum(line.kind == "added" for line in lines),
        sum(line.kind == "removed" for line in lines),
        compare_versions(rt, look.path, left, right),
        is_long,
    )


def compare_texts(left: list[str], right: list[str]) -> Iterator[DiffLine]:
    """The lines in which `right` differs from `left`, with `AROUND` lines about them."""
    end = 0
    for group in SequenceMatcher(None, left, right).get_grouped_opcodes(AROUND):
        if group[0][1] > end:
            yield DiffLine("gap", None, None, "")
        for tag, i1, i2, j1, j2 in group:
            if tag == "equal":
                shifted = zip(range(i1, i2), range(j1, j2), strict=True)
                yield from (DiffLine("same", i + 1, j + 1, left[i]) for i, j in shifted)
                continue
            yield from (DiffLine("removed", i + 1, None, left[i]) for i in range(i1, i2))
            yield from (DiffLine("added", None, j + 1, right[j]) for j in range(j1, j2))
        end = group[-1][2]
    if 0 < end < len(left):
        yield DiffLine("gap", None, None, "")
