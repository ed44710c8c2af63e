"""The root of a document: its header, and what it requires to be installed
(`executor.requires`)."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from noetl import __version__
from noetl.dsl.checks.subject import Subject
from noetl.dsl.document import Requires
from noetl.dsl.problems import Code, Finding, Path, shown

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


def check_header(subject: Subject) -> Iterator[Finding]:
    """A document without `apiVersion` or `kind`."""
    document = subject.document
    for key, value, wanted in (
        ("apiVersion", document.api_version, "noetl.io/v2"),
        ("kind", document.kind, "Playbook"),
    ):
        if value is None:
            message = f"the document has no {key}"
            yield Finding(Code.HEADER, (), message, f"add {key}: {wanted}", lacks=key)


def check_requirements(subject: Subject) -> Iterator[Finding]:
    """Kinds of tools, and versions of NoETL, that are required and not there."""
    executor = subject.document.executor
    given = executor.requires if executor is not None else None
    if isinstance(given, list):
        yield from _check_tools(subject, given, _PATH)
    elif isinstance(given, Requires):
        yield from _check_tools(subject, given.tools or [], (*_PATH, "tools"))
        if given.noetl is not None:
            yield from _check_version(given.noetl, (*_PATH, "noetl"))


def _check_tools(subject: Subject, tools: list[str], path: Path) -> Iterator[Finding]:
    for index, kind in enumerate(tools):
        if kind in subject.kinds or kind in _BUILT_IN:
            continue
        available = f"available: {', '.join(sorted(subject.kinds))}"
        hint = f"{subject.names.suggest(kind, subject.kinds)} {available}".strip()
        message = f"the playbook requires tools of kind {shown(kind)}, and none is installed"
        yield Finding(Code.UNKNOWN_KIND, (*path, index), message, hint)


def _check_version(wanted: str, path: Path) -> Iterator[Finding]:
    clauses = [_CLAUSE.fullmatch(part) for part in wanted.split(",")]
    ours = _release(__version__)
    for clause in clauses:
        if clause is None:
            hint = 'write versions behind >=, <=, ==, !=, > or <: ">=0.1, <2"'
            yield Finding(Code.VALUE, path, f"{shown(wanted)} does not say which versions", hint)
            return
        if not _HOLDS[clause[1]](ours, _release(clause[2])):
            message = f"the playbook requires noetl {clause[0].strip()}, and this is {__version__}"
            yield Finding(Code.UNSUPPORTED, path, message, "run it with a version that it names")


def _release(version: str) -> _Release:
    """The numbers that a version begins with, so many that all of them compare: `0.1` is
    `0.1.0`."""
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    return tuple([*numbers, 0, 0, 0, 0, 0, 0][:6])
