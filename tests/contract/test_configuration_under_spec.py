"""Keys of a tool may stand under `spec`: for every kind, and in every form that a task has."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from noetl.dsl import compile_playbook
from noetl.net.model import Task
from noetl.tools.kit.registry import kinds

#: Here it is about where keys stand: what a kind thinks of their values is left out.
KINDS = {kind: replace(info, faults=lambda _: ()) for kind, info in kinds().items()}
HEADER = {"apiVersion": "noetl.io/v2", "kind": "Playbook", "metadata": {"name": "t"}}
#: Keys that a spec has of its own: beside kind they are the tool's, under spec what they mean
#: there.
OF_THE_SPEC = {"timeout", "policy", "render", "quote", "queue", "isolation", "result"}


def keys_of(kind: str) -> dict[str, Any]:
    """A value for every key that the tool knows."""
    known = KINDS[kind].schema.get("properties", {})
    return {key: f"a-{key}" for key in sorted(known) if key not in OF_THE_SPEC | {"name", "output"}}


def compiled(tool: Any, workbook: dict[str, Any] | None = None) -> Task:
    document = {**HEADER, "workflow": [{"step": "start", "tool": tool}]}
    if workbook is not None:
        document["workbook"] = workbook
    result = compile_playbook(json.dumps(document), file="t.yaml", kinds=KINDS)
    assert result.net is not None, result.problems
    return result.net.steps["start"].tasks[0]


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("form", ["mapping", "list", "label", "workbook", "named workbook"])
def test_keys_under_spec_are_the_tools_configuration(kind: str, form: str) -> None:
    given = keys_of(kind)
    tool = {"kind": kind, "spec": {**given, "timeout": 5}}
    match form:
        case "mapping":
            found = compiled(tool)
        case "list":
            found = compiled([{"label": "task_0", **tool}])
        case "label":
            found = compiled([{"task_0": tool}])
        case "workbook":
            found = compiled([{"task_0": {"kind": "workbook", "task": "w"}}], {"w": tool})
        case _:
            found = compiled([{"kind": "workbook", "name": "w", "label": "task_0"}], {"w": {"tool": tool}})
    beside = compiled({"kind": kind, **given, "spec": {"timeout": 5}})
    # `timeout` of http is the tool's as well; `name` of secrets may be that of the task.
    assert {key: value for key, value in found.config.items() if key not in ("timeout", "name")} == given
    assert (found.config, found.spec, found.verbatim, found.quoted) == (
        beside.config,
        beside.spec,
        beside.verbatim,
        beside.quoted,
    )
    assert found.spec["timeout"] == 5


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_key_beside_kind_wins_over_the_same_under_spec(kind: str) -> None:
    given = keys_of(kind)
    under = dict.fromkeys(given, "under")
    assert compiled({"kind": kind, **given, "spec": under}).config == given


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_a_call_of_the_workbook_overlays_the_configuration(kind: str) -> None:
    given = keys_of(kind)
    call = {"kind": "workbook", "name": "w", "spec": dict.fromkeys(given, "called")}
    assert compiled(call, {"w": {"kind": kind, **given}}).config == dict.fromkeys(given, "called")
