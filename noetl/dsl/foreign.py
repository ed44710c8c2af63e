"""Keys of the other dialects and of features to come: known, named, and refused with what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from noetl.dsl.document import Part
from noetl.dsl.problems import Code, Path
from noetl.dsl.report import Report

#: Key → (dialect, what the canonical dialect writes instead).
_STEP = {
    "case": ("classic", "write next: {arcs: [{step, when}]}"),
    "vars": ("classic", "write set: {ctx.<name>: ...}"),
    "sink": ("classic", "add a task that writes the data to the tool list"),
    "retry": ("classic", "write spec.policy.rules with do: retry"),
    "rules": ("rules", "write next: {arcs: [{step, when}]}"),
    "cases": ("rules", "write next: {arcs: [{step, when}]}"),
    "run": ("rules", "write tool: for actions and next: for steps"),
    "pass": ("rules", "write spec.policy.admit with on_deny: pass"),
    "end_loop": ("rules", "write loop: {in, iterator} on the step that repeats"),
    "parallel": ("rules", "write loop.spec.mode: parallel, or an inclusive router"),
}
_TOOL = {key: _STEP[key] for key in ("case", "vars", "sink", "retry")}
_ARC = {
    "then": ("rules", "write one arc {step, when} for each target"),
    "else": ("rules", "write a last arc {step} without when"),
}
_ROOT = {
    "tasks": ("rules", "write workbook: {<name>: {kind, ...}}"),
    "environment": ("rules", "write workload: {<name>: ...}"),
    "variables": ("rules", "write ctx: {<name>: ...}"),
}
_FOREIGN: Mapping[str, Mapping[str, tuple[str, str]]] = {
    "Document": _ROOT,
    "Step": _STEP,
    "Tool": _TOOL,
    "Arc": _ARC,
    "Router": _ARC,
}
#: Keys that tools may have of their own: foreign only where the value looks like the dialect's.
_TOOL_CONTAINERS = (dict, list)


def is_foreign(part: str, key: str) -> bool:
    """Whether `key` of a part (by the name of its class) belongs to another dialect."""
    return key in _FOREIGN.get(part, {})


def refuse_foreign(part: Part, path: Path, report: Report) -> None:
    """Adds an error for each key of another dialect."""
    table = _FOREIGN.get(type(part).__name__, {})
    extra = part.model_extra or {}
    for key in extra.keys() & table.keys():
        if table is _TOOL and not isinstance(extra[key], _TOOL_CONTAINERS):
            continue
        dialect, instead = table[key]
        # A part of another dialect lacks what this one demands: that is no second fault.
        report.mark_faulty(path)
        report.add(
            Code.DIALECT,
            (*path, key),
            f"`{key}` belongs to the {dialect} dialect, which this version does not run yet",
            instead,
            at_key=True,
        )


def schema_properties() -> dict[str, dict[str, Any]]:
    """For the JSON Schema: class name → properties of its foreign keys, marked as deprecated."""
    return {
        part: {
            key: {
                "deprecated": True,
                "description": f"Of the {dialect} dialect, which this version does not run; {instead}.",
            }
            for key, (dialect, instead) in keys.items()
        }
        for part, keys in _FOREIGN.items()
    }
