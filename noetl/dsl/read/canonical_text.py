"""The canonical form of a document as YAML: what was not rewritten stays as it was written,
comments included.

Uses ruamel.yaml (the extra `migrate`), whose round-trip tree knows comments, quotes, anchors and
styles.
"""

from __future__ import annotations

import copy
import io
import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, Final

from ruamel.yaml import YAML
from ruamel.yaml.comments import CommentedBase, CommentedMap, CommentedSeq
from ruamel.yaml.error import YAMLError
from ruamel.yaml.scalarstring import LiteralScalarString
from ruamel.yaml.tokens import CommentToken
from ruamel.yaml.util import load_yaml_guess_indent
from yaml import scan

from noetl.dsl.problems import Path
from noetl.dsl.read.line_ends import LOADER
from noetl.dsl.read.origins import origin
from noetl.dsl.read.scalars import plain
from noetl.dsl.read.source import Source, read
from noetl.errors import PlaybookInvalid
from noetl.facts.json import Json

#: Lines are never folded.
_WIDTH: Final = 100_000
#: Characters of JSON up to which something that was written in one line stays so.
_ONE_LINE: Final = 200
_NOWHERE: Final = object()
_COMMENT: Final = re.compile(r"(?:^|(?<=\s))#.*")
_ITEM: Final = re.compile(r"( *)- *\Z")
_MAPPING: Final = re.compile(r"^\w+:[ \t]*(?:#.*)?\n( +)[^\s#-]", re.MULTILINE)


def canonical_text(source: Source) -> str:
    """`source`, which was rewritten, as text; as it was written where it was not. Lines end as they
    did.

    Raises PlaybookInvalid where the text cannot be read with its comments.
    """
    if not source.origins:
        return source.text
    written = replace(source, text=source.text.replace("\r\n", "\n"))
    try:
        yaml = _yaml(written.text)
        texts = _texts(yaml, written)
        text = next(text for text in texts if _same(read(text, source.file).data, source.data))
    except YAMLError as error:
        message = (
            f"{source.file}: this YAML cannot be rewritten with its comments: {str(error).splitlines()[0]}"
        )
        raise PlaybookInvalid(message) from error
    found = _add_lost(written.text, text)
    # Half of the line ends and more decide.
    windows = 2 * source.text.count("\r\n") > source.text.count("\n")
    return found.replace("\n", "\r\n") if windows else found


def _texts(yaml: Any, source: Source) -> Iterator[str]:
    """The text with all its comments; without those whose places had to move, where the printer
    trips over them; with nothing of what was read."""
    trees = (
        _Printer(source, yaml.load(source.text), moving=moving).node((), source.data)
        for moving in (True, False)
    )
    for tree in chain(trees, [source.data]):
        out = io.StringIO()
        yaml.dump(tree, out)
        yield out.getvalue()


def _yaml(text: str) -> Any:
    yaml = YAML(typ="rt")
    yaml.preserve_quotes = True
    yaml.width = _WIDTH
    # `[{step: end}]` stays so: `[step: end]` is the same to YAML, and strange to people.
    yaml.brace_single_entry_mapping_in_flow_sequence = True
    # The same anchor twice is right: an alias is that of the last one.
    yaml.composer.warn_double_anchors = False
    # Dates are texts, as for the compiler.
    resolver = yaml.resolver
    for first in "0123456789":
        known = resolver.versioned_resolver.get(first, [])
        resolver.versioned_resolver[first] = [one for one in known if not one[0].endswith(":timestamp")]
    _, indent, offset = load_yaml_guess_indent(text, yaml=yaml)
    if indent is not None and offset is not None:
        nested = _MAPPING.search(text)
        yaml.indent(mapping=len(nested[1]) if nested else 2, sequence=indent, offset=offset)
    return yaml


