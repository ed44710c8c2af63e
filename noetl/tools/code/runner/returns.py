"""Code with a `return` at its top level becomes the body of a function.

Its names stay globals, so that helper functions see them as in code without `return`, and `return`
means what it means in any function: `finally` runs, context managers exit cleanly, nothing catches
it."""

from __future__ import annotations

import ast
import types

#: What the function yields where no `return` was reached.
FELL_THROUGH = "\0noetl: no return was reached"
#: Name of the function that the code becomes: that of the frame which it would have had.
BODY = "<module>"


def as_function(tree: ast.Module, filename: str) -> types.CodeType:
    """The code of a function without parameters that runs `tree` and returns as it does.

    Raises SyntaxError as the code itself would (`from x import *` is not allowed beside `return`).
    """
    future = [one for one in tree.body if isinstance(one, ast.ImportFrom) and one.module == "__future__"]
    rest = ast.Module(body=[one for one in tree.body if one not in future], type_ignores=[])
    body = [*_Plainer().visit(rest).body, ast.Return(value=ast.Constant(value=FELL_THROUGH))]
    code = _compile(future, body, filename)
    # Its local variables are what the code binds.
    names = sorted(name for name in {*code.co_varnames, *code.co_cellvars} if name.isidentifier())
    return _compile(future, [ast.Global(names=names), *body], filename) if names else code


def _compile(future: list[ast.ImportFrom], body: list[ast.stmt], filename: str) -> types.CodeType:
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
