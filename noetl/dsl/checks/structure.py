"""The structure of a document: its header, what it requires, keys where they mean nothing."""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final, TypeAlias

from noetl import __version__
from noetl.dsl.checks.subject import Subject
from noetl.dsl.document import (
    Cursor,
    Defaults,
    Document,
    Loop,
    LoopSpec,
    NamedTask,
    NextCall,
    Policy,
    Requires,
    ResultSpec,
    Step,
    TaskLoop,
    TaskSpec,
    Tool,
    canonical_keys,
    is_result,
    known_keys,
)
from noetl.dsl.document.validation import unknown_keys
from noetl.dsl.problems import Code, Finding, Path, quote_value

_Release: TypeAlias = tuple[int, ...]

_REQUIRES: Final[Path] = ("executor", "requires")
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
            yield Finding(Code.HEADER, (), f"the document has no {key}", f"add {key}: {wanted}", lacks=key)


def check_requirements(subject: Subject) -> Iterator[Finding]:
    """Kinds of tools, and versions of NoETL, that are required and not there."""
    executor = subject.document.executor
    given = executor.requires if executor is not None else None
    if isinstance(given, list):
        yield from _check_tools(subject, given, _REQUIRES)
    elif isinstance(given, Requires):
        yield from _check_tools(subject, given.tools or [], (*_REQUIRES, "tools"))
        if given.noetl is not None:
            yield from _check_version(given.noetl, (*_REQUIRES, "noetl"))


def _check_tools(subject: Subject, tools: list[str], path: Path) -> Iterator[Finding]:
    for index, kind in enumerate(tools):
        if kind in subject.kinds or kind in _BUILT_IN:
            continue
        available = f"available: {', '.join(sorted(subject.kinds))}"
        yield Finding(
            Code.UNKNOWN_KIND,
            (*path, index),
            f"the playbook requires tools of kind {quote_value(kind)}, and none is installed",
            f"{subject.names.suggest(kind, subject.kinds)} {available}".strip(),
        )


def _check_version(wanted: str, path: Path) -> Iterator[Finding]:
    for part in wanted.split(","):
        if (clause := _CLAUSE.fullmatch(part)) is None:
            yield Finding(
                Code.VALUE,
                path,
                f"{quote_value(wanted)} does not say which versions",
                'write versions behind >=, <=, ==, !=, > or <: ">=0.1, <2"',
            )
            return
        if not _HOLDS[clause[1]](_release(__version__), _release(clause[2])):
            yield Finding(
                Code.UNSUPPORTED,
                path,
                f"the playbook requires noetl {clause[0].strip()}, and this is {__version__}",
                "run it with a version that it names",
            )


def _release(version: str) -> _Release:
    """The numbers that a version begins with, so many that all of them compare: `0.1` is
    `0.1.0`."""
    found = re.match(r"[0-9]+(?:\.[0-9]+)*", version)
    numbers = [int(part) for part in found[0].split(".")] if found else []
    return tuple([*numbers, 0, 0, 0, 0, 0, 0][:6])


#: Parts with other checks, which know the kind of the tool or the place; and entries of a
#: workbook, of whose keys nothing was ever said.
_OTHERS: Final = (Tool, Cursor, TaskSpec, Policy, Defaults, NextCall, NamedTask)
#: Keys of tools that are often written at the step itself.
_OF_TOOLS: Final = frozenset(
    {"kind", "command", "commands", "code", "url", "endpoint", "method", "query", "script", "argv"}
)
#: Keys of the loop of a step; `check_loops_of_tasks` reports them in the loop of a task.
_OF_STEP_LOOPS: Final = frozenset({"cursor", "mode", "enough", "grow", "close"})


#: Root keys of other engines, and where what they hold stands here.
_OF_OTHERS: Final = dict.fromkeys(("steps", "jobs", "stages"), "write the steps under workflow:")

#: Those that are about iterations which run side by side with the scheduler.
_OF_INSTANCES: Final = frozenset({"enough", "grow", "close"})


def check_keys(subject: Subject) -> Iterator[Finding]:
    """Keys that no part of their kind has."""
    for part, path in subject.parts:
        if isinstance(part, _OTHERS):
            continue
        but, elsewhere = frozenset[str](), dict[str, str]()
        if isinstance(part, Step) and part.model_extra:
            but, elsewhere = _find_keys_of_tools(subject, part), _elsewhere(subject, part)
        elif isinstance(part, TaskLoop):
            but = _OF_STEP_LOOPS
        elif isinstance(part, Document):
            elsewhere = _OF_OTHERS
        yield from unknown_keys(part, path, subject.names, except_for=but, elsewhere=elsewhere)


def check_keys_of_tools_at_steps(subject: Subject) -> Iterator[Finding]:
    """`code:` beside `tool: python`, or at a step without a tool."""
    for step, path in subject.parts_that_are(Step):
        for key in sorted(_find_keys_of_tools(subject, step)):
            beside = "which has no tool" if step.tool is None else "beside its tool"
            yield Finding(
                Code.MISPLACED,
                (*path, key),
                f"`{key}` stands at step {quote_value(step.step)}, {beside}",
                "put it under tool: with its kind",
                at_key=True,
                explains=(*path, "tool"),
            )


