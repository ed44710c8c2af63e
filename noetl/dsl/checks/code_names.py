"""Names in python code that nothing defines, as pyflakes finds them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

from pyflakes.checker import Checker
from pyflakes.messages import UndefinedLocal, UndefinedName

#: Code that calls these may define names that nobody sees, or ask which there are.
_DEFINE: Final = frozenset({"exec", "globals", "locals", "vars", "setattr", "eval", "dir"})


_BUILT_IN: Final = frozenset(dir(builtins))
#: What has a scope of its own, unbinds a name, or reads one that it binds: there more than names
#: has to be looked at.
_MAY_HIDE: Final = (
    *(ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda, ast.ExceptHandler, ast.Global),
    *(ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.AugAssign),
)


@dataclass(frozen=True, slots=True)
class MissingName:
    """A name that nothing defines, and where it first stands: line from 1, column from 0."""

    name: str
    line: int
    column: int


class _Checker(Checker):  # type: ignore[misc] # pyflakes has no types
    """pyflakes for code of tasks, where `return` may stand outside of functions."""

    def RETURN(self, node: ast.Return) -> None:  # noqa: N802 - pyflakes' name
        if node.value is not None:
            self.handleNode(node.value, node)

    def handleStringAnnotation(self, *_args: object) -> None:  # noqa: N802 - pyflakes' name
        """Does nothing: types that stand in texts are not evaluated when the code runs."""

    def handleAnnotation(self, annotation: ast.expr, node: ast.AST) -> None:  # noqa: N802 - pyflakes' name
        if not self.annotationsFutureEnabled:
            super().handleAnnotation(annotation, node)


def undefined_names(tree: ast.Module, given: Collection[str]) -> list[MissingName]:
    """The names of the code whose syntax tree is `tree` that neither it nor Python nor `given`
    defines, each once."""
    nodes = list(ast.walk(tree))
    if any(isinstance(node, ast.Name) and node.id in _DEFINE for node in nodes) or _are_given(nodes, given):
        return []
    try:
        checker = _Checker(tree, builtins=set(given), withDoctest=False)
    except RecursionError:
        return []  # nested deeper than pyflakes goes
    bound = {name for scope in checker.deadScopes for name in scope}
    again, expected = list(_loops(tree)), list(_tried(tree))
    first: dict[str, MissingName] = {}
    for message in sorted(checker.messages, key=lambda one: (one.lineno, one.col)):
        if not isinstance(message, UndefinedName | UndefinedLocal) or _is_within(message.lineno, expected):
            continue
        name = str(message.message_args[0])
        # pyflakes reads a loop once; what its end binds is there in the next round.
        if not (name in bound and _is_within(message.lineno, again)):
            first.setdefault(name, MissingName(name, message.lineno, message.col))
    return list(first.values())


def _are_given(nodes: Collection[ast.AST], given: Collection[str]) -> bool:
    """Whether all that plain code reads is there before it runs. Most code is so, and pyflakes
    takes its time."""
    if any(isinstance(node, _MAY_HIDE) for node in nodes):
        return False
    names = [node for node in nodes if isinstance(node, ast.Name)]
    known = _BUILT_IN.union(given)
    return all(
        isinstance(name.ctx, ast.Store) or (isinstance(name.ctx, ast.Load) and name.id in known)
        for name in names
    )


def _loops(tree: ast.Module) -> Iterator[range]:
    """The lines of each loop."""
    for node in ast.walk(tree):
        if isinstance(node, ast.For | ast.AsyncFor | ast.While):
            yield _lines(node)


def _tried(tree: ast.Module) -> Iterator[range]:
    """The lines that stand in a `try` which takes whatever is raised; of NameErrors pyflakes knows
    itself."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Try) and any(handler.type is None for handler in node.handlers):
            yield from map(_lines, node.body)


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_within(line: int, ranges: Collection[range]) -> bool:
    return any(line in lines for lines in ranges)
