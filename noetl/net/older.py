"""Nets of schema 1, without a number: `repeat` and `pagination` stand in them as several tasks that
pass on a variable.

Executions that began on such a net go on with it. This module, `noetl.pipeline.older` and
`Task.older` can go once no execution is left that did.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from noetl.facts.json import JsonMap


def from_schema_1(body: JsonMap) -> dict[str, Any]:
    """`body` as the classes of today read it. What is none of a net is left as it is."""
    said = dict(body)
    steps = said.get("transitions")
    if isinstance(steps, list | tuple):
        said["transitions"] = [_step(step) if isinstance(step, Mapping) else step for step in steps]
    if isinstance(said.get("workbook"), Mapping):
        said["workbook"] = {name: _task(task) for name, task in said["workbook"].items()}
    return said


def _step(step: JsonMap) -> dict[str, Any]:
    said = {**step, "set": _plain(step.get("set", ()))}
    said["tasks"] = [_task(task) for task in step.get("tasks", ())]
    said["arcs"] = [{**arc, "set": _plain(arc.get("set", ()))} for arc in step.get("arcs", ())]
    loop = step.get("loop")
    if isinstance(loop, Mapping):
        said["loop"] = _loop(loop)
    return said


def _loop(loop: JsonMap) -> dict[str, Any]:
    cursor = loop.get("cursor")
    return {**loop, "cursor": _task(cursor)} if isinstance(cursor, Mapping) else dict(loop)


def _task(task: JsonMap) -> dict[str, Any]:
    # `again` told readers how the task was written; nothing ran by it.
    said = {key: value for key, value in task.items() if key not in ("again", "over", "then", "set", "rules")}
    assigned, then = task.get("set", ()), task.get("then", ())
    asked = [*assigned, *(one for rule in then for one in rule["then"].get("set", ()))]
    older = {
        "over": task.get("over"),
        "then": _rules(then),
        "appended": [one["name"] for one in asked if one.get("append")],
        "merged": [one["name"] for one in asked if one.get("merge")],
    }
    if isinstance(task.get("loop"), Mapping):
        said["loop"] = _loop(task["loop"])
    rules = task.get("rules")
    return {
        **said,
        "set": _plain(assigned),
        "rules": None if rules is None else _rules(rules),
        "older": older if any(older.values()) else None,
    }


def _rules(rules: Iterable[JsonMap]) -> list[dict[str, Any]]:
    return [{**rule, "then": {**rule["then"], "set": _plain(rule["then"].get("set", ()))}} for rule in rules]


def _plain(assignments: Iterable[JsonMap]) -> list[dict[str, Any]]:
    return [
        {key: value for key, value in one.items() if key not in ("append", "merge")} for one in assignments
    ]