class _Printer:
    """Nodes of the canonical form, made of the nodes of the tree that was read."""

    def __init__(self, source: Source, tree: Any, *, moving: bool = True) -> None:
        self._moving = moving
        self._source = source
        self._tree = tree
        self._written = read(source.text, source.file).data
        self._used: set[int] = set()
        #: Entries whose comments stand somewhere already.
        self._commented: set[Path] = set()

    def node(self, path: Path, value: Json) -> Any:
        at = self._origin(path)
        if at in self._source.marks and _same(_at(self._written, at), value):
            found = _at(self._tree, at)
            if found is not _NOWHERE:
                return self._again(found)
        match value:
            case dict() | list():
                return self._collection(path, value, at)
            case str() if "\n" in value:
                return LiteralScalarString(value)
            case _:
                return value

    def _origin(self, path: Path) -> Path:
        for origins in self._source.origins:
            path = origin(origins, path)
        return path

    def _again(self, found: Any) -> Any:
        """The node itself; a copy where it stands somewhere already, lest it becomes an alias."""
        if not isinstance(found, CommentedMap | CommentedSeq):
            return found
        nodes = {id(node) for node in _nodes(found)}
        if nodes & self._used:
            return copy.deepcopy(found)
        self._used |= nodes
        return found

    def _collection(self, path: Path, value: Any, at: Path) -> Any:
        made: Any
        entries: Any
        if isinstance(value, dict):
            made, entries = CommentedMap(), value.items()
        else:
            made, entries = CommentedSeq([None] * len(value)), enumerate(value)
        for key, inner in entries:
            made[key] = self.node((*path, key), inner)
            self._keep_comment(made, key, (*path, key))
        self._keep_style(made, at)
        return made

    def _keep_comment(self, made: Any, key: str | int, path: Path) -> None:
        """The comment behind an entry moves with it, where the entry is still of the same form."""
        at = self._origin(path)
        if not self._moving or not at or at not in self._source.marks:
            return
        around = _at(self._tree, at[:-1])
        if type(around) is not type(made) or at[-1] not in around.ca.items or at in self._commented:
            return
        if isinstance(around[at[-1]], CommentedBase) == isinstance(made[key], CommentedBase):
            self._commented.add(at)
            found = around.ca.items[at[-1]]
            made.ca.items[key] = found if at == path else _of_its_line(found)

    def _keep_style(self, made: CommentedMap | CommentedSeq, at: Path) -> None:
        if at not in self._source.marks:
            return
        found = _at(self._tree, at)
        if not isinstance(found, CommentedMap | CommentedSeq):
            return
        if found.fa.flow_style() and _fits(made):
            made.fa.set_flow_style()
        if self._moving and type(found) is type(made):
            made.ca.comment = found.ca.comment
            made.ca.end = found.ca.end


def _of_its_line(comments: list[Any]) -> list[Any]:
    """What stands behind an entry in its own line: the lines below are about what came next
    there."""
    token = comments[2]
    if not isinstance(token, CommentToken) or "\n" not in token.value.rstrip("\n"):
        return comments
    line = token.value.partition("\n")[0]
    own = CommentToken(f"{line}\n", token.start_mark, None) if line else None
    return [*comments[:2], own, *comments[3:]]


def _fits(made: Any) -> bool:
    commented = any(node.ca.items or node.ca.comment for node in _nodes(made))
    return not commented and len(json.dumps(made)) <= _ONE_LINE


def _nodes(node: Any) -> Iterator[Any]:
    """The collections of a tree, without those that have an anchor: they may stand more than
    once."""
    if isinstance(node, CommentedMap | CommentedSeq) and node.anchor.value is None:
        yield node
        for inner in node.values() if isinstance(node, CommentedMap) else node:
            yield from _nodes(inner)


def _at(data: Any, path: Path) -> Any:
    """What stands there; `_NOWHERE` below a number as a key that is written in another way:
    keys are texts elsewhere."""
    for part in path:
        key = plain(str(part)) if isinstance(data, dict) and part not in data else part
        if isinstance(data, dict) and key not in data:
            return _NOWHERE
        data = data[key]
    return data


def _same(one: Json, other: Json) -> bool:
    """Equal, in types and in the order of keys as well."""
    return json.dumps(one) == json.dumps(other)


def _add_lost(before: str, after: str) -> str:
    """`after` with the comments of `before` that it lacks: they come before the step that they were
    in, or first of all where that cannot be."""
    lost = _find_lost(before, after)
    if not lost:
        return after
    was, now = read(before, ""), read(after, "")
    steps = list(_steps(was))
    first: list[str] = []
    above: dict[int, list[str]] = defaultdict(list)
    starts = _starts(now, after.split("\n"))
    for line, comment in lost:
        step = next((name for begins, name in reversed(steps) if begins <= line), None)
        place = starts.get(step)
        if place is None:
            first.append(comment)
        else:
            above[place[0]].append(" " * place[1] + comment)
    lines = [one for number, line in enumerate(after.split("\n"), 1) for one in (*above[number], line)]
    found = "\n".join((*first, *lines))
    return found if read(found, "").data == now.data else "".join(f"{one}\n" for _, one in lost) + after


def _find_lost(before: str, after: str) -> Sequence[tuple[int, str]]:
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


def _starts(source: Source, lines: Sequence[str]) -> Mapping[Any, tuple[int, int]]:
    """Name of a step → the line that it begins, and how far that is indented; only steps that have
    a separate line."""
    found = {}
    for index, (line, name) in enumerate(_steps(source)):
        item = _ITEM.match(lines[line - 1][: source.marks["workflow", index].column - 1])
        if item is not None and isinstance(name, str):
            found[name] = (line, len(item[1]))
    return found
