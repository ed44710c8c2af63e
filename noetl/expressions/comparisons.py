"""What a template compares a name with, without evaluating it."""

from __future__ import annotations

from collections.abc import Iterator

from jinja2 import nodes

from noetl.expressions.grammar import chain_of, is_template, parse_once
from noetl.expressions.limits import Refusal

#: Operators that ask whether two values are the same, and whether one is among others.
_SAME = frozenset({"eq", "ne"})
_AMONG = frozenset({"in", "notin"})


def texts_compared(source: str, chain: tuple[str, ...], *, guard: bool = False) -> frozenset[str]:
    """The texts that `source` compares `chain` with: `{"a", "b"}` of `x.y == 'a' or x.y in ['b']`.

    With `guard`, a string without a template is an expression, as in `truth`. A template that
    cannot be read compares nothing.
    """
    bare = not is_template(source)
    if bare and not (guard and source.strip()):
        return frozenset()
    try:
        tree = parse_once(source, bare)
        body = tree.body if tree.whole is None else (tree.whole,)
        pairs = [pair for node in body for pair in _pairs(node)]
    except (Refusal, RecursionError):
        return frozenset()
    return frozenset(text for one, other in pairs if _is(one, chain) for text in _texts(other))


def _pairs(top: nodes.Node) -> Iterator[tuple[nodes.Node, nodes.Node]]:
    """The two sides of each comparison: of equal ones either way around, else what is looked for
    among others first."""
    for node in (top, *top.find_all(nodes.Compare)):
        if isinstance(node, nodes.Compare):
            left = node.expr
            for operand in node.ops:
                if operand.op in _SAME | _AMONG:
                    yield left, operand.expr
                if operand.op in _SAME:
                    yield operand.expr, left
                left = operand.expr


def _is(node: nodes.Node, chain: tuple[str, ...]) -> bool:
    found = chain_of(node)
    return found is not None and found.words == chain


def _texts(node: nodes.Node) -> Iterator[str]:
    match node:
        case nodes.Const(value=str() as text):
            yield text
        case nodes.List(items=items) | nodes.Tuple(items=items):
            for item in items:
                yield from _texts(item)
        case _:
            return
