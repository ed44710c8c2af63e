"""Which names a template reads, without evaluating it; their values, for records of decisions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from jinja2 import nodes
from jinja2.visitor import NodeVisitor

from noetl.expressions.follow import into
from noetl.expressions.grammar import (
    chain_of,
    constant_part,
    is_global,
    is_template,
    parse_once,
    texts,
)
from noetl.expressions.limits import Meter, OverLimit, Refusal
from noetl.expressions.members import Method, Undefined
from noetl.expressions.rendering import find
from noetl.expressions.scope import value_of
from noetl.expressions.values import measure, plain
from noetl.facts import json
from noetl.facts.json import Json
from noetl.facts.reference import Load, is_reference
from noetl.facts.secret import describe_secret, is_secret

Bound = frozenset[str]


def names_used(template: Json, *, guard: bool = False) -> frozenset[tuple[str, ...]]:
    """The chains that `template` reads: `{("workload", "base_url"), ("fetch", "rows"), ("x",)}`.

    Names that the template binds itself are not among them; an item that is computed ends its
    chain, and so does a call (`s.upper()` reads `s`). With `guard`, a string without a template is
    an expression, as in `truth`. A template that cannot be read uses no names: `check` says why.
    """
    if isinstance(template, str):
        return _read(template, guard).found
    return frozenset().union(*(_read(text, False).found for _, text in texts(template)))


def names_optional(template: str, *, guard: bool = False) -> frozenset[tuple[str, ...]]:
    """The chains whose absence the template asks for: `x | default(1)`, `ctx.x is defined`, `x ==
    none`."""
    return _read(template, guard).optional


@dataclass(frozen=True, slots=True)
class _Names:
    found: frozenset[tuple[str, ...]] = frozenset()
    optional: frozenset[tuple[str, ...]] = frozenset()


def _read(source: str, guard: bool) -> _Names:
    bare = not is_template(source)
    return _names(source, bare) if not bare or (guard and source.strip()) else _Names()


@lru_cache(maxsize=8192)
def _names(source: str, bare: bool) -> _Names:
    try:
        tree = parse_once(source, bare)
        finder = _Finder(tree.bound)
        finder.block(tree.body if tree.whole is None else (tree.whole,), frozenset())
    except (Refusal, RecursionError):
        return _Names()
    return _Names(frozenset(finder.found), frozenset(finder.optional))


class _Finder(NodeVisitor):
    """Walks statements in order with the names bound so far; collects chains whose head is not
    bound."""

    def __init__(self, anywhere: Bound) -> None:
        #: What the template binds anywhere: there, `range` and `dict` are no longer the functions.
        self._anywhere = anywhere
        self.found: set[tuple[str, ...]] = set()
        #: Those that may be missing.
        self.optional: set[tuple[str, ...]] = set()
        self._asking = False

    def block(self, body: Iterable[nodes.Node], bound: Bound) -> Bound:
        """The names bound for certain after `body`."""
        for node in body:
            bound = self.visit(node, bound)
        return bound

    def generic_visit(self, node: nodes.Node, bound: Bound) -> Bound:
        self._read(node, bound)
        return bound

    def visit_Assign(self, node: nodes.Assign, bound: Bound) -> Bound:
        self._read(node.node, bound)
        return bound | _targets(node.target)

    def visit_AssignBlock(self, node: nodes.AssignBlock, bound: Bound) -> Bound:
        return self.visit_FilterBlock(node, bound) | _targets(node.target)

    def visit_FilterBlock(self, node: nodes.AssignBlock | nodes.FilterBlock, bound: Bound) -> Bound:
        if node.filter is not None:
            self._read(node.filter, bound)
        self.block(node.body, bound)
        return bound

    def visit_With(self, node: nodes.With, bound: Bound) -> Bound:
        for value in node.values:
            self._read(value, bound)
        self.block(node.body, bound.union(*map(_targets, node.targets)))
        return bound

    def visit_Scope(self, node: nodes.Scope | nodes.ScopedEvalContextModifier, bound: Bound) -> Bound:
        self.block(node.body, bound)
        return bound

    visit_ScopedEvalContextModifier = visit_Scope

    def visit_If(self, node: nodes.If, bound: Bound) -> Bound:
        ends = [self.block(node.else_, bound)]
        for one in (node, *node.elif_):
            self._read(one.test, bound)
            ends.append(self.block(one.body, bound))
        return frozenset.intersection(*ends)

    def visit_For(self, node: nodes.For, bound: Bound) -> Bound:
        self._read(node.iter, bound)
        inner = bound | _targets(node.target)
        if node.test is not None:
            self._read(node.test, inner)
        self.block(node.body, inner | {"loop"})
        self.block(node.else_, bound)
        return bound

    def _read(self, node: nodes.Node, bound: Bound) -> None:
        """Collects the chains in an expression."""
        chain = chain_of(node)
        if chain is None:
            asked = _find_optional(node)
            for child in _children(node, self._anywhere):
                around, self._asking = self._asking, self._asking or any(child is one for one in asked)
                self._read(child, bound)
                self._asking = around
        elif chain.head not in bound:
            self.found.add(chain.words)
            if self._asking:
                self.optional.add(chain.words)


def _find_optional(node: nodes.Node) -> tuple[nodes.Node, ...]:
    """The parts of an expression that it tests for being defined."""
    match node:
        case nodes.Filter(name="default" | "d", node=nodes.Node() as value):
            return (value,)
        case nodes.Test(name="defined" | "undefined" | "none", node=value):
            return (value,)
        case nodes.Compare(expr=one, ops=[nodes.Operand(op="eq" | "ne", expr=other)]) if _is_none(one, other):
            return tuple(node.iter_child_nodes())
        case _:
            return ()


def _is_none(*sides: nodes.Node) -> bool:
    return any(isinstance(side, nodes.Const) and side.value is None for side in sides)


def _children(node: nodes.Node, anywhere: Bound) -> Iterator[nodes.Node]:
    """The parts of an expression in which names stand."""
    match node:
        case nodes.Call() if is_global(node, anywhere):
            yield from (child for child in node.iter_child_nodes() if child is not node.node)
        case nodes.Call(node=nodes.Getattr() as method):
            yield from (child for child in node.iter_child_nodes() if child is not method)
            yield method.node
        case nodes.Getitem() if constant_part(node) is not None:
            yield node.node
        case _:
            yield from node.iter_child_nodes()


def _targets(node: nodes.Node) -> Bound:
    return frozenset(one.name for one in (node, *node.find_all(nodes.Name)) if isinstance(one, nodes.Name))


#: What `measure` says of a value is at most so many times the length of its JSON.
_MEASURED: Final = 4


def values_read(
    template: Json,
    names: Mapping[str, Any],
    *,
    guard: bool = False,
    load: Load | None = None,  # noqa: ARG001  # what callers pass to `truth`; nothing is loaded
    limit: int = 256,
) -> dict[str, Json]:
    """Each chain of `names_used`, dotted, with its value now; null where it is undefined.

    A value whose JSON has more than `limit` characters is described (`<list of 1200>`), and so are
    references, which are never loaded, and functions, which are never called. Raises nothing.
    """
    chains = sorted(names_used(template, guard=guard))
    return {".".join(chain): _value(chain, names, limit) for chain in chains}


def _value(chain: tuple[str, ...], names: Mapping[str, Any], limit: int) -> Json:
    try:
        return _brief(_find_value(chain, names), limit)
    except Exception as error:  # noqa: BLE001  # a record must not fail what it records
        return _unreadable(error)


def value_at(chain: tuple[str, ...], names: Mapping[str, Any]) -> Json:
    """What `chain` of `names_used` leads to, as it is: null where it is undefined. A reference on
    the way is the answer, as nothing is loaded. Raises nothing."""
    try:
        found = _find_value(chain, names)
        if isinstance(found, Undefined):
            return None
        return "<function>" if isinstance(found, Method) or callable(found) else plain(found)
    except Exception as error:  # noqa: BLE001  # as above
        return _unreadable(error)


def _find_value(chain: tuple[str, ...], names: Mapping[str, Any]) -> Any:
    value = find(names, chain[0])
    for part in chain[1:]:
        if is_reference(value_of(value)):
            break
        value = _step(value, part)
    return value_of(value)


def _unreadable(error: Exception) -> str:
    return f"<unreadable: {type(error).__name__}>"


def _step(value: Any, part: str) -> Any:
    is_list = isinstance(value_of(value), list | tuple) and part.lstrip("-").isdecimal()
    try:
        return into(value, int(part) if is_list else part, None)
    except (Refusal, ValueError):
        return Undefined(part)


def _brief(value: Any, limit: int) -> Json:
    if isinstance(value, Undefined):
        return None
    if is_reference(value):
        return f"<reference {value['ref']}>"[:limit] if "ref" in value else "<list of pages>"
    if is_secret(value):
        return f"<{describe_secret(value)}>"
    if isinstance(value, Method) or callable(value):
        return "<function>"
    try:
        # Looks at no more than some parts of the value, however large it is.
        measure(value, Meter(), _MEASURED * limit)
    except OverLimit:
        return _describe(value)
    result = plain(value)
    return result if len(json.dumps(result, ensure_ascii=False)) <= limit else _describe(value)


def _describe(value: Any) -> str:
    if isinstance(value, str):
        return f"<text of {len(value)} characters>"
    if isinstance(value, Mapping | list | tuple):
        return f"<{'mapping' if isinstance(value, Mapping) else 'list'} of {len(value)}>"
    return f"<{type(value).__name__}>"
