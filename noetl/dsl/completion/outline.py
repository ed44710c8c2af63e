"""The outline of a text, by its indentation, and the place of a cursor in it.

A text that is being written is hardly ever YAML. Lines tell enough: what stands further to the
right belongs to what stands above it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from noetl.dsl.completion.flow import TYPED, Node, is_flow, read_flow
from noetl.dsl.problems import Path

#: What begins a text of several lines.
_BLOCK: Final = re.compile(r"[|>][-+0-9]{0,2}\s*(#.*)?")
_COMMENT: Final = re.compile(r"\s#.*")
#: What begins no plain key.
_NO_KEY: Final = "{[#&*!|>%@`"


@dataclass(frozen=True, slots=True)
class CursorSpot:
    """Where something is typed. `path` leads through `root` to the mapping whose key it is, or,
    with `is_value`, to the value itself. `may_be_both`: an item of a list, of which nobody knows
    yet whether it is a mapping. `begin` is the column at which what is `typed` begins; `indent`
    that of the keys of the mapping, None within braces."""

    root: dict[str, Node]
    path: Path
    typed: str
    begin: int
    is_value: bool
    indent: int | None
    may_be_both: bool = False


@dataclass(slots=True)
class _Open:
    """A mapping or a list that lines to the right of `column` belong to. `last` is what was added
    to it last."""

    column: int
    node: dict[str, Node] | list[Node]
    path: Path
    last: str | int | None = None

    @property
    def slot(self) -> Node:
        match self.node, self.last:
            case dict(), str(key):
                return self.node[key]
            case list(), int(index):
                return self.node[index]
            case _:
                return None

    def fill(self, value: Node) -> None:
        match self.node, self.last:
            case dict(), str(key):
                self.node[key] = value
            case list(), int(index):
                self.node[index] = value

    def add_key(self, key: str, value: Node) -> None:
        if isinstance(self.node, dict):
            self.node[key] = value
            self.last = key

    def add_item(self) -> None:
        if isinstance(self.node, list):
            self.node.append(None)
            self.last = len(self.node) - 1


def find_place(text: str, line: int, column: int) -> CursorSpot | None:
    """The place of a cursor in front of the character `column` of `line`, both from 0; None where
    nothing of the language is typed: within comments, texts of several lines, and quotes."""
    reader = _Reader()
    place: CursorSpot | None = None
    for number, one in enumerate(text.split("\n")):
        if number == line:
            place = reader.take_typed(one[:column], one)
        else:
            reader.take(one)
    return place


def read_outline(text: str, line: int) -> tuple[dict[str, Node], Path]:
    """The outline of all of the text, and the path to what stands in `line`, from 0."""
    reader = _Reader()
    path: Path = ()
    for number, one in enumerate(text.split("\n")):
        reader.take(one)
        if number == line:
            path = reader.path_of_slot()
    return reader.root, path


class _Reader:
    def __init__(self) -> None:
        self.root: dict[str, Node] = {}
        self._stack = [_Open(0, self.root, ())]
        #: The column that lines of the text which is read are to the right of.
        self._block: int | None = None

    @property
    def _top(self) -> _Open:
        return self._stack[-1]

    def take(self, line: str) -> None:
        """A line that nobody types in."""
        rest = line.lstrip(" ")
        if self._is_in_text(line, len(line) - len(rest)) or not rest.strip() or rest.startswith("#"):
            return
        rest, column, _ = self._take_dashes(line)
        found = _split_key(rest)
        if found is None:
            if rest:
                self._take_value(rest)
            return
        key, value = found
        if self._open_mapping(column):
            self._top.add_key(key, None)
            self._take_value(value)

    def take_typed(self, head: str, line: str) -> CursorSpot | None:
        """The line of the cursor, and what of it is left of that."""
        if self._is_in_text(line, len(head) - len(head.lstrip(" "))):
            return None
        rest, column, is_item = self._take_dashes(head)
        if is_flow(rest):
            return self._place_in_flow(rest, len(head), self.path_of_slot())
        found = _split_key(rest)
        if found is not None:
            return self._place_value(*found, rest=rest, column=column, end=len(head))
        if rest[:1] in ("'", '"') or rest.endswith(":") or not self._open_mapping(column):
            return None
        self._top.add_key(TYPED, None)
        path = self._top.path
        return CursorSpot(self.root, path, rest, column, is_value=False, indent=column, may_be_both=is_item)

    def _place_value(self, key: str, value: str, *, rest: str, column: int, end: int) -> CursorSpot | None:
        if not self._open_mapping(column):
            return None
        self._top.add_key(key, None)
        if is_flow(value):
            return self._place_in_flow(value, end, self.path_of_slot())
        # Behind `key:` comes a space before the value does.
        if rest.endswith(":") or value[:1] in ("'", '"', "|", ">"):
            self._take_value(value)
            return None
        return CursorSpot(
            self.root, self.path_of_slot(), value, end - len(value), is_value=True, indent=self._top.column
        )

    def _place_in_flow(self, text: str, end: int, path: Path) -> CursorSpot | None:
        flow = read_flow(text)
        self._top.fill(flow.node)
        if flow.typed is None:
            return None
        inner = node_at(flow.node, flow.path)
        is_key = isinstance(inner, dict) and flow.path[-1:] != (TYPED,)
        return CursorSpot(
            self.root,
            (*path, *flow.path),
            flow.typed,
            end - len(flow.typed),
            is_value=not is_key,
            indent=None,
        )

    def path_of_slot(self) -> Path:
        """The path to what was added last."""
        top = self._top
        return top.path if top.last is None else (*top.path, top.last)

    def _is_in_text(self, line: str, column: int) -> bool:
        """Whether the line belongs to a text of several lines; the first one that does not ends
        it."""
        if self._block is None:
            return False
        if not line.strip() and column <= self._block:
            # Empty lines belong to it, unless somebody begins to type where it has ended.
            return bool(not line)
        if column > self._block:
            return True
        self._block = None
        return False

    def _take_dashes(self, line: str) -> tuple[str, int, bool]:
        """Adds the items that the line begins. What is behind their dashes, its column, and whether
        there is one."""
        rest = line.lstrip(" ")
        column, found = len(line) - len(rest), False
        while rest == "-" or rest.startswith("- "):
            self._open_item(column)
            inner = rest[1:].lstrip(" ")
            column, rest, found = column + len(rest) - len(inner), inner, True
        return rest, column, found

    def _open_item(self, column: int) -> None:
        while self._top.column > column:
            self._stack.pop()
        top = self._top
        if not (isinstance(top.node, list) and top.column == column):
            slot = top.slot
            items = slot if isinstance(slot, list) else []
            if not isinstance(slot, dict):
                top.fill(items)
            self._stack.append(_Open(column, items, self.path_of_slot()))
        self._top.add_item()

    def _open_mapping(self, column: int) -> bool:
        """Whether keys may stand in that column."""
        while len(self._stack) > 1 and (
            self._top.column > column or (isinstance(self._top.node, list) and self._top.column >= column)
        ):
            self._stack.pop()
        top = self._top
        if isinstance(top.node, dict) and (top.column == column or top.last is None):
            top.column = column
            return True
        slot = top.slot
        if top.column >= column or isinstance(slot, list):
            return False
        inner: dict[str, Node] = slot if isinstance(slot, dict) else {}
        top.fill(inner)
        self._stack.append(_Open(column, inner, self.path_of_slot()))
        return True

    def _take_value(self, text: str) -> None:
        """What stands behind a key, or a dash."""
        if _BLOCK.fullmatch(text):
            self._top.fill("")
            self._block = self._top.column
        elif is_flow(text):
            self._top.fill(read_flow(text).node)
        else:
            plain = _COMMENT.sub("", f" {text}").strip()
            self._top.fill(plain.strip("\"'") or None)


def _split_key(text: str) -> tuple[str, str] | None:
    """A key and what stands behind it; None where there is no key."""
    if text[:1] in ('"', "'"):
        end = text.find(text[0], 1)
        key, rest = text[1:end], text[end + 1 :].lstrip()
        if end < 0 or not (rest == ":" or rest.startswith(": ")):
            return None
        return key, rest[1:].lstrip(" ")
    if not text or text[0] in _NO_KEY:
        return None
    key, colon, rest = text.partition(": ")
    if colon:
        return key.strip(), rest.lstrip(" ")
    bare = text.rstrip()
    return (bare[:-1].strip(), "") if bare.endswith(":") and len(bare) > 1 else None


def node_at(node: Node, path: Path) -> Node:
    """What the path leads to; None where there is nothing."""
    for part in path:
        match node, part:
            case dict(), str():
                node = node.get(part)
            case list(), int():
                node = node[part] if part < len(node) else None
            case _:
                return None
    return node
