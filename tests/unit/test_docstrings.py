"""What a public function raises by itself stands in its docstring."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import noetl

ROOT = Path(noetl.__file__).parent
#: Their docstrings are what `--help` and the OpenAPI document say.
SHOWN_TO_USERS = ("command", "group", "get", "post", "put", "patch", "delete")
Function = ast.FunctionDef | ast.AsyncFunctionDef


def raised(function: Function) -> list[str]:
    """The names of the errors in the function's own `raise` statements."""
    found, todo = list[str](), list[ast.AST](function.body)
    while todo:
        match todo.pop():
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.Lambda() | ast.ClassDef():
                continue
            case ast.Raise(exc=ast.expr() as error) as node:
                found.append(ast.unparse(error.func if isinstance(error, ast.Call) else error))
                todo += ast.iter_child_nodes(node)
            case node:
                todo += ast.iter_child_nodes(node)
    return found


def is_shown_to_users(function: Function) -> bool:
    called = (one.func for one in function.decorator_list if isinstance(one, ast.Call))
    return any(isinstance(one, ast.Attribute) and one.attr in SHOWN_TO_USERS for one in called)


def public_functions(node: ast.Module | ast.ClassDef) -> Iterator[Function]:
    for one in node.body:
        if isinstance(one, ast.ClassDef) and not one.name.startswith("_") and not is_adapter(one):
            yield from public_functions(one)
        elif isinstance(one, Function) and not one.name.startswith("_"):
            yield from () if is_shown_to_users(one) or is_inherited(one, node) else (one,)


def is_inherited(function: Function, within: ast.Module | ast.ClassDef) -> bool:
    """Whether its docstring is that of the class it overrides a method of, as `inspect.getdoc` has
    it."""
    return isinstance(within, ast.ClassDef) and bool(within.bases) and ast.get_docstring(function) is None


def is_adapter(node: ast.ClassDef) -> bool:
    """Whether the class does no more than a port says, which its docstring names."""
    return (ast.get_docstring(node) or "").startswith("`noetl.usecases.ports.")


@pytest.mark.full("2 s: reads all of noetl")
def test_what_public_functions_raise_stands_in_their_docstrings(subtests: pytest.Subtests) -> None:
    for file in sorted(ROOT.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        if "raise " not in text:
            continue
        with subtests.test(str(file.relative_to(ROOT))):
            silent = [
                f"{function.name} (line {function.lineno}) raises {', '.join(raised(function))}"
                for function in public_functions(ast.parse(text))
                if raised(function) and "raises" not in (ast.get_docstring(function) or "").lower()
            ]
            assert silent == []
