"""Keys that mean nothing where they stand: of every part but those whose keys depend on a kind of
tool."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from noetl.dsl.checks.subject import Subject
from noetl.dsl.document import (
    Cursor,
    Defaults,
    NamedTask,
    NextCall,
    Policy,
    ResultSpec,
    Step,
    TaskLoop,
    TaskSpec,
    Tool,
    canonical_keys,
    is_result,
)
from noetl.dsl.document.validation import unknown_keys
from noetl.dsl.problems import Code, Finding, shown

#: Parts with checks of their own, which know the kind of the tool or the place; and entries of a
#: workbook, of whose keys nothing was ever said.
_OTHERS: Final = (Tool, Cursor, TaskSpec, Policy, Defaults, NextCall, NamedTask)
#: Keys of tools that are often written at the step itself.
_OF_TOOLS: Final = frozenset(
    {"kind", "command", "commands", "code", "url", "endpoint", "method", "query", "script", "argv"}
)
#: Keys of the loop of a step, of which the loop of a task has a word of its own.
_OF_STEP_LOOPS: Final = frozenset({"cursor", "mode"})


def check_keys(subject: Subject) -> Iterator[Finding]:
    """Keys that no part of their kind has."""
    for part, path in subject.parts:
        if isinstance(part, _OTHERS):
            continue
        if isinstance(part, Step) and part.model_extra:
            but, elsewhere = _misplaced(subject, part), _elsewhere(subject, part)
            yield from unknown_keys(part, path, subject.names, except_for=but, elsewhere=elsewhere)
        else:
            but = _OF_STEP_LOOPS if isinstance(part, TaskLoop) else frozenset()
            yield from unknown_keys(part, path, subject.names, except_for=but)


def check_keys_of_tools_at_steps(subject: Subject) -> Iterator[Finding]:
    """`code:` beside `tool: python`, or at a step without a tool."""
    for step, path in subject.parts_that_are(Step):
        for key in sorted(_misplaced(subject, step)):
            beside = "which has no tool" if step.tool is None else "beside its tool"
            message = f"`{key}` stands at step {shown(step.step)}, {beside}"
            hint, tool = "put it under tool: with its kind", (*path, "tool")
            yield Finding(Code.MISPLACED, (*path, key), message, hint, at_key=True, explains=tool)


def check_outputs(subject: Subject) -> Iterator[Finding]:
    """An `output` that means nothing: a mapping of values, or a name."""
    for part, path in subject.parts:
        if not isinstance(part, Step | Tool) or "output" not in part.model_fields_set:
            continue
        if not is_result(subject.raw((*path, "output"))):
            what = "step" if isinstance(part, Step) else "task"
            message = f"`output` of a {what} has an effect only with keys of spec.result"
            keys = ", ".join(canonical_keys(ResultSpec))
            hint = f"assign with set:, or say how results are kept: {keys}"
            yield Finding(Code.IGNORED, (*path, "output"), message, hint, at_key=True)


def check_policies_beside_kinds(subject: Subject) -> Iterator[Finding]:
    """A `policy` that stands at the task, not under its spec."""
    for tool, path in subject.parts_that_are(Tool):
        if isinstance((tool.model_extra or {}).get("policy"), dict):
            message, at = "`policy` has no effect beside kind", (*path, "policy")
            yield Finding(Code.IGNORED, at, message, "put it under spec:", at_key=True)


def _misplaced(subject: Subject, step: Step) -> frozenset[str]:
    # `tool: python` names no task: what the tool needs stands beside it.
    bare = step.tool is None or (isinstance(step.tool, str) and step.tool in subject.kinds)
    return _OF_TOOLS & (step.model_extra or {}).keys() if bare and step.step is not None else frozenset()


def _elsewhere(subject: Subject, step: Step) -> Mapping[str, str]:
    """Keys that are written at a step one indentation too far out, or instead of an arc's, and
    where they belong."""
    kind = step.tool.kind if isinstance(step.tool, Tool) else None
    info = subject.kinds.get(kind) if kind is not None else None
    of_tool = info.schema.get("properties", {}) if info is not None else {}
    hints = dict.fromkeys(of_tool, "put it under tool:")
    return hints | {"arcs": "put it under next:", "when": "put it at the arcs that lead here"}
