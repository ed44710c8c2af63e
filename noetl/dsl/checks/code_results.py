"""Python code that yields nothing though something is to come of it."""

from __future__ import annotations

import ast
import itertools
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from noetl.dsl.checks.code import python_in
from noetl.dsl.checks.reading import Chain
from noetl.dsl.checks.subject import Subject
from noetl.dsl.compile.context import CompiledCall
from noetl.dsl.document.texts import texts_in
from noetl.dsl.problems import Code, Finding, Path, quote_value
from noetl.dsl.read.python_code import Fault, parse_python
from noetl.expressions import names_used
from noetl.net.model import Net

#: What python yields: the value of the one, or of a call of the other.
_YIELDING: Final = frozenset({"result", "main", "*"})
#: Code that calls these may bind names out of sight.
_BINDING: Final = frozenset({"exec", "eval", "globals", "locals", "vars", "setattr"})
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
#: How the result of a task is called in its own rules, and that of the last one behind the step.
_RESULTS: Final = ("response", "result")
_ENVELOPES: Final = ("outcome", "output")
_OF_ENVELOPES: Final = frozenset({"result", "data"})
#: What loops and their steps have besides results.
_OF_LOOPS: Final = frozenset({"stats", "errors"})


def check_results_of_code(subject: Subject) -> Iterator[Finding]:
    """Code without `result`, `main` and `return` whose result is read, or computed last in a step
    that ends the flow."""
    if subject.net is None:
        return
    idle = [one for one in _codes(subject) if not _yields(one.tree)]
    if not idle:
        return
    reads = _Reads(subject)
    for one in idle:
        reader = reads.of(one.call)
        ends = reads.is_last(one.call) and _ends_flow(subject.net, one.call.step)
        if reader is not None or (ends and _drops(one.tree)):
            what = f"{quote_value('.'.join(reader))} reads" if reader else "the playbook ends with"
            yield Finding(
                Code.NO_RESULT,
                one.path,
                f"the code yields nothing, and {what} what it yields: null",
                "assign what it is to yield: result = ...",
            )


@dataclass(frozen=True, slots=True)
class _TaskCode:
    """The code of a task, and where it stands."""

    call: CompiledCall
    path: Path
    tree: ast.Module


def _codes(subject: Subject) -> Iterator[_TaskCode]:
    for call in subject.notes.calls:
        is_asked = call.kind.names_result and call.step and not call.claims
        for key, code in python_in(call) if is_asked else ():
            if not isinstance(tree := parse_python(code), Fault):
                yield _TaskCode(call, call.paths[key], tree)


def _yields(tree: ast.Module) -> bool:
    """Whether it says what it yields, or comes to no end where it could."""
    if tree.body and isinstance(tree.body[-1], ast.Raise):
        return True
    nodes = list(ast.walk(tree))
    named = {node.id for node in nodes if isinstance(node, ast.Name)}
    return not (_bound(nodes) | named & _BINDING).isdisjoint(_YIELDING | _BINDING) or _returns(tree)


def _bound(nodes: list[ast.AST]) -> set[str]:
    """The names that anything in the code binds."""
    found: set[str] = set()
    for node in nodes:
        match node:
            case ast.Name(id=name, ctx=ast.Store()) | ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.AsyncFunctionDef(name=name):
                found.add(name)
            case ast.alias(name=name, asname=other):
                found.add(other or name)
            case _:
                pass
    return found


def _returns(tree: ast.AST) -> bool:
    """Whether a `return` stands outside of all functions."""
    inner = [node for node in ast.iter_child_nodes(tree) if not isinstance(node, _FUNCTIONS)]
    return any(isinstance(node, ast.Return) or _returns(node) for node in inner)


def _drops(tree: ast.Module) -> bool:
    """Whether the last thing that the code does is to compute something, and not to act."""
    last = tree.body[-1] if tree.body else None
    if isinstance(last, ast.Expr):
        return not isinstance(last.value, ast.Call | ast.Await | ast.Constant)
    return isinstance(last, ast.Assign | ast.AnnAssign | ast.AugAssign) and not isinstance(
        getattr(last, "value", None), ast.Call
    )


def _pipelines(subject: Subject) -> Mapping[Path, list[CompiledCall]]:
    found: dict[Path, list[CompiledCall]] = {}
    for call in subject.notes.calls:
        if not call.claims:
            found.setdefault(call.pipeline, []).append(call)
    return found


def _ends_flow(net: Net, step: str) -> bool:
    """Whether the step leads nowhere, and what it yields may be what the playbook does."""
    return not net.steps[step].ways and step not in net.handlers


class _Reads:
    """What templates read: by the first name of a chain, and by the step in which it stands."""

    def __init__(self, subject: Subject) -> None:
        self._pipelines = _pipelines(subject)
        self._anywhere: dict[str, list[Chain]] = {}
        self._within: dict[tuple[str | None, str], list[tuple[Path, Chain]]] = {}
        for use in subject.notes.uses:
            for path, text in texts_in(use.template, use.path, guard=use.guard):
                for chain in sorted(names_used(text, guard=use.guard)):
                    self._anywhere.setdefault(chain[0], []).append(chain)
                    self._within.setdefault((use.step, chain[0]), []).append((path, chain))

    def of(self, call: CompiledCall) -> Chain | None:
        """A chain that reads the result of the task."""
        behind = self._behind(call)
        found = itertools.chain(
            (chain for _, chain in self._within.get((call.step, call.task.name), ())),
            self._by_step(call, is_last=not behind),
            self._by_previous(call, behind[:1]),
            self._by_place(call, is_last=not behind),
        )
        return next(found, None)

    def is_last(self, call: CompiledCall) -> bool:
        return not self._behind(call)

    def _behind(self, call: CompiledCall) -> list[CompiledCall]:
        """The tasks behind it in its pipeline."""
        calls = self._pipelines[call.pipeline]
        return calls[next(at for at, one in enumerate(calls) if one is call) + 1 :]

    def _by_step(self, call: CompiledCall, *, is_last: bool) -> Iterator[Chain]:
        for chain in self._anywhere.get(call.step, ()):
            if chain[1:2] == ("results",):
                if chain[2:3] == (call.task.name,):
                    yield chain
            elif is_last and _OF_LOOPS.isdisjoint(chain[1:2]):
                yield chain

    def _by_previous(self, call: CompiledCall, following: Iterable[CompiledCall]) -> Iterator[Chain]:
        for task in following:
            for path, chain in self._within.get((call.step, "_prev"), ()):
                if _stands_in(path, task.path):
                    yield chain

    def _by_place(self, call: CompiledCall, *, is_last: bool) -> Iterator[Chain]:
        """In its own rules and `set`, and behind the step."""
        for head in (*_RESULTS, *_ENVELOPES):
            for path, chain in self._within.get((call.step, head), ()):
                behind = is_last and path[2:3] in (("set",), ("next",))
                if (behind or _stands_in(path, call.path)) and _is_result(chain):
                    yield chain


def _stands_in(path: Path, part: Path) -> bool:
    return path[: len(part)] == part


def _is_result(chain: Chain) -> bool:
    return chain[0] in _RESULTS or not _OF_ENVELOPES.isdisjoint(chain[1:2])
