"""Code with a `return` at its top level becomes the body of a function.

Its names stay globals, so that helper functions see them as in code without `return`, and `return`
means what it means in any function: `finally` runs, context managers exit cleanly, nothing catches it.
"""

from __future__ import annotations

import ast
import types
from collections.abc import Sequence

#: What the function yields where no `return` was reached.
FELL_THROUGH = "\0noetl: no return was reached"
#: Name of the function that the code becomes: that of the frame which it would have had.
BODY = "<module>"

_SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
_BLOCKS = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.TryStar, ast.Match)


def has_top_level_return(body: Sequence[ast.stmt]) -> bool:
    """Whether a `return` stands outside of all functions and classes."""
    for statement in body:
        if isinstance(statement, ast.Return):
            return True
        if isinstance(statement, _BLOCKS) and has_top_level_return(_inner(statement)):
            return True
    return False


def _inner(statement: ast.stmt) -> list[ast.stmt]:
    inner: list[ast.stmt] = []
    for field in ("body", "orelse", "finalbody"):
        inner += getattr(statement, field, [])
    for part in [*getattr(statement, "handlers", []), *getattr(statement, "cases", [])]:
        inner += part.body
    return inner


def as_function(tree: ast.Module, filename: str) -> types.CodeType:
    """The code of a function without parameters that runs `tree` and returns as it does.

    Raises SyntaxError as the code itself would (`from x import *` is not allowed beside `return`).
    """
    future = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    rest = [one for one in tree.body if one not in future]
    names = sorted(bound_names(rest))
    body: list[ast.stmt] = [ast.Global(names=names)] if names else []
    body += _Plainer().visit(ast.Module(body=rest, type_ignores=[])).body
    body.append(ast.Return(value=ast.Constant(value=FELL_THROUGH)))
    # Parsed, not built: the fields of the node differ between versions of python.
    function = ast.parse("def body(): ...").body[0]
    assert isinstance(function, ast.FunctionDef)
    function.name, function.body = BODY, body
    module = ast.fix_missing_locations(ast.Module(body=[*future, function], type_ignores=[]))
    compiled = compile(module, filename, "exec", dont_inherit=True)
    return next(const for const in compiled.co_consts if isinstance(const, types.CodeType))


class _Plainer(ast.NodeTransformer):
    """Drops what may not stand beside `global` declarations: `global x` again, and `x: int = 1`."""

    def visit_Global(self, node: ast.Global) -> ast.stmt:
        return ast.copy_location(ast.Pass(), node)

    def visit_AnnAssign(self, node: ast.AnnAssign) -> ast.stmt:
        if not isinstance(node.target, ast.Name):
            return node
        if node.value is None:
            return ast.copy_location(ast.Pass(), node)
        return ast.copy_location(ast.Assign(targets=[node.target], value=node.value), node)

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.stmt:
        return node

    def visit_AsyncFunctionDef(self, node: ast.AsyncFunctionDef) -> ast.stmt:
        return node

    def visit_ClassDef(self, node: ast.ClassDef) -> ast.stmt:
        return node


def bound_names(body: Sequence[ast.stmt]) -> set[str]:
    """All names that the statements bind in their own scope."""
    names = _Names()
    for statement in body:
        names.visit(statement)
    return names.found


class _Names(ast.NodeVisitor):
    def __init__(self) -> None:
        self.found: set[str] = set()
        self.in_comprehension = 0

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load) and not self.in_comprehension:
            self.found.add(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        # Binds outside of the comprehension that it stands in.
        self.found.add(node.target.id)
        self.visit(node.value)

    def visit_alias(self, node: ast.alias) -> None:
        if node.name != "*":
            self.found.add(node.asname or node.name.partition(".")[0])

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        if node.name:
            self.found.add(node.name)
        self.generic_visit(node)

    def visit_MatchAs(self, node: ast.MatchAs) -> None:
        if node.name:
            self.found.add(node.name)
        self.generic_visit(node)

    def visit_MatchStar(self, node: ast.MatchStar) -> None:
        if node.name:
            self.found.add(node.name)

    def visit_MatchMapping(self, node: ast.MatchMapping) -> None:
        if node.rest:
            self.found.add(node.rest)
        self.generic_visit(node)

    def generic_visit(self, node: ast.AST) -> None:
        if isinstance(node, _SCOPES):
            if not isinstance(node, ast.Lambda):
                self.found.add(node.name)
            return
        comprehension = isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp)
        self.in_comprehension += comprehension
        super().generic_visit(node)
        self.in_comprehension -= comprehension
