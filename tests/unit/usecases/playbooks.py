"""Small playbooks, and the steps that most of them share."""

from __future__ import annotations

from collections.abc import Callable
from textwrap import dedent, indent
from typing import Any

from noetl.errors import ToolError
from noetl.facts.json import Json
from noetl.pipeline.model import Call


def playbook(workflow: str, root: str = "") -> str:
    """A whole playbook around the list of steps `workflow`; `root` holds further root keys."""
    head = "apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {name: test, path: tests/test}\n"
    return f"{head}{dedent(root)}\nworkflow:\n{indent(dedent(workflow), '  ')}"


def lone(step: str, root: str = "") -> str:
    """A playbook of one step called `start`: its body is `step`."""
    return playbook("- step: start\n" + indent(dedent(step).strip("\n"), "  "), root)


def failing(times: int, result: Json = "ok", **error: Any) -> Callable[[Call], Json]:
    """A tool that fails `times` times, whoever calls it, and then yields `result`."""
    left = [times]

    def run(_call: Call) -> Json:
        if left[0] > 0:
            left[0] -= 1
            raise ToolError(error.get("kind", "server_error"), "not yet", retryable=True)
        return result

    return run