def check_outputs(subject: Subject) -> Iterator[Finding]:
    """An `output` that means nothing: a mapping of values, or a name."""
    for part, path in subject.parts:
        if not isinstance(part, Step | Tool) or "output" not in part.model_fields_set:
            continue
        if not is_result(subject.raw((*path, "output"))):
            what = "step" if isinstance(part, Step) else "task"
            keys = ", ".join(canonical_keys(ResultSpec))
            yield Finding(
                Code.IGNORED,
                (*path, "output"),
                f"`output` of a {what} has an effect only with keys of spec.result",
                f"assign with set:, or say how results are kept: {keys}",
                at_key=True,
            )


def check_policies_beside_kinds(subject: Subject) -> Iterator[Finding]:
    """A `policy` that stands at the task, not under its spec."""
    for tool, path in subject.parts_that_are(Tool):
        if isinstance((tool.model_extra or {}).get("policy"), dict):
            yield Finding(
                Code.IGNORED,
                (*path, "policy"),
                "`policy` has no effect beside kind",
                "put it under spec:",
                at_key=True,
            )


def _find_keys_of_tools(subject: Subject, step: Step) -> frozenset[str]:
    # `tool: python` names no task: what the tool needs stands beside it.
    bare = step.tool is None or (isinstance(step.tool, str) and step.tool in subject.kinds)
    return _OF_TOOLS & (step.model_extra or {}).keys() if bare and step.step is not None else frozenset()


def _elsewhere(subject: Subject, step: Step) -> dict[str, str]:
    """Keys that are written at a step one indentation too far out, or instead of an arc's, and
    where they belong."""
    info = subject.kinds.get(step.tool.kind or "") if isinstance(step.tool, Tool) else None
    keys = info.schema.get("properties", {}) if info is not None else ()
    hints = dict.fromkeys(keys, "put it under tool:")
    return hints | {"arcs": "put it under next:"}


def check_frames(subject: Subject) -> Iterator[Finding]:
    """`frame` of a loop that claims no rows."""
    for loop, path in subject.parts_that_are(Loop):
        if loop.cursor is None and loop.spec is not None and loop.spec.frame is not None:
            yield Finding(
                Code.IGNORED,
                (*path, "spec", "frame"),
                "`frame` has no effect: the loop has no cursor",
                "remove it",
                at_key=True,
            )


def check_reducers(subject: Subject) -> Iterator[Finding]:
    """`reduce` of a loop whose iterations run one behind the other."""
    for loop, path in subject.parts_that_are(Loop):
        if loop.spec is not None and loop.spec.reduce and loop.spec.mode in (None, "sequential"):
            yield Finding(
                Code.IGNORED,
                (*path, "spec", "reduce"),
                (
                    "`reduce` has no effect: the loop is sequential, and its iterations see what "
                    "earlier ones wrote"
                ),
                "remove it, or write mode: parallel",
                at_key=True,
            )


def check_loops_of_tasks(subject: Subject) -> Iterator[Finding]:
    """What only the loop of a step can do, and what has no effect in that of a task."""
    for loop, path in subject.parts_that_are(TaskLoop):
        spec, at = loop.spec or LoopSpec(), (*path, "spec")
        yield from _find_misplaced_keys(loop, spec, path)
        given = {key for key in known_keys(LoopSpec) if key in spec.model_fields_set}
        for key in sorted(given - {"mode", "max_in_flight", "policy"}):
            yield Finding(
                Code.IGNORED,
                (*at, key),
                f"`{key}` means nothing to the loop of a task",
                "put it under spec: of the task",
                at_key=True,
            )
        if spec.policy is not None and (spec.policy.rules is not None or spec.policy.admit is not None):
            yield Finding(
                Code.IGNORED,
                (*at, "policy"),
                "of a policy only `failure` means something to the loop of a task",
                "put rules under spec.policy of the task",
                at_key=True,
            )


def _find_misplaced_keys(loop: TaskLoop, spec: LoopSpec, path: Path) -> Iterator[Finding]:
    extra = loop.model_extra or {}
    if "cursor" in extra:
        yield _at_key(
            (*path, "cursor"), "`cursor` claims rows for the loop of a step", "put the loop on a step"
        )
    for key in sorted(_OF_INSTANCES & extra.keys()):
        yield _at_key((*path, key), f"`{key}` is asked by the loop of a step", "put the loop on a step")
    for mode, at in ((extra.get("mode"), (*path, "mode")), (spec.mode, (*path, "spec", "mode"))):
        if mode not in (None, "sequential"):
            yield _at_key(at, "the loop of a task runs one item after another", "loop on a step for that")
    if spec.max_in_flight is not None:
        yield _at_key(
            (*path, "spec", "max_in_flight"),
            "the loop of a task has one item in flight",
            "loop on a step for more",
        )


def _at_key(path: Path, message: str, hint: str) -> Finding:
    return Finding(Code.MISPLACED, path, message, hint, at_key=True)
