"""What may be written within a template, `{{ … }}`, where it is on one line so far."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from noetl.dsl.checks.templates import BUILTINS
from noetl.dsl.completion.flow import TYPED, Node
from noetl.dsl.completion.outline import node_at, read_outline
from noetl.dsl.problems import Path
from noetl.expressions.vocabulary import FILTERS, GLOBALS

#: What a name in a template is.
TemplateWord: TypeAlias = Literal["value", "step", "function", "filter", "name"]

#: Keys whose texts are no templates.
_NO_TEMPLATES: Final = frozenset({"code"})
_WORD: Final = re.compile(r"[\w.]*\Z")
_FILTER: Final = re.compile(r"\|\s*(\w*)\Z")
#: How deep keys of the workload are offered.
_DEEPEST: Final = 3
_OF_ITER: Final = ("index", "parent")


@dataclass(frozen=True, slots=True)
class TemplateSpot:
    """Where something is typed in a template: `typed` begins at column `begin`; `is_filter`: it
    stands behind a bar."""

    typed: str
    begin: int
    is_filter: bool


def find_template(text: str, line: int, column: int) -> TemplateSpot | None:
    """The place in the template that is open in front of the cursor; None where none is, or within
    quotes of it."""
    lines = text.split("\n")
    head = lines[line][:column] if line < len(lines) else ""
    start = max(head.rfind("{{"), head.rfind("{%"))
    inside = head[start + 2 :]
    if start < 0 or "}}" in inside or "%}" in inside or head.lstrip().startswith("#"):
        return None
    if inside.count("'") % 2 or inside.count('"') % 2:
        return None
    word = _FILTER.search(inside)
    if word is not None:
        return TemplateSpot(word[1], column - len(word[1]), is_filter=True)
    typed = _WORD.search(inside)
    assert typed is not None, "it may be empty"
    return TemplateSpot(typed[0], column - len(typed[0]), is_filter=False)


def find_template_names(text: str, line: int, spot: TemplateSpot) -> Iterator[tuple[str, TemplateWord]]:
    """Names that may stand there, each with the sort of thing that it is: what the playbook has
    comes before what the language has."""
    root, path = read_outline(text, line)
    if path[-1:] and path[-1] in _NO_TEMPLATES:
        return
    if spot.is_filter:
        yield from ((name, "filter") for name in sorted(FILTERS))
        return
    yield from ((name, "value") for name in _find_values(root, path))
    yield from ((name, "step") for name in find_steps(root))
    yield from ((name, "function") for name in ("now", *GLOBALS))
    yield from ((name, "name") for name in sorted(BUILTINS - GLOBALS.keys() - {"now"}))


def _find_values(root: dict[str, Node], path: Path) -> Iterator[str]:
    for scope, key in (("workload", "inputs"), ("workload", "workload"), ("ctx", "ctx")):
        node = root.get(key)
        # What is below an input says what it is like.
        depth = 1 if key == "inputs" else _DEEPEST
        yield from (f"{scope}.{name}" for name in _find_paths(node, depth))
    yield from (f"keychain.{name}" for name in find_named(root.get("keychain")))
    iterator = node_at(root, (*path[:2], "loop", "iterator")) if path[:1] == ("workflow",) else None
    if isinstance(iterator, str):
        yield from (iterator, *(f"iter.{name}" for name in (iterator, *_OF_ITER)))


def _find_paths(node: Node, depth: int) -> Iterator[str]:
    if not isinstance(node, dict) or depth == 0:
        return
    for key, inner in node.items():
        if key != TYPED and key.isidentifier():
            yield key
            yield from (f"{key}.{name}" for name in _find_paths(inner, depth - 1))


def find_steps(root: dict[str, Node]) -> Iterator[str]:
    """The names of the steps of an outline."""
    steps = root.get("workflow")
    for step in steps if isinstance(steps, list) else ():
        name = step.get("step") if isinstance(step, dict) else None
        if isinstance(name, str):
            yield name


def find_named(node: Node) -> Iterator[str]:
    """The names of entries: keys of a mapping, or what a list calls them."""
    match node:
        case dict():
            yield from (key for key in node if key != TYPED)
        case list():
            for one in node:
                name = one.get("name") if isinstance(one, dict) else None
                if isinstance(name, str):
                    yield name
