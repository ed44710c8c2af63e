"""`executor.requires`: what has to be installed where a playbook runs."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from noetl import __version__
from noetl.dsl.compile.context import Context
from noetl.dsl.document import Executor, Requires
from noetl.dsl.document.validation import warn_unknown
from noetl.dsl.problems import Code, Path, shown

_Release: TypeAlias = tuple[int, ...]

_PATH: Final[Path] = ("executor", "requires")
#: The language's own: calls of the workbook are compiled away.
_BUILT_IN: Final = frozenset({"workbook"})
_CLAUSE: Final = re.compile(r"\s*(>=|<=|==|!=|>|<)\s*([0-9]{1,9}(?:\.[0-9]{1,9}){0,5})\s*")
_HOLDS: Final[Mapping[str, Callable[[_Release, _Release], bool]]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}


def check_requirements(context: Context, executor: Executor) -> None:
    """Adds a problem for each kind of tool, and for a version of NoETL, that is required and not there."""
    given = executor.requires
    if isinstance(given, list):
        _check_tools(context, given, _PATH)
    elif isinstance(given, Requires):
        warn_unknown(given, _PATH, context.report)
        _check_tools(context, given.tools or [], (*_PATH, "tools"))
        if given.noetl is not None:
            _check_version(context, given.noetl, (*_PATH, "noetl"))


def _check_tools(context: Context, tools: list[str], path: Path) -> None:
    for index, kind in enumerate(tools):
        if kind in context.kinds or kind in _BUILT_IN:
            continue
        available = f"available: {', '.join(sorted(context.kinds))}"
        hint = f"{context.report.suggest(kind, context.kinds)} {available}".strip()
        message = f"the playbook requires tools of kind {shown(kind)}, and none is installed"
        context.report.add(Code.UNKNOWN_KIND, (*path, index), message, hint)


def _check_version(context: Context, wanted: str, path: Path) -> None:
    clauses = [_CLAUSE.fullmatch(part) for part in wanted.split(",")]
    ours = _release(__version__)
    for clause in clauses:
        if clause is None:
            hint = 'write versions behind >=, <=, ==, !=, > or <: ">=0.1, <2"'
            context.report.add(Code.VALUE, path, f"{shown(wanted)} does not say which versions", hint)
            return
        if not _HOLDS[clause[1]](ours, _release(clause[2])):
            message = f"the playbook requires noetl {clause[0].strip()}, and this is {__version__}"
            context.report.add(Code.UNSUPPORTED, path, message, "run it with a version that it names")


def _release(version: str) -> _Release:
    """The numbers that a version begins with, so many that all of them compare: `0.1` is `0.1.0`."""
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    return tuple([*numbers, 0, 0, 0, 0, 0, 0][:6])
