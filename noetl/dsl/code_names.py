"""Names in python code that nothing defines, by the rules of pyflakes, as far as Python's own symbol table tells them."""

from __future__ import annotations

import ast
import builtins
import symtable
import warnings
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Final

#: What every module has, and what classes see in their bodies.
_ALWAYS: Final = frozenset(dir(builtins)) | {
    *("__name__", "__doc__", "__package__", "__loader__", "__spec__", "__builtins__", "__annotations__"),
    *("__module__", "__qualname__", "__class__", "__debug__", "WindowsError"),
}
#: Code that calls these may define names that nobody sees.
_DEFINE: Final = frozenset({"exec", "globals", "locals", "vars", "setattr", "eval"})
_DEFERRED: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
_SIMPLE: Final = (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Expr, ast.Return)
_OWN_SCOPE: Final = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp, ast.NamedExpr)


@dataclass(frozen=True, slots=True)
class UndefinedName:
    """A name, and where it first stands: line from 1, column from 0."""

    name: str
    line: int
    column: int


def undefined_names(code: str, tree: ast.Module, given: Collection[str]) -> list[UndefinedName]:
    """The names of `code`, whose syntax tree is `tree`, that neither it nor Python nor `given` defines, each once."""
    if any(isinstance(node, ast.Name) and node.id in _DEFINE for node in ast.walk(tree)):
        return []
    if any(isinstance(node, ast.ImportFrom) and node.names[0].name == "*" for node in ast.walk(tree)):
        return []
    table = _table(code)
    if table is None:
        return []
    known = _ALWAYS | set(given)
    missing = _read(table) - _bound(table) - known
    early = _too_early(tree, known | missing)
    places = list(_places(tree, missing)) + early
    first: dict[str, UndefinedName] = {}
    for place in sorted(places, key=lambda one: (one.line, one.column)):
        first.setdefault(place.name, place)
    return list(first.values())


def _table(code: str) -> symtable.SymbolTable | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return symtable.symtable(code, "<code>", "exec")
    except (SyntaxError, ValueError, RecursionError):
        return None  # `check_code` says what is wrong with it


def _tables(table: symtable.SymbolTable) -> Iterator[symtable.SymbolTable]:
    yield table
    for inner in table.get_children():
        yield from _tables(inner)


def _read(table: symtable.SymbolTable) -> set[str]:
    """The global names that are read anywhere."""
    return {
        symbol.get_name()
        for one in _tables(table)
        for symbol in one.get_symbols()
        if symbol.is_referenced() and (symbol.is_global() or one.get_type() == "module")
    }


def _bound(table: symtable.SymbolTable) -> set[str]:
    """The global names that the code binds: at its top level, or in functions that say `global`."""
    return {
        symbol.get_name()
        for one in _tables(table)
        for symbol in one.get_symbols()
        if (symbol.is_assigned() or symbol.is_imported() or symbol.is_namespace())
        and (one.get_type() == "module" or symbol.is_declared_global())
    }


def _places(tree: ast.Module, names: Collection[str]) -> Iterator[UndefinedName]:
    """Where `names` are read, but for code that expects them to be missing."""
    expected = {id(node) for tried in ast.walk(tree) for node in _expecting(tried)}
    for node in ast.walk(tree):
        is_read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.Name) and is_read and node.id in names and id(node) not in expected:
            yield UndefinedName(node.id, node.lineno, node.col_offset)


def _expecting(node: ast.AST) -> Iterator[ast.AST]:
    """What stands in the body of a `try` that takes a NameError."""
    if isinstance(node, ast.Try) and any(map(_takes_name_error, node.handlers)):
        for statement in node.body:
            yield from ast.walk(statement)


def _takes_name_error(handler: ast.ExceptHandler) -> bool:
    if handler.type is None:
        return True
    named = handler.type.elts if isinstance(handler.type, ast.Tuple) else [handler.type]
    return any(isinstance(one, ast.Name) and one.id == "NameError" for one in named)


def _too_early(tree: ast.Module, known: Collection[str]) -> list[UndefinedName]:
    """What statements at the top level read before any statement binds it."""
    seen, found = set(known), list[UndefinedName]()
    for statement in tree.body:
        own = _stored(statement)
        inner = _own_scopes(statement) if isinstance(statement, _SIMPLE) else own
        if not isinstance(statement, _DEFERRED):
            found += [one for one in _loaded(statement) if one.name not in seen | inner]
        seen |= own
    later = {symbol for statement in tree.body for symbol in _stored(statement)}
    return [one for one in found if one.name in later]


def _now(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and what in it runs when it does: not the bodies of functions."""
    yield node
    for inner in ast.iter_child_nodes(node):
        if not isinstance(inner, _DEFERRED):
            yield from _now(inner)
        else:
            yield inner


def _loaded(statement: ast.stmt) -> Iterator[UndefinedName]:
    for node in _now(statement):
        is_read = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load)
        if isinstance(node, ast.Name) and is_read:
            yield UndefinedName(node.id, node.lineno, node.col_offset)
    if isinstance(statement, ast.AugAssign) and isinstance(statement.target, ast.Name):
        yield UndefinedName(statement.target.id, statement.lineno, statement.col_offset)


def _own_scopes(statement: ast.stmt) -> set[str]:
    """What a simple statement binds before it ends: in comprehensions, and by `:=`."""
    inner = [node for node in _now(statement) if isinstance(node, _OWN_SCOPE)]
    return {name for node in inner for name in _stored(node)}


def _stored(node: ast.AST) -> set[str]:
    found = set[str]()
    for one in _now(node):
        match one:
            case ast.Name(id=name, ctx=ast.Store()):
                found.add(name)
            case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=alias):
                found.add(alias or name.partition(".")[0])
            case (
                ast.ExceptHandler(name=str(name))
                | ast.MatchAs(name=str(name))
                | ast.MatchStar(name=str(name))
            ):
                found.add(name)
            case ast.MatchMapping(rest=str(name)):
                found.add(name)
            case ast.Global(names=names):
                found.update(names)
    return found
