"""`for`: its turns, and the variable `loop` in them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from jinja2.runtime import LoopContext

from noetl.expressions.members import Attributes, Method, Verb
from noetl.expressions.output import Out
from noetl.expressions.rendering import Rendering
from noetl.expressions.undefined import Undefined
from noetl.expressions.values import text
from noetl.expressions.variables import Bind, Eval, Render, Scope


@dataclass(frozen=True, slots=True)
class ForLoop:
    """A compiled loop. `cost` is what one turn pays."""

    bind: Bind
    test: Eval | None
    body: Render
    otherwise: Render
    cost: int

    def run(self, scope: Scope, out: Out, source: Any) -> None:
        """Write the body once for each element of `source`."""
        elements = self._choose(scope, scope.run.elements(source))
        if not elements:
            self.otherwise(scope.inner(), out)
            return
        context = LoopContext(elements, Undefined)
        variable = LoopVariable(context)
        for element, _ in context:
            inner = self._enter(scope, element)
            inner.variables["loop"] = variable
            self.body(inner, out)

    def _choose(self, scope: Scope, elements: Sequence[Any]) -> Sequence[Any]:
        if self.test is None:
            return elements
        return [element for element in elements if self.test(self._enter(scope, element))]

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
