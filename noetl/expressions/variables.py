"""What a template has bound itself, and what its compiled parts are functions of."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

from noetl.expressions.output import Out
from noetl.expressions.rendering import Rendering

_MISSING: Final = object()


class Scope:
    """The names that a template has bound, innermost first, and the rendering that they belong
    to."""

    __slots__ = ("_parent", "run", "variables")

    def __init__(self, run: Rendering, parent: Scope | None = None) -> None:
        self.run = run
        self.variables: dict[str, Any] = {}
        self._parent = parent

    def inner(self) -> Scope:
        """A scope within this one."""
        return Scope(self.run, self)

    def lookup(self, name: str) -> Any:
        """What the template bound to `name`, else what it was given."""
        scope: Scope | None = self
        while scope is not None:
            value = scope.variables.get(name, _MISSING)
            if value is not _MISSING:
                return value
            scope = scope._parent
        return self.run.name(name)


#: A compiled expression, a compiled statement, and a compiled target of an assignment.
Eval: TypeAlias = Callable[[Scope], Any]
Render: TypeAlias = Callable[[Scope, Out], None]
Bind: TypeAlias = Callable[[Scope, Any], None]
