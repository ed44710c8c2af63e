"""Mappings and lists on one line, `{kind: http, url: ...}`, as far as they are written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from noetl.dsl.problems import Path

#: What the outline of a text is made of: scalars are texts, and None is what is not there yet.
Node: TypeAlias = "str | dict[str, Node] | list[Node] | None"

#: A key that is being typed: it is there, so that what is below it is, and has no name yet.
TYPED: Final = "\0"
_OPENING: Final = "{["
_CLOSING: Final = "}]"


@dataclass(slots=True)
class Flow:
    """What was read. `path` leads from it to what is open at the end; `typed` is what stands there
    behind the last comma or colon, None within quotes and where nothing is open."""

    node: Node
    path: Path = ()
    typed: str | None = None


def is_flow(text: str) -> bool:
    return text[:1] in ("{", "[")


def read_flow(text: str) -> Flow:
    """`text` begins with a brace or a bracket."""
    return _FlowReader(text).read()


@dataclass(slots=True)
class _FlowReader:
    text: str
    at: int = 0
    token: str = ""
    #: Whether the token is a text in quotes.
    quoted: bool = False
    #: Mappings and lists that are open, each with the key whose value comes next.
    nodes: list[dict[str, Node] | list[Node]] = field(default_factory=list)
    keys: list[str | None] = field(default_factory=list)
    root: Node = None

    def read(self) -> Flow:
        while self.at < len(self.text) and (self.nodes or self.root is None):
            self._take(self.text[self.at])
            self.at += 1
        if not self.nodes:
            return Flow(self.root)
        path: list[str | int] = []
        for node, key in zip(self.nodes, self.keys, strict=True):
            if isinstance(node, list):
                # What is open within the list has been added to it.
                path.append(len(node) if node is self.nodes[-1] else len(node) - 1)
            elif key is not None:
                # That it is there tells which form of a mapping is meant.
                node.setdefault(key, None)
                path.append(key)
        # At a colon without a space the value has not begun.
        typed = None if self.quoted or self.text.endswith(":") else self.token.lstrip()
        return Flow(self.root, tuple(path), typed)

    def _take(self, character: str) -> None:
        if character in _OPENING:
            self._open({} if character == "{" else [])
        elif character in _CLOSING:
            self._put()
            self.nodes.pop()
            self.keys.pop()
            self.keys[-1:] = [None] if self.keys else []
        elif character == ",":
            self._put()
        elif character in "\"'" and not self.token.strip():
            end = self.text.find(character, self.at + 1)
            self.quoted = True
            self.token = self.text[self.at + 1 : end if end >= 0 else None]
            self.at = end if end >= 0 else len(self.text)
        elif character == ":" and self._ends_key():
            self.keys[-1], self.token, self.quoted = self.token.strip(), "", False
        else:
            self.token += character

    def _ends_key(self) -> bool:
        return (
            isinstance(self.nodes[-1], dict)
            and self.keys[-1] is None
            and self.text[self.at + 1 : self.at + 2] in ("", " ")
        )

    def _open(self, node: dict[str, Node] | list[Node]) -> None:
        self.token = ""
        if self.nodes:
            self._add(node)
        else:
            self.root = node
        self.nodes.append(node)
        self.keys.append(None)

    def _put(self) -> None:
        """What has been read is a value, or a key without one."""
        text = self.token if self.quoted else self.token.strip()
        self.token, self.quoted = "", False
        if text or self.keys[-1] is not None:
            self._add(text or None)
        self.keys[-1] = None

    def _add(self, value: Node) -> None:
        node, key = self.nodes[-1], self.keys[-1]
        if isinstance(node, list):
            node.append(value)
        elif key is not None:
            # What is open stays under its key until it is closed.
            node[key] = value
