"""From syntax tree to closures: what each statement writes and binds, loops among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jinja2 import nodes
from jinja2.runtime import LoopContext

from noetl.expressions.compiler import Expressions
from noetl.expressions.grammar import chain_of
from noetl.expressions.limits import Broken
from noetl.expressions.members import Attributes, Method, Namespace, Undefined, Verb
from noetl.expressions.output import Bind, Eval, Render, Scope, TextOutput
from noetl.expressions.rendering import Rendering
from noetl.expressions.values import text

#: Nodes of a loop's body that one unit of work covers.
_NODES_PER_UNIT = 6


class Statements(Expressions):
    """Compiles statements, each to a `Render`, and the expressions in them."""

    def block(self, body: Sequence[nodes.Node]) -> Render:
        """The meaning of statements that follow one another."""
        renders: tuple[Render, ...] = tuple(self.visit(node) for node in body)
        if len(renders) == 1:
            return renders[0]

        def render(scope: Scope, out: TextOutput) -> None:
            for part in renders:
                part(scope, out)

        return render

    def visit_Scope(self, node: nodes.Scope) -> Render:
        body = self.block(node.body)
        return lambda scope, out: body(scope.inner(), out)

    def visit_ScopedEvalContextModifier(self, node: nodes.ScopedEvalContextModifier) -> Render:
        # `autoescape` has nothing to switch: nothing is ever escaped.
        return self.block(node.body)

    def visit_Output(self, node: nodes.Output) -> Render:
        parts = tuple((self.visit(part), part.lineno, _is_own(part), chain_of(part)) for part in node.nodes)

        def render(scope: Scope, out: TextOutput) -> None:
            run = scope.run
            for part, line, own, chain in parts:
                run.line = line
                value = part(scope)
                if own:
                    out.write(text(value, run))
                elif isinstance(value, Undefined):
                    # A choice without `else`, or the first of none, is meant to be empty.
                    if chain is not None:
                        run.miss(".".join(chain.words))
                elif value is not None:
                    out.insert(text(value, run))

        return render

    def visit_If(self, node: nodes.If) -> Render:
        branches = [(self.visit(one.test), self.block(one.body), one.lineno) for one in (node, *node.elif_)]
        otherwise = self.block(node.else_)

        def render(scope: Scope, out: TextOutput) -> None:
            for test, body, line in branches:
                scope.run.line = line
                if test(scope):
                    return body(scope, out)
            return otherwise(scope, out)

        return render

    def visit_For(self, node: nodes.For) -> Render:
        source, line = self.visit(node.iter), node.lineno
        if node.recursive:
            cause = "uses 'recursive', which is not supported"
            self.report(
                Broken(cause, line, "Loop over a list, or let a python task make the text.", word="recursive")
            )
        loop = ForLoop(
            self._target(node.target),
            None if node.test is None else self.visit(node.test),
            self.block(node.body),
            self.block(node.else_),
            2 + _weight(node) // _NODES_PER_UNIT,
        )

        def render(scope: Scope, out: TextOutput) -> None:
            scope.run.line = line
            loop.run(scope, out, source(scope))

        return render

    def _target(self, node: nodes.Node) -> Bind:
        match node:
            case nodes.Name(name=name):

                def bind(scope: Scope, value: Any) -> None:
                    scope.variables[name] = value

                return bind
            case nodes.Tuple():
                return self._targets(node)
            case nodes.NSRef():
                return _bind_attribute(node.name, node.attr)
            case _:
                self.report(Broken("assigns to an attribute, which is not supported", node.lineno))
                return lambda _scope, _value: None

    def _targets(self, node: nodes.Tuple) -> Bind:
        targets = tuple(self._target(item) for item in node.items)

        def bind(scope: Scope, value: Any) -> None:
            parts = scope.run.elements(value)
            if len(parts) != len(targets):
                raise Broken(f"cannot unpack {len(parts)} values into {len(targets)} names")
            for target, part in zip(targets, parts, strict=True):
                target(scope, part)

        return bind

    def visit_Assign(self, node: nodes.Assign) -> Render:
        target, value, line = self._target(node.target), self.visit(node.node), node.lineno

        def render(scope: Scope, _: TextOutput) -> None:
            scope.run.line = line
            target(scope, value(scope))

        return render

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> Render:
        target, captured = self._target(node.target), self._capture(node.body, node.filter)
        return lambda scope, _: target(scope, captured(scope))

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> Render:
        captured = self._capture(node.body, node.filter)
        return lambda scope, out: out.insert(text(captured(scope), scope.run))

    def _capture(self, body: Sequence[nodes.Node], filters: nodes.Filter | None) -> Eval:
        block = self.block(body)

        def capture(scope: Scope) -> str:
            out = TextOutput(scope.run)
            block(scope.inner(), out)
            return out.text()

        return self._apply_filters(filters, capture)

    def _apply_filters(self, node: nodes.Filter | None, source: Eval) -> Eval:
        # A block's filters are nested around an innermost one without a value: the block stands
        # there.
        if node is None:
            return source
        inner = self._apply_filters(node.node, source) if isinstance(node.node, nodes.Filter) else source
        return self.filter(node, inner)

    def visit_With(self, node: nodes.With) -> Render:
        targets = [self._target(target) for target in node.targets]
        values = self._all(node.values)
        body = self.block(node.body)

        def render(scope: Scope, out: TextOutput) -> None:
            inner = scope.inner()
            for target, value in zip(targets, values, strict=True):
                target(inner, value(scope))
            body(inner, out)

        return render


def _bind_attribute(name: str, attribute: str) -> Bind:
    def bind(scope: Scope, value: Any) -> None:
        target = scope.lookup(name)
        if not isinstance(target, Namespace):
            raise Broken(f"assigns to an attribute of '{name}', which is no namespace()")
        scope.run.work(1)
        target.values[attribute] = value

    return bind


def _is_own(node: nodes.Node) -> bool:
    """Whether the author wrote it: the text of the template, and what is marked `safe`."""
    return isinstance(node, nodes.TemplateData) or (isinstance(node, nodes.Filter) and node.name == "safe")


def _weight(node: nodes.Node) -> int:
    return 1 + sum(map(_weight, node.iter_child_nodes()))


@dataclass(frozen=True, slots=True)
class ForLoop:
    """A compiled loop. `cost` is what one iteration pays."""

    bind: Bind
    test: Eval | None
    body: Render
    otherwise: Render
    cost: int

    def run(self, scope: Scope, out: TextOutput, source: Any) -> None:
        """Write the body once for each element of `source`."""
        elements = scope.run.elements(source)
        if self.test is not None:
            elements = [element for element in elements if self.test(self._enter(scope, element))]
        if not elements:
            self.otherwise(scope.inner(), out)
            return
        context = LoopContext(elements, Undefined)
        variable = LoopVariable(context)
        for element, _ in context:
            inner = self._enter(scope, element)
            inner.variables["loop"] = variable
            self.body(inner, out)

    def _enter(self, scope: Scope, element: Any) -> Scope:
        scope.run.work(self.cost)
        inner = scope.inner()
        self.bind(inner, scope.run.resolve(element))
        return inner


class LoopVariable(Attributes):
    """The `loop` of a loop's body: Jinja's own."""

    __slots__ = ("_context",)

    def __init__(self, context: LoopContext) -> None:
        self._context = context

    def member(self, name: str) -> Any:
        if name in _PARTS:
            return getattr(self._context, name)
        method = _METHODS.get(name)
        return Undefined(f"loop.{name}") if method is None else Method(method, self._context)


def _has_changed(run: Rendering, context: LoopContext, *values: Any) -> bool:
    # Texts: comparing anything else may take for ever.
    return context.changed(*[text(value, run) for value in values])


_PARTS: Final = frozenset(
    [
        "index",
        "index0",
        "revindex",
        "revindex0",
        "first",
        "last",
        "length",
        "depth",
        "depth0",
        "previtem",
        "nextitem",
    ]
)
_METHODS: Final[Mapping[str, Verb]] = {
    "changed": _has_changed,
    "cycle": lambda _, context, *values: context.cycle(*values),
}
