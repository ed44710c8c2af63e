"""Parser events to nodes: aliases shared, merges done, keys and tags checked. Nothing recurses."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, TypeAlias

import yaml
from yaml import events

from noetl.dsl.problems import Code, quote_value
from noetl.dsl.read.line_ends import parse
from noetl.dsl.read.scalars import TAG, ScalarFault, plain, read_tagged, tag_text
from noetl.dsl.read.yaml_faults import explain
from noetl.facts.json import Json

_UNSAFE = re.compile("[\x00\ud800-\udfff]")


class Mark(NamedTuple):
    """A position, from 1. `content_line` is where the text of a block scalar begins.

    `end` is (line, column) behind a scalar; of other values it is not known.
    """

    line: int
    column: int
    content_line: int
    scalar: bool = False
    end: tuple[int, int] = (0, 0)


START = Mark(1, 1, 1)


class Fault(Exception):
    """A problem that has no path yet. Raised where reading cannot go on, else collected."""

    def __init__(self, code: Code, message: str, hint: str = "", mark: Mark = START) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.hint = hint
        self.mark = mark


@dataclass(slots=True)
class Leaf:
    """A scalar. `plain` says that it was written without quotes and without a tag."""

    mark: Mark
    value: Json
    text: str
    plain: bool


@dataclass(slots=True)
class Listing:
    mark: Mark
    items: list[Node] = field(default_factory=list)
    open: bool = True


@dataclass(slots=True)
class MappingNode:
    """A mapping. `children` are keys and values in turn; `entries` are made of them when it
    closes."""

    mark: Mark
    children: list[Node] = field(default_factory=list)
    entries: dict[str, tuple[Mark, Node]] = field(default_factory=dict)
    open: bool = True


Node: TypeAlias = Leaf | Listing | MappingNode


class Composer:
    """Composes one document. `faults` are those after which reading went on."""

    def __init__(self, text: str, *, max_depth: int, max_nodes: int) -> None:
        self.faults: list[Fault] = []
        self._text = text
        self._max_depth = max_depth
        self._max_nodes = max_nodes
        self._anchors: dict[str, Node] = {}
        self._stack: list[Listing | MappingNode] = []
        self._root: Node | None = None
        self._documents = 0
        self._count = 0
        self._merged = 0

    def compose(self) -> Node:
        """The root node. Raises Fault."""
        # Looked up by class: a document has tens of thousands of events.
        take: Mapping[type[events.Event], Callable[[Any], None]] = {
            events.DocumentStartEvent: self._begin,
            events.ScalarEvent: lambda event: self._place(self._scalar(event), event.anchor),
            events.AliasEvent: lambda event: self._place(self._alias(event), None),
            events.SequenceStartEvent: self._open,
            events.MappingStartEvent: self._open,
            events.SequenceEndEvent: self._close,
            events.MappingEndEvent: self._close,
        }
        for event in self._events():
            if (taker := take.get(type(event))) is not None:
                taker(event)
        if self._root is None:
            raise Fault(Code.ROOT, "the document is empty", "begin with apiVersion: noetl.io/v2")
        return self._root

    def _events(self) -> Iterator[events.Event]:
        try:
            yield from parse(self._text)
        except yaml.MarkedYAMLError as error:
            what, hint, at = explain(error, self._text)
            place = _mark(at) if at else START
            raise Fault(Code.SYNTAX, f"this is not YAML: {what}", hint, place) from None
        except (yaml.YAMLError, ValueError) as error:
            # The pure-Python parser lets ValueError escape from impossible \U escapes.
            raise Fault(Code.SYNTAX, f"this is not YAML: {quote_value(str(error), 120)}") from None

    def _begin(self, event: events.DocumentStartEvent) -> None:
        self._documents += 1
        if self._documents > 1:
            raise Fault(
                Code.ROOT,
                "a second document begins here",
                "one file holds one playbook",
                _mark(event.start_mark),
            )

    def _place(self, node: Node, anchor: str | None) -> None:
        self._count += 1
        # Keys are nodes here, so twice the limit is where no document can still be within it.
        if self._count > 2 * self._max_nodes:
            raise Fault(
                Code.TOO_MANY_NODES,
                f"the document has more than {self._max_nodes:,} values",
                "hand large data over as payload, or read it in a step",
                node.mark,
            )
        if anchor is not None:
            self._anchors[anchor] = node
        if not self._stack:
            self._root = node
            return
        parent = self._stack[-1]
        (parent.items if isinstance(parent, Listing) else parent.children).append(node)

    def _open(self, event: events.SequenceStartEvent | events.MappingStartEvent) -> None:
        mark = _mark(event.start_mark)
        if len(self._stack) >= self._max_depth:
            raise Fault(
                Code.TOO_DEEP, f"the document is nested deeper than {self._max_depth} levels", "", mark
            )
        mapping = isinstance(event, events.MappingStartEvent)
        if event.tag not in (None, "!", f"{TAG}map" if mapping else f"{TAG}seq"):
            self.faults.append(
                Fault(Code.TAG, f"the tag {tag_text(event.tag or '!')} is not allowed", "remove it", mark)
            )
        node: Listing | MappingNode = MappingNode(mark) if mapping else Listing(mark)
        self._place(node, event.anchor)
        self._stack.append(node)

    def _close(self, _event: events.Event) -> None:
        node = self._stack.pop()
        node.open = False
        if isinstance(node, MappingNode):
            node.entries = self._entries(node)

    def _alias(self, event: events.AliasEvent) -> Node:
        name = event.anchor or ""
        node = self._anchors.get(name)
        if node is None:
            raise Fault(
                Code.ALIAS,
                f"the alias *{name} has no anchor &{name} before it",
                "quote the text if no alias is meant",
                _mark(event.start_mark),
            )
        if not isinstance(node, Leaf) and node.open:
            raise Fault(
                Code.ALIAS, f"the alias *{name} stands inside of what it names", "", _mark(event.start_mark)
            )
        return node

    def _scalar(self, event: events.ScalarEvent) -> Leaf:
        mark = _mark_of_scalar(event)
        text = event.value
        if _UNSAFE.search(text):
            self.faults.append(
                Fault(Code.CHARACTER, "an escape stands for NUL or for half a character", "remove it", mark)
            )
            text = _UNSAFE.sub("", text)
        is_plain = event.tag is None and event.implicit[0]
        try:
            if event.tag is not None:
                return Leaf(mark, read_tagged(text, event.tag), text, plain=False)
            return Leaf(mark, plain(text) if is_plain else text, text, plain=is_plain)
        except ScalarFault as fault:
            code = Code.TAG if fault.tag else Code.NUMBER
            self.faults.append(Fault(code, fault.message, fault.hint, mark))
            return Leaf(mark, None, text, plain=False)

    def _entries(self, table: MappingNode) -> dict[str, tuple[Mark, Node]]:
        own: dict[str, tuple[Mark, Node]] = {}
        merged: dict[str, tuple[Mark, Node]] = {}
        children = table.children
        for key, value in zip(children[::2], children[1::2], strict=True):
            if isinstance(key, Leaf) and key.plain and key.text == "<<":
                for source in self._merge_sources(value):
                    for inherited, entry in source.entries.items():
                        merged.setdefault(inherited, entry)
                continue
            name = self._key(key)
            if name is None:
                continue
            if name in own:
                lines = f"of line {own[name][0].line} is given again in line {key.mark.line}"
                message = f"the key {quote_value(name)} {lines}"
                self.faults.append(Fault(Code.DUPLICATE_KEY, message, "keep one of them", key.mark))
            own[name] = (key.mark, value)
        return {**merged, **own} if merged else own

    def _merge_sources(self, value: Node) -> list[MappingNode]:
        """The mappings that `<<` names, the one that counts most first."""
        nodes = value.items if isinstance(value, Listing) else [value]
        tables = [node for node in nodes if isinstance(node, MappingNode)]
        if len(tables) != len(nodes):
            self.faults.append(
                Fault(
                    Code.MERGE,
                    "`<<` merges a mapping or a list of mappings",
                    "point it at an anchor",
                    value.mark,
                )
            )
        self._merged += sum(len(table.entries) for table in tables)
        if self._merged > self._max_nodes:
            raise Fault(
                Code.TOO_MANY_NODES, f"merge keys copy more than {self._max_nodes:,} values", "", value.mark
            )
        return tables

    def _key(self, key: Node) -> str | None:
        if isinstance(key, Leaf) and not (key.value is None or isinstance(key.value, bool)):
            return key.text
        if isinstance(key, Leaf):
            message, hint = f"the key {quote_value(key.value)} is not text", "quote it"
        else:
            what = "a list" if isinstance(key, Listing) else "a mapping"
            message, hint = f"{what} cannot be a key", 'a template must be quoted: "{{ ... }}"'
        self.faults.append(Fault(Code.KEY_TYPE, message, hint, key.mark))
        return None


def _mark(mark: Any) -> Mark:
    return Mark(mark.line + 1, mark.column + 1, mark.line + 1)


def _mark_of_scalar(event: Any) -> Mark:
    start, end = event.start_mark, event.end_mark
    line = start.line + 1
    content_line = line + 1 if event.style in ("|", ">") else line
    return Mark(line, start.column + 1, content_line, scalar=True, end=(end.line + 1, end.column + 1))
