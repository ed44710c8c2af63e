"""From syntax tree to closures: what each statement writes and binds."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

from jinja2 import nodes

from noetl.expressions.compiler import Eval, Expressions, Node, Scope
from noetl.expressions.grammar import descendants
from noetl.expressions.output import Out
from noetl.expressions.refusals import Broken
from noetl.expressions.run import Callee, Members, Namespace, Run
from noetl.expressions.undefined import Undefined
from noetl.expressions.values import text

#: Nodes of a loop's body that one unit of work covers.
_NODES_PER_UNIT = 6


Render: TypeAlias = Callable[[Scope, Out], None]
Bind: TypeAlias = Callable[[Scope, Any], None]


class Statements(Expressions):
    """Compiles statements, and the expressions in them."""

    def block(self, body: Sequence[Node]) -> Render:
        """The meaning of statements that follow one another."""
        renders = tuple(self.statement(node) for node in body)
        if len(renders) == 1:
            return renders[0]

        def render(scope: Scope, out: Out) -> None:
            for part in renders:
                part(scope, out)

        return render

    def statement(self, node: Node) -> Render:
        """The meaning of any statement."""
        found: Render = self.visit(node)
        return found

    def visit_Scope(self, node: nodes.Scope) -> Render:
        body = self.block(node.body)
        return lambda scope, out: body(scope.inner(), out)

    def visit_ScopedEvalContextModifier(self, node: nodes.ScopedEvalContextModifier) -> Render:
        # `autoescape` has nothing to switch: nothing is ever escaped.
        return self.block(node.body)

    def visit_Output(self, node: nodes.Output) -> Render:
        parts = tuple((self.expression(part), part.lineno, _is_own(part)) for part in node.nodes)

        def render(scope: Scope, out: Out) -> None:
            run = scope.run
            for part, line, own in parts:
                run.line = line
                value = part(scope)
                if own:
                    out.write(text(value, run))
                elif value is not None and not isinstance(value, Undefined):
                    out.insert(text(value, run))

        return render

    def visit_If(self, node: nodes.If) -> Render:
        branches = [(self.expression(node.test), self.block(node.body), node.lineno)]
        branches += [(self.expression(one.test), self.block(one.body), one.lineno) for one in node.elif_]
        otherwise = self.block(node.else_)

        def render(scope: Scope, out: Out) -> None:
            for test, body, line in branches:
                scope.run.line = line
                if test(scope):
                    return body(scope, out)
            return otherwise(scope, out)

        return render

    def visit_For(self, node: nodes.For) -> Render:
        source, line = self.expression(node.iter), node.lineno
        if node.recursive:
            cause = "uses 'recursive', which is not supported"
            self.report(
                Broken(cause, line, "Loop over a list, or let a python task make the text.", word="recursive")
            )
        turns = _Turns(
            self._target(node.target),
            None if node.test is None else self.expression(node.test),
            self.block(node.body),
            self.block(node.else_),
            2 + _weight(node) // _NODES_PER_UNIT,
        )

        def render(scope: Scope, out: Out) -> None:
            scope.run.line = line
            turns.run(scope, out, source(scope))

        return render

    def _target(self, node: Node) -> Bind:
        match node:
            case nodes.Name(name=name):

                def bind(scope: Scope, value: Any) -> None:
                    scope.variables[name] = value

                return bind
            case nodes.Tuple():
                return self._targets(node)
            case nodes.NSRef():
                return _into_namespace(node.name, node.attr)
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
        target, value, line = self._target(node.target), self.expression(node.node), node.lineno

        def render(scope: Scope, _: Out) -> None:
            scope.run.line = line
            target(scope, value(scope))

        return render

    def visit_AssignBlock(self, node: nodes.AssignBlock) -> Render:
        target, captured = self._target(node.target), self._captured(node.body, node.filter)
        return lambda scope, _: target(scope, captured(scope))

    def visit_FilterBlock(self, node: nodes.FilterBlock) -> Render:
        captured = self._captured(node.body, node.filter)
        return lambda scope, out: out.insert(text(captured(scope), scope.run))

    def _captured(self, body: Sequence[Node], filters: nodes.Filter | None) -> Eval:
        block = self.block(body)

        def capture(scope: Scope) -> str:
            out = Out(scope.run)
            block(scope.inner(), out)
            return out.text()

        return self._through(filters, capture)

    def _through(self, node: nodes.Filter | None, source: Eval) -> Eval:
        # A block's filters are nested around an innermost one without a value: the block stands there.
        if node is None:
            return source
        inner = self._through(node.node, source) if isinstance(node.node, nodes.Filter) else source
        return self.filter(node, inner)

    def visit_With(self, node: nodes.With) -> Render:
        targets = [self._target(target) for target in node.targets]
        values = self._all(node.values)
        body = self.block(node.body)

        def render(scope: Scope, out: Out) -> None:
            inner = scope.inner()
            for target, value in zip(targets, values, strict=True):
                target(inner, value(scope))
            body(inner, out)

        return render


def _into_namespace(name: str, attribute: str) -> Bind:
    def bind(scope: Scope, value: Any) -> None:
        target = scope.lookup(name)
        if not isinstance(target, Namespace):
            raise Broken(f"assigns to an attribute of '{name}', which is no namespace()")
        scope.run.work(1)
        target.values[attribute] = value

    return bind


def _is_own(node: Node) -> bool:
    """Whether it belongs to the template: its text, and what the author says is safe."""
    return isinstance(node, nodes.TemplateData) or (isinstance(node, nodes.Filter) and node.name == "safe")


def _weight(node: Node) -> int:
    return sum(1 for _ in descendants((node,)))


class _Turns:
    """A compiled loop. `cost` is what one turn pays."""

    __slots__ = ("_bind", "_body", "_cost", "_otherwise", "_test")

    def __init__(self, bind: Bind, test: Eval | None, body: Render, otherwise: Render, cost: int) -> None:
        self._bind = bind
        self._test = test
        self._body = body
        self._otherwise = otherwise
        self._cost = cost

    def run(self, scope: Scope, out: Out, source: Any) -> None:
        """Write the body once for each element of `source`."""
        elements = self._chosen(scope, scope.run.elements(source))
        if not elements:
            self._otherwise(scope.inner(), out)
            return
        loop = _Loop(elements)
        for index, element in enumerate(elements):
            scope.run.work(self._cost)
            loop.index0 = index
            inner = scope.inner()
            inner.variables["loop"] = loop
            self._bind(inner, scope.run.resolve(element))
            self._body(inner, out)

    def _chosen(self, scope: Scope, elements: Sequence[Any]) -> Sequence[Any]:
        if self._test is None:
            return elements
        chosen = []
        for element in elements:
            scope.run.work(self._cost)
            inner = scope.inner()
            self._bind(inner, scope.run.resolve(element))
            if self._test(inner):
                chosen.append(element)
        return chosen


class _Loop(Members):
    """The `loop` of a loop's body."""

    __slots__ = ("_changed", "_elements", "index0")

    def __init__(self, elements: Sequence[Any]) -> None:
        self._elements = elements
        self._changed: list[Any] | None = None
        self.index0 = 0

    def member(self, name: str) -> Any:
        index, length = self.index0, len(self._elements)
        match name:
            case "index" | "index0":
                return index + (name == "index")
            case "revindex" | "revindex0":
                return length - index - (name == "revindex0")
            case "first" | "last":
                return index == (0 if name == "first" else length - 1)
            case "length":
                return length
            case "depth" | "depth0":
                return int(name == "depth")  # no loop calls itself
            case _:
                return self._neighbour(name)

    def _neighbour(self, name: str) -> Any:
        match name:
            case "previtem" if self.index0 > 0:
                return self._elements[self.index0 - 1]
            case "nextitem" if self.index0 + 1 < len(self._elements):
                return self._elements[self.index0 + 1]
            case "cycle":
                return _Bound(self._cycle)
            case "changed":
                return _Bound(self._has_changed)
            case _:
                return Undefined(f"loop.{name}")

    def _cycle(self, _: Run, args: Sequence[Any]) -> Any:
        if not args:
            raise Broken("calls 'loop.cycle' without values")
        return args[self.index0 % len(args)]

    def _has_changed(self, run: Run, args: Sequence[Any]) -> bool:
        values = [text(value, run) for value in args]
        changed = self._changed != values
        self._changed = values
        return changed


class _Bound(Callee):
    """A method of `loop`."""

    __slots__ = ("_function",)

    def __init__(self, function: Callable[[Run, Sequence[Any]], Any]) -> None:
        self._function = function

    def call(self, run: Run, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
        if kwargs:
            raise Broken("calls a method of 'loop' with named values")
        return self._function(run, args)
