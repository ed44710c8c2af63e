"""Names in python code that nothing defines, as pyflakes finds them."""

from __future__ import annotations

import ast
import builtins
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from pyflakes.checker import Checker
from pyflakes.messages import UndefinedLocal, UndefinedName

from noetl.dsl.checks.code import files_of, python_in, text_of_file
from noetl.dsl.checks.subject import Subject
from noetl.dsl.checks.values import inputs_around
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.dsl.read.python_code import Fault, parse_python
from noetl.net.model import EACH_INPUTS, Template

#: Code that calls these may define names out of sight, or ask which there are.
_DEFINE: Final = frozenset({"exec", "globals", "locals", "vars", "setattr", "eval", "dir"})
#: What the runner gives to every code besides its inputs.
_GIVEN: Final = frozenset({"args", "input_data", "context"})
_BUILT_IN: Final = frozenset(dir(builtins))
#: What has its own scope, unbinds a name, or reads one that it binds: there more than names
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


def find_undefined_names(tree: ast.Module, given: Collection[str]) -> list[MissingName]:
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
    again = [_lines(node) for node in nodes if isinstance(node, ast.For | ast.AsyncFor | ast.While)]
    # Lines in a `try` which takes whatever is raised; of NameErrors pyflakes knows itself.
    tries = [node for node in nodes if isinstance(node, ast.Try)]
    caught = [node for node in tries if any(handler.type is None for handler in node.handlers)]
    expected = [_lines(one) for node in caught for one in node.body]
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
    return all(
        isinstance(name.ctx, ast.Store)
        or (isinstance(name.ctx, ast.Load) and name.id in _BUILT_IN.union(given))
        for name in names
    )


def _lines(node: ast.stmt) -> range:
    return range(node.lineno, (node.end_lineno or node.lineno) + 1)


def _is_within(line: int, ranges: Collection[range]) -> bool:
    return any(line in lines for lines in ranges)


@dataclass(frozen=True, slots=True)
class _Code:
    """Python code of a task, or of the script `file`; `given` are the names that the task itself
    gives it."""

    step: str
    path: Path
    text: str
    given: frozenset[str]
    file: str = ""


def check_names_of_code(subject: Subject) -> Iterator[Finding]:
    """Names in python code that neither the code nor its inputs nor its libraries define."""
    net = subject.net
    if net is None or not subject.notes.is_whole:
        return
    around = inputs_around(net, nulls=True)
    for code in _codes(subject):
        tree = parse_python(code.text)
        given = {*_GIVEN, *code.given, *around[code.step]}
        for one in find_undefined_names(tree, given) if not isinstance(tree, Fault) else ():
            where = f"{code.file}:{one.line}: " if code.file else ""
            within = None if code.file else (code.text, _offset(code.text, one))
            yield Finding(
                Code.UNDEFINED_IN_CODE,
                code.path,
                f"python: {where}nothing defines {quote_value(one.name)}",
                subject.names.suggest(
                    one.name, sorted(given), f"hand it over with input: {{{one.name}: ...}}"
                ),
                within,
            )


def _offset(text: str, name: MissingName) -> int:
    """The place of `name` in `text`, in characters: columns of syntax trees count bytes."""
    *before, line = text.split("\n")[: name.line]
    return sum(len(one) + 1 for one in before) + len(line.encode()[: name.column].decode("utf-8", "replace"))


def _codes(subject: Subject) -> Iterator[_Code]:
    """The code of tasks whose inputs are known, which those of repeated calls are not."""
    for call in subject.notes.calls:
        libs = names_of_libs(call.task.config.get("libs"))
        if libs is None or not call.step or any(subject.raw(part).get("repeat") for part in call.parts):
            continue
        given = {*libs, *call.task.args, *call.task.handed}
        given |= {*EACH_INPUTS} if any("each" in path for path in call.paths.values()) else set()
        for key, text in python_in(call):
            yield _Code(call.step, call.paths[key], text, frozenset(given))
        for key, name in files_of(subject, call) if call.kind.python_keys else ():
            if isinstance(script := text_of_file(subject, name), str):
                yield _Code(call.step, call.paths[key], script, frozenset(given), name)


def names_of_libs(libs: Template) -> frozenset[str] | None:
    """The names that `libs` binds; None where that is known only when the task runs."""
    if isinstance(libs, Mapping):
        return frozenset(libs)
    if not isinstance(libs, list | None):
        return None
    found = set[str]()
    for one in libs or ():
        path, _, alias = str(one).partition(" as ")
        parts = path.strip().split(".")
        if not all(map(str.isidentifier, parts)):
            return None  # a distribution, whose modules are those that are installed
        found.add(alias.strip() or parts[0])
    return frozenset(found)
