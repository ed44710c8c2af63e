"""From syntax tree to closures: what each expression means.

A compiled expression is a function of a `Scope`. Nothing is generated or executed as Python source;
constants are not folded, so that every operation is paid for from a budget.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from jinja2 import nodes
from jinja2.visitor import NodeVisitor

from noetl.expressions import operators
from noetl.expressions.follow import Chain, follow
from noetl.expressions.grammar import chain_of, constant_part, describe, is_global
from noetl.expressions.limits import Broken, Refusal, refuse_marked, refuse_secret
from noetl.expressions.members import Undefined, Verb
from noetl.expressions.methods import join
from noetl.expressions.output import Eval, Scope
from noetl.expressions.values import kind_of
from noetl.expressions.vocabulary import FILTERS, GLOBALS, TESTS
from noetl.facts.nearest import did_you_mean

#: Filters that need not know the value of a secret: a marker stands for it in what they make.
_ON_SECRETS: Final = frozenset({"default", "d", "join", "safe", "string", "to_json", "tojson", "urlencode"})


Arguments: TypeAlias = Callable[[Scope], tuple[Sequence[Any], Mapping[str, Any]]]

_BINARY: Mapping[type[nodes.Expr], operators.Binary] = {
    nodes.Add: operators.add,
    nodes.Sub: operators.subtract,
    nodes.Mul: operators.multiply,
    nodes.Div: operators.divide,
    nodes.FloorDiv: operators.floor_divide,
    nodes.Mod: operators.modulo,
    nodes.Pow: operators.power,
}
_UNARY: Mapping[type[nodes.Expr], Callable[[Any], Any]] = {
    nodes.Not: operator.not_,
    nodes.Neg: operators.negate,
    nodes.Pos: operators.posit,
}


class Expressions(NodeVisitor):
    """Compiles expressions: `visit` yields the meaning of a node, an `Eval`. `bound` are the names
    that the template binds anywhere.

    What is wrong with the template itself is passed to `report`, which may raise it or collect it.
    """

    def __init__(self, bound: frozenset[str], report: Callable[[Refusal], None]) -> None:
        self.bound = bound
        self.report = report

    def generic_visit(self, node: nodes.Node, *_: Any, **__: Any) -> Any:
        self.report(Broken(f"uses {type(node).__name__}, which is not supported", node.lineno))
        return lambda *_: None

    def _all(self, items: Sequence[nodes.Node]) -> tuple[Eval, ...]:
        return tuple(self.visit(item) for item in items)

    def visit_Const(self, node: nodes.Const) -> Eval:
        return _make_constant(node.value)

    def visit_TemplateData(self, node: nodes.TemplateData) -> Eval:
        return _make_constant(node.data)

    def visit_Filter(self, node: nodes.Filter) -> Eval:
        return self.filter(node, self.visit(node.node) if node.node is not None else None)

    def visit_List(self, node: nodes.List) -> Eval:
        items = self._all(node.items)
        return lambda scope: [_to_value(item(scope)) for item in items]

    def visit_Tuple(self, node: nodes.Tuple) -> Eval:
        items = self._all(node.items)
        return lambda scope: tuple([_to_value(item(scope)) for item in items])

    def visit_Name(self, node: nodes.Name) -> Eval:
        name = node.name
        if name in self.bound:
            # Of pairs and tuples the parts come as they are, references among them.
            return lambda scope: scope.run.resolve(scope.lookup(name))
        return lambda scope: scope.run.name(name)

    def _part(self, node: nodes.Getattr | nodes.Getitem) -> Eval:
        chain = chain_of(node)
        get = self._step(node) if chain is None or chain.head in self.bound else _walk(chain)
        path = describe(node)

        def name_undefined(scope: Scope) -> Any:
            value = get(scope)
            return Undefined(path) if type(value) is Undefined else value

        return name_undefined

    visit_Getattr = visit_Getitem = _part

    def _step(self, node: nodes.Getattr | nodes.Getitem) -> Eval:
        inner, fixed = self.visit(node.node), constant_part(node)
        key = (
            self.visit(node.arg)
            if isinstance(node, nodes.Getitem) and fixed is None
            else _make_constant(fixed)
        )
        return lambda scope: scope.run.item(inner(scope), key(scope))

    def visit_Slice(self, node: nodes.Slice) -> Eval:
        start, stop, step = (
            _make_constant(None) if part is None else self.visit(part)
            for part in (node.start, node.stop, node.step)
        )
        return lambda scope: slice(_to_value(start(scope)), _to_value(stop(scope)), _to_value(step(scope)))

    def visit_Dict(self, node: nodes.Dict) -> Eval:
        pairs = tuple((self.visit(pair.key), self.visit(pair.value)) for pair in node.items)
        return lambda scope: {_to_key(key(scope)): _to_value(value(scope)) for key, value in pairs}

    def visit_Concat(self, node: nodes.Concat) -> Eval:
        parts = self._all(node.nodes)
        return lambda scope: join(scope.run, "", [part(scope) for part in parts])

    def visit_And(self, node: nodes.And) -> Eval:
        left, right = self.visit(node.left), self.visit(node.right)
        return lambda scope: left(scope) and right(scope)

    def visit_Or(self, node: nodes.Or) -> Eval:
        left, right = self.visit(node.left), self.visit(node.right)
        return lambda scope: left(scope) or right(scope)

    def _unary(self, node: nodes.UnaryExpr) -> Eval:
        inner, function = self.visit(node.node), _UNARY[type(node)]
        return lambda scope: function(inner(scope))

    def _binary(self, node: nodes.BinExpr) -> Eval:
        left, right, function = self.visit(node.left), self.visit(node.right), _BINARY[type(node)]
        return lambda scope: function(scope.run, left(scope), right(scope))

    visit_Not = visit_Neg = visit_Pos = _unary
    visit_Add = visit_Sub = visit_Mul = visit_Div = visit_FloorDiv = visit_Mod = visit_Pow = _binary

    def visit_CondExpr(self, node: nodes.CondExpr) -> Eval:
        test, then = self.visit(node.test), self.visit(node.expr1)
        other = self.visit(node.expr2) if node.expr2 else _make_constant(Undefined("if … else"))
        return lambda scope: then(scope) if test(scope) else other(scope)

    def visit_Compare(self, node: nodes.Compare) -> Eval:
        first = self.visit(node.expr)
        rest = tuple((operators.COMPARISONS[part.op], self.visit(part.expr)) for part in node.ops)
        if len(rest) == 1:
            ((function, second),) = rest
            return lambda scope: function(scope.run, first(scope), second(scope))

        def compare(scope: Scope) -> bool:
            left = first(scope)
            for function, operand in rest:
                right = operand(scope)
                if not function(scope.run, left, right):
                    return False
                left = right
            return True

        return compare

    def arguments(self, node: nodes.Call | nodes.Filter | nodes.Test) -> Arguments:
        """The arguments of a call, filter or test."""
        args = self._all(node.args)
        kwargs = tuple((str(pair.key), self.visit(pair.value)) for pair in node.kwargs)
        if node.dyn_args is None and node.dyn_kwargs is None:
            return lambda scope: (
                [value(scope) for value in args],
                {key: value(scope) for key, value in kwargs},
            )
        more = _make_constant(()) if node.dyn_args is None else self.visit(node.dyn_args)
        named = _make_constant({}) if node.dyn_kwargs is None else self.visit(node.dyn_kwargs)

        def collect(scope: Scope) -> tuple[Sequence[Any], Mapping[str, Any]]:
            spread = scope.run.elements(more(scope))
            scope.run.items(len(spread))
            known = {key: value(scope) for key, value in kwargs}
            return [*(value(scope) for value in args), *spread], {**known, **named(scope)}

        return collect

    def filter(self, node: nodes.Filter, value: Eval | None) -> Eval:
        """A filter over `value`."""
        verb = self._find_verb("filter", node, FILTERS)
        source = value or _make_constant("")
        if node.name not in _ON_SECRETS:
            source = _refuse_unknown(source, node.name)
        return self._apply_verb(verb, source, node)

    def visit_Test(self, node: nodes.Test) -> Eval:
        return self._apply_verb(self._find_verb("test", node, TESTS), self.visit(node.node), node)

    def _apply_verb(self, verb: Verb, source: Eval, node: nodes.Filter | nodes.Test) -> Eval:
        if not (node.args or node.kwargs or node.dyn_args or node.dyn_kwargs):
            return lambda scope: verb(scope.run, source(scope))
        arguments = self.arguments(node)

        def apply(scope: Scope) -> Any:
            args, kwargs = arguments(scope)
            return verb(scope.run, source(scope), *args, **kwargs)

        return apply

    def _find_verb(self, what: str, node: nodes.Filter | nodes.Test, known: Mapping[str, Verb]) -> Verb:
        verb = known.get(node.name)
        if verb is None:
            hint = did_you_mean(node.name, known).strip()
            cause = f"names the {what} '{node.name}', which does not exist"
            self.report(Broken(cause, node.lineno, hint, word=node.name))
            return lambda *_: None
        return verb

    def visit_Call(self, node: nodes.Call) -> Eval:
        arguments = self.arguments(node)
        if is_global(node, self.bound) and isinstance(node.node, nodes.Name):
            function = GLOBALS[node.node.name]

            def call_global(scope: Scope) -> Any:
                args, kwargs = arguments(scope)
                return function(scope.run, *args, **kwargs)

            return call_global
        callee = self.visit(node.node)

        def call(scope: Scope) -> Any:
            args, kwargs = arguments(scope)
            return scope.run.call(callee(scope), args, kwargs)

        return call


def _walk(chain: Chain) -> Eval:
    """Names with attributes are walked at once: results answer for more than their value has."""
    return lambda scope: scope.run.resolve(follow(scope.run.names, chain, scope.run.load))


def _refuse_unknown(source: Eval, name: str) -> Eval:
    """`source`, refused where a filter would look at, or change, what only a tool call knows."""

    def get(scope: Scope) -> Any:
        value = source(scope)
        refuse_marked(value)
        refuse_secret(value, f"uses the filter '{name}' on")
        return value

    return get


def _make_constant(value: Any) -> Eval:
    return lambda _: value


def _to_value(value: Any) -> Any:
    return None if isinstance(value, Undefined) else value


def _to_key(value: Any) -> Any:
    if isinstance(value, str | int | float | Undefined | None):
        return _to_value(value)
    raise Broken(f"makes a mapping with {kind_of(value)} as a key; keys must be texts")
