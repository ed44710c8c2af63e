"""From the text of a template to Jinja's syntax tree, and what can be read off the tree at once."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from functools import lru_cache
from typing import Final, TypeAlias

from jinja2 import nodes
from jinja2.exceptions import TemplateSyntaxError
from jinja2.parser import Parser

from noetl.expressions.follow import Chain
from noetl.expressions.limits import MAX_SOURCE, MAX_TREE, Barred, Broken, OverLimit, Refusal
from noetl.expressions.rendering import SANDBOX
from noetl.expressions.vocabulary import GLOBALS
from noetl.facts.json import Json

#: Where something stands within a value: names and indices.
Path: TypeAlias = tuple[str | int, ...]
#: Tags of Jinja that reach other texts, and those that NoETL does without.
_REACHING: Final = frozenset({"extends", "from", "import", "include"})
_UNSUPPORTED: Final = frozenset({"block", "call", "macro"})
_INSTEAD: Final = "Write the text where it is needed, repeat it with {% for %}, or let a python task make it."
#: What may stand beside braces: blanks before or behind them go.
_TRIMMING: Final = ("-", "+")


@dataclass(frozen=True, slots=True)
class Parsed:
    """`whole` is the expression where the template is exactly one, `body` the statements of others.

    `bound` are all names that the template itself binds anywhere.
    """

    body: tuple[nodes.Node, ...]
    whole: nodes.Expr | None
    bound: frozenset[str]


def is_template(source: str) -> bool:
    """Whether anything in `source` is to be rendered."""
    return "{{" in source or "{%" in source or "{#" in source


def texts(template: Json, path: Path = ()) -> Iterator[tuple[Path, str]]:
    """Every text in `template`, keys of mappings among them, and where it stands: a key at the
    place of its value."""
    match template:
        case str():
            yield path, template
        case Mapping():
            for key, value in template.items():
                yield (*path, str(key)), str(key)
                yield from texts(value, (*path, str(key)))
        case list() | tuple():
            for index, item in enumerate(template):
                yield from texts(item, (*path, index))


def parse(source: str, bare: bool = False) -> Parsed:
    """The tree of a template; with `bare`, of a lone expression. Raises `Refusal`."""
    if len(source) > MAX_SOURCE:
        raise OverLimit(f"has more than {MAX_SOURCE} characters")
    try:
        body, whole = ((), _parse_expression(source)) if bare else _parse_text(source)
    except TemplateSyntaxError as error:
        message = (error.message or "it cannot be read").rstrip(".")
        raise Broken(f"has a syntax error: {message}", error.lineno, hint_at_foreign(source, bare)) from error
    except RecursionError as error:
        raise Broken("is nested too deeply") from error
    except (ValueError, UnicodeError, OverflowError) as error:
        # A literal that Python refuses, such as a number of 5,000 digits.
        raise Broken(f"has a literal that cannot be read: {error}") from error
    if whole is not None and len(source) <= MAX_TREE:
        # No tree is deeper than its text is long, and no expression binds a name.
        return Parsed(body, whole, frozenset())
    return Parsed(body, whole, _find_bound(body if whole is None else (whole,)))


def _find_bound(body: tuple[nodes.Node, ...]) -> frozenset[str]:
    """The names that `body` binds. Raises `Broken` for deep trees, before anything walks them by
    recursion."""
    bound: set[str] = set()
    level: Sequence[nodes.Node] = body
    depth = 0
    while level:
        depth += 1
        if depth > MAX_TREE:
            raise Broken(f"is nested more than {MAX_TREE} deep")
        for node in level:
            if isinstance(node, nodes.Name) and node.ctx != "load":
                bound.add(node.name)
            elif isinstance(node, nodes.For):
                bound.add("loop")
        level = [child for node in level for child in node.iter_child_nodes()]
    return frozenset(bound)


class _Parser(Parser):
    """Jinja's parser, which refuses some of Jinja's tags."""

    def parse_statement(self) -> nodes.Node | list[nodes.Node]:
        tag, line = self.stream.current.value, self.stream.current.lineno
        if tag in _REACHING:
            raise Barred(f"uses '{tag}': templates cannot reach other files", line, word=tag)
        if tag in _UNSUPPORTED:
            raise Broken(f"uses '{tag}', which is not supported", line, _INSTEAD, word=tag)
        return super().parse_statement()


def _parse_expression(source: str) -> nodes.Expr:
    parser = Parser(SANDBOX, source, state="variable")
    expression = parser.parse_expression()
    if not parser.stream.eos:
        token = parser.stream.current
        cause = f"has a syntax error: '{token.value}' after the end of the expression"
        raise Broken(cause, token.lineno, hint_at_foreign(source, bare=True))
    return expression


def _parse_text(source: str) -> tuple[tuple[nodes.Node, ...], nodes.Expr | None]:
    if (lone := _parse_lone(source)) is not None:
        return (), lone
    # `parse` would walk the tree to give every node its environment, which only Jinja's own
    # optimizer reads.
    body = tuple(_Parser(SANDBOX, source).subparse())
    return body, _find_lone(body)


def _parse_lone(source: str) -> nodes.Expr | None:
    """The expression of a template that is nothing but one: read without its braces it costs a
    fifth less. None where that cannot be seen at a glance, or the expression has an error, which
    parsing the whole text explains better."""
    if not (source.startswith("{{") and source.find("}}") == len(source) - 2 and source.find("{", 2) < 0):
        return None
    inner = source[2:-2]
    if inner[:1] in _TRIMMING or inner[-1:] in _TRIMMING:
        return None
    try:
        parser = Parser(SANDBOX, inner, state="variable")
        expression = parser.parse_tuple(with_condexpr=True)
    except TemplateSyntaxError:
        return None
    return expression if parser.stream.eos else None


def _find_lone(body: tuple[nodes.Node, ...]) -> nodes.Expr | None:
    outputs = [statement for statement in body if isinstance(statement, nodes.Output)]
    parts = [
        part
        for output in outputs
        for part in output.nodes
        if not isinstance(part, nodes.TemplateData) or part.data.strip()
    ]
    is_alone = len(outputs) == len(body) and len(parts) == 1 and not isinstance(parts[0], nodes.TemplateData)
    return parts[0] if is_alone else None


def chain_of(node: nodes.Node) -> Chain | None:
    """The chain that `node` is, or None where it is anything else."""
    parts: list[str | int] = []
    while isinstance(node, nodes.Getattr | nodes.Getitem):
        part = constant_part(node)
        if part is None:
            return None
        parts.append(part)
        node = node.node
    return Chain(node.name, tuple(reversed(parts))) if isinstance(node, nodes.Name) else None


def constant_part(node: nodes.Getattr | nodes.Getitem) -> str | int | None:
    """The name of an attribute, or the key of an item where it is written out: a text, or a number
    with or without a minus."""
    if isinstance(node, nodes.Getattr):
        return node.attr
    match node.arg:
        case nodes.Const(value=str() | int()) if not isinstance(node.arg.value, bool):
            return node.arg.value  # type: ignore[no-any-return]  # matched
        case nodes.Neg(node=nodes.Const(value=int() as number)):
            return -number
        case _:
            return None


def describe(node: nodes.Node) -> str:
    """`node` as a person would write it, for messages; "it" where that would be long."""
    chain = chain_of(node)
    if chain is not None:
        return ".".join(chain.words)
    match node:
        case nodes.Getattr():
            return f"{describe(node.node)}.{node.attr}"
        case nodes.Getitem():
            return f"{describe(node.node)}[{describe(node.arg)}]"
        case nodes.Call():
            return f"{describe(node.node)}()"
        case nodes.Filter(node=nodes.Node() as inner):
            return f"{describe(inner)} | {node.name}"
        case nodes.Const():
            return repr(node.value)[:20]
        case _:
            return "…"


def is_global(node: nodes.Call, bound: frozenset[str]) -> bool:
    """Whether a call is of `range` or `dict`; those names mean something only there."""
    return isinstance(node.node, nodes.Name) and node.node.name in GLOBALS and node.node.name not in bound


def parse_once(source: str, bare: bool) -> Parsed:
    """`parse`, remembered: the compiler and the analyses share the tree, which is never changed.
    Raises `Refusal`."""
    found = _try_parse(source, bare)
    if isinstance(found, Refusal):
        # A copy, as an exception that is caught holds frames.
        raise copy(found)
    return found


@lru_cache(maxsize=1024)
def _try_parse(source: str, bare: bool) -> Parsed | Refusal:
    try:
        return parse(source, bare)
    except Refusal as refusal:
        if isinstance(refusal.__cause__, RecursionError):
            # What is too deep for the stack here may be well for another caller: not remembered.
            raise
        return refusal.with_traceback(None)


_PIECE: Final = re.compile(r"\{\{(.*?)(?:\}\}|\Z)|\{%.*?(?:%\}|\Z)", re.DOTALL)
_TEXT: Final = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"", re.DOTALL)
#: The first one that is found is given.
_HINTS: Final = (
    (re.compile(r"\{\{"), "one pair of braces is enough"),
    (re.compile(r"&&"), "write `and`"),
    (re.compile(r"\|\|"), "write `or`"),
    (re.compile(r"[=!]=="), "write `==` or `!=`"),
    (re.compile(r"\$"), "names stand without $"),
    (re.compile(r"\?"), "write `a if condition else b`, or default(...)"),
    (re.compile(r"!(?!=)"), "write `not`"),
    (re.compile(r"^[^(]*(?<![=!<>])=(?!=)"), "write `==` to compare"),
)


def hint_at_foreign(source: str, bare: bool) -> str:
    """How what is meant is written here; empty where nothing foreign is seen. With `bare`, `source`
    is an expression."""
    found = [source] if bare else [piece[1] for piece in _PIECE.finditer(source) if piece[1] is not None]
    expressions = [_TEXT.sub("''", piece) for piece in found]
    return next(
        (hint for code in expressions for pattern, hint in _HINTS if pattern.search(code)),
        "",
    )
