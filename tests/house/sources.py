"""What stands in a file of tests, by sort, for the rules that look at it."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

#: A file without any of these has nothing to find.
WORDS: Final = re.compile(
    r"sleep|timeout|\btime\b|select\.|\.(?:wait|join|result|communicate|acquire)\([\w.]+\)"
    r"|\bport=|--port|\.bind\(|psutil|pgrep|pkill|killall|\bps\b|/proc"
    r"|\.(?:count|input_value|inner_text|text_content)\(\) =="
)


class Text(NamedTuple):
    """A piece of text that is no docstring, and the lines that it stands on."""

    value: str
    first: int
    last: int


@dataclass(frozen=True)
class Source:
    """A file of tests: what stands in it, by sort."""

    lines: Sequence[str]
    nodes: Sequence[ast.AST]
    texts: Sequence[Text]

    @cached_property
    def calls(self) -> Sequence[ast.Call]:
        return [node for node in self.nodes if isinstance(node, ast.Call)]

    @cached_property
    def origins(self) -> Mapping[str, str]:
        """What imported names stand for: `nap` → `time.sleep`."""
        found = dict[str, str]()
        for node in self.nodes:
            if isinstance(node, ast.Import):
                found |= {one.asname: one.name for one in node.names if one.asname}
                found |= {(top := one.name.split(".")[0]): top for one in node.names if not one.asname}
            elif isinstance(node, ast.ImportFrom):
                module = "." * node.level + (node.module or "")
                found |= {one.asname or one.name: f"{module}.{one.name}" for one in node.names}
        return found

    @cached_property
    def numbers(self) -> Mapping[str, float]:
        """The numbers that this file gives names to."""
        found = dict[str, float]()
        for node in self.nodes:
            match node:
                case (
                    ast.Assign(targets=[ast.Name(id=name)], value=value)
                    | ast.AnnAssign(target=ast.Name(id=name), value=value)
                ):
                    if (number := _literal(value)) is not None:
                        found[name] = number
        return found

    @cached_property
    def pairs(self) -> Sequence[tuple[int, str, str]]:
        """Words that follow one another in a list, a tuple, or the arguments of a call."""
        found = []
        for node in self.nodes:
            match node:
                case ast.List(elts=words) | ast.Tuple(elts=words) | ast.Call(args=words):
                    found += [pair for pair in map(_words, pairwise(words)) if pair]
        return found

    def origin(self, node: ast.expr) -> str:
        """The dotted name of what is called, imports resolved; that of a method of something else
        begins with a dot."""
        match node:
            case ast.Name(id=name):
                return self.origins.get(name, name)
            case ast.Attribute(value=value, attr=attribute):
                return f"{self.origin(value)}.{attribute}"
        return ""

    def number(self, node: ast.expr) -> float | None:
        """The number that is written there, or that a name of this file stands for."""
        match node:
            case ast.Name(id=name):
                return self.numbers.get(name)
            case ast.Tuple(elts=parts):
                return min((number for part in parts if (number := self.number(part))), default=None)
        return _literal(node)

    def search(self, pattern: re.Pattern[str]) -> Iterator[tuple[int, re.Match[str], str]]:
        """Where it stands in a text: its line, as far as it is written there as it is; what is
        found; and what stands before that on its line."""
        for text in self.texts:
            for match in pattern.finditer(text.value):
                span = range(text.first, text.last + 1)
                line = next((number for number in span if match[0] in self.lines[number - 1]), text.first)
                yield line, match, text.value[: match.start()].rsplit("\n", 1)[-1]


def _literal(node: ast.expr | None) -> float | None:
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return value
    return None


def _words(nodes: tuple[ast.expr, ast.expr]) -> tuple[int, str, str] | None:
    match nodes:
        case ast.Constant(value=str(first), lineno=line), ast.Constant(value=str(second)):
            return line, first, second
    return None


def read(name: str, content: str) -> Source:
    """What stands in a file of that name: Python, or anything else with code in it."""
    lines = content.splitlines()
    if not WORDS.search(content):
        return Source(lines, (), ())
    if not name.endswith(".py"):
        return Source(lines, (), [Text(line, number, number) for number, line in enumerate(lines, 1)])
    nodes = list(ast.walk(ast.parse(content)))
    return Source(lines, nodes, list(_texts(nodes)))


def _texts(nodes: Sequence[ast.AST]) -> Iterator[Text]:
    """Texts that are no docstrings. What is filled in stands as `{}`."""
    passed_over = {id(node.value) for node in nodes if isinstance(node, ast.Expr)}
    for node in nodes:
        match node:
            case ast.JoinedStr(values=parts):
                passed_over |= {id(part) for part in parts}
                value = "".join(str(part.value) if isinstance(part, ast.Constant) else "{}" for part in parts)
                yield Text(value, node.lineno, node.end_lineno or node.lineno)
            case ast.Constant(value=str(value)) if id(node) not in passed_over:
                yield Text(value, node.lineno, node.end_lineno or node.lineno)
