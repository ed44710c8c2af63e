"""Text to plain data with positions. Every input is answered with data or problems, never an
exception.

The parser's *events* are consumed one by one: unlike its `compose`, which recurses in C and dies on
100,000 nested brackets, they let every limit be checked before anything is built.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Final

from noetl.dsl.problems import Code, Path, Problem, Severity, format_path, severity_of
from noetl.dsl.read.alignment import mask, position
from noetl.dsl.read.compose import Composer, Fault, Leaf, Listing, MappingNode, Mark, Node
from noetl.dsl.read.origins import Origins, origin, value_at
from noetl.dsl.read.scalars import ONCE_BOOLEANS
from noetl.facts.json import Json, JsonMap

MAX_BYTES: Final = 256 * 1024
MAX_DEPTH: Final = 64
#: Values (not keys), counted after aliases and merges.
MAX_NODES: Final = 20_000
#: Of all values together, after aliases and merges.
MAX_CHARACTERS: Final = 1_000_000

# What YAML calls printable, without the surrogates that a Python string may still hold.
_UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_WIDE_MARKS = (b"\xff\xfe", b"\xfe\xff")


@dataclass(frozen=True, slots=True)
class Source:
    """A document as data. `marks` says where each value is, `keys` where each mapping key is.

    `data` is None where nothing could be read; `problems` then says why. Where it was rewritten
    since it was read, `origins` say what each of its parts was before, the last rewriting first:
    places are found by paths of `data`.
    """

    file: str
    text: str
    data: dict[str, Json] | None
    marks: dict[Path, Mark] = field(default_factory=dict)
    keys: dict[Path, Mark] = field(default_factory=dict)
    problems: tuple[Problem, ...] = ()
    origins: tuple[Origins, ...] = ()
    #: The data as it was read, where it was rewritten since.
    first: dict[str, Json] | None = None

    def rewritten(self, data: dict[str, Json], origins: Origins) -> Source:
        """The same document in another form; `origins` lead to the parts of this one."""
        first = self.data if self.first is None else self.first
        return replace(self, data=data, origins=(origins, *self.origins), first=first)

    def path_in_text(self, path: Path) -> Path:
        """Where the part at `path` of `data` stands in the text, or the nearest part around it."""
        if not self.origins:
            return path
        for origins in self.origins:
            path = origin(origins, path)
        while path and path not in self.marks:
            path = path[:-1]
        return path

    def mark(self, path: Path) -> Mark:
        """Where problems of `path` point: at a scalar, at the key of a collection, else at the
        nearest part around it."""
        path = self.path_in_text(path)
        while path:
            value = self.marks.get(path)
            if value is not None:
                return value if value.scalar else self.keys.get(path, value)
            path = path[:-1]
        return Mark(1, 1, 1)

    def key_mark(self, path: Path) -> Mark:
        """Where the key of `path` is."""
        return self.keys.get(self.path_in_text(path)) or self.mark(path)

    def position(self, path: Path, text: str, offset: int) -> tuple[int, int] | None:
        """Line and column of the character `offset` of `text`, where that is what stands at
        `path`."""
        path = self.path_in_text(path)
        if path not in self.marks or value_at(self.data if self.first is None else self.first, path) != text:
            return None
        return position(self.text, self.marks[path], text, offset)

    def raw(self, path: Path) -> JsonMap:
        """The mapping at `path` of `data`; empty where there is none."""
        value = value_at(self.data, path)
        return value if isinstance(value, dict) else {}

    def without(self, paths: Iterable[Path]) -> str:
        """The text with `*` in the place of every character of the scalars at or below `paths`."""
        hidden = frozenset(map(self.path_in_text, paths))
        if not hidden:
            return self.text
        marks = [
            mark
            for path, mark in self.marks.items()
            if mark.scalar and any(path[:size] in hidden for size in range(1, len(path) + 1))
        ]
        return mask(self.text, marks)

    def line_of_content(self, path: Path) -> int:
        """The line on which the content begins: for `code: |` the first line of the code."""
        value = self.marks.get(self.path_in_text(path))
        return value.content_line if value is not None else self.mark(path).line


def read(text: bytes | str, file: str) -> Source:
    """Reads one YAML document. All limits hold; problems are in the result."""
    # On Linux the name of a file need not be text; what is recorded of it is.
    file = file.encode("utf-8", "backslashreplace").decode()
    try:
        decoded = _decode(text)
    except Fault as fault:
        return Source(file, "", None, problems=_problems(file, [fault]))
    composer = Composer(decoded, max_depth=MAX_DEPTH, max_nodes=MAX_NODES)
    try:
        root = composer.compose()
    except Fault as fault:
        return Source(file, decoded, None, problems=_problems(file, [*composer.faults, fault]))
    return _Builder(file, decoded, composer.faults).build(root)


def _decode(text: bytes | str) -> str:
    size = len(text) if isinstance(text, bytes) else len(text.encode("utf-8", "surrogatepass"))
    if size > MAX_BYTES:
        raise Fault(
            Code.TOO_LARGE,
            f"the document has {size:,} bytes, more than {MAX_BYTES:,}",
            "split it into several playbooks and call them with kind: playbook",
        )
    decoded = _utf8(text) if isinstance(text, bytes) else text
    decoded = decoded.removeprefix("\ufeff")
    bad = _UNPRINTABLE.search(decoded)
    if bad is not None:
        raise Fault(
            Code.CHARACTER,
            f"the character U+{ord(bad.group()):04X} is not allowed",
            "remove it; in a double-quoted text write an escape such as \\t",
            _mark_at(decoded, bad.start()),
        )
    return decoded


def _utf8(text: bytes) -> str:
    if text.startswith(_WIDE_MARKS):
        raise Fault(Code.ENCODING, "the document is encoded as UTF-16 or UTF-32", "save it as UTF-8")
    try:
        return text.decode("utf-8")
    except UnicodeDecodeError as error:
        before = text[: error.start].decode("utf-8", "replace")
        raise Fault(
            Code.ENCODING,
            f"byte 0x{text[error.start]:02X} is not UTF-8",
            "save the document as UTF-8",
            _mark_at(before, len(before)),
        ) from None


def _mark_at(text: str, offset: int) -> Mark:
    line = text.count("\n", 0, offset) + 1
    return Mark(line, offset - (text.rfind("\n", 0, offset) + 1) + 1, line)


def _problem(file: str, fault: Fault, path: Path = (), severity: Severity | None = None) -> Problem:
    return Problem(
        fault.code,
        severity or severity_of(fault.code),
        file,
        fault.mark.line,
        fault.mark.column,
        format_path(path),
        fault.message,
        fault.hint,
    )


def _problems(file: str, faults: list[Fault]) -> tuple[Problem, ...]:
    return tuple(_problem(file, fault) for fault in faults)


class _Builder:
    """Expands nodes into data, keeping where every value came from."""

    def __init__(self, file: str, text: str, faults: list[Fault]) -> None:
        self._file = file
        self._text = text
        self._faults = faults
        self._marks: dict[Path, Mark] = {}
        self._keys: dict[Path, Mark] = {}
        self._words: list[Problem] = []
        self._count = 0
        self._characters = 0

    def build(self, root: Node) -> Source:
        data: Json = None
        try:
            if isinstance(root, MappingNode):
                data = self._value(root, (), 1)
            else:
                what = "a list" if isinstance(root, Listing) else "a single value"
                message = f"the document is {what}, not a mapping"
                raise Fault(Code.ROOT, message, "begin with apiVersion:", root.mark)
        except Fault as fault:
            self._faults.append(fault)
        problems = (*_problems(self._file, self._faults), *self._words)
        return Source(self._file, self._text, data, self._marks, self._keys, problems)

    def _value(self, node: Node, path: Path, depth: int) -> Json:
        self._count += 1
        if self._count > MAX_NODES:
            raise Fault(
                Code.TOO_MANY_NODES,
                f"the document expands to more than {MAX_NODES:,} values",
                "aliases count each time they are used",
                node.mark,
            )
        if depth > MAX_DEPTH:
            raise Fault(
                Code.TOO_DEEP, f"aliases nest the document deeper than {MAX_DEPTH} levels", "", node.mark
            )
        self._marks[path] = node.mark
        match node:
            case Leaf():
                return self._leaf(node, path)
            case Listing():
                return [self._value(item, (*path, i), depth + 1) for i, item in enumerate(node.items)]
            case MappingNode():
                self._keys |= {(*path, key): mark for key, (mark, _) in node.entries.items()}
                return {
                    key: self._value(inner, (*path, key), depth + 1)
                    for key, (_, inner) in node.entries.items()
                }

    def _leaf(self, node: Leaf, path: Path) -> Json:
        self._characters += len(node.text)
        if self._characters > MAX_CHARACTERS:
            raise Fault(
                Code.TOO_MANY_NODES,
                f"aliases expand the document to more than {MAX_CHARACTERS:,} characters",
                "hand large texts over as workload",
                node.mark,
            )
        if node.plain and isinstance(node.value, str) and node.value.lower() in ONCE_BOOLEANS:
            fault = Fault(
                Code.YAML_1_1,
                f"`{node.value}` is the text {node.value!r} here, not a boolean",
                "write true or false, or quote it",
                node.mark,
            )
            self._words.append(_problem(self._file, fault, path))
        return node.value
