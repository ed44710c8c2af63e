"""Executions of the corpus, in this process."""

from __future__ import annotations

from typing import Any

from noetl.usecases import catalog, inspect
from noetl.usecases.ports import ENDED
from noetl.usecases.runtime import Runtime
from noetl.usecases.start import StartRequest, start
from tests.waiting import until

from .corpus import Case


def head(path: str) -> str:
    return f"apiVersion: noetl.io/v2\nkind: Playbook\nmetadata: {{name: test, path: {path}}}\n"


def ran(rt: Runtime, text: str, payload: dict[str, Any], case: Case) -> str:
    """The execution, which has ended."""
    row = catalog.register(rt, text, "test.yaml")
    execution_id = start(rt, StartRequest(row.path, row.version, payload, case.overrides)).execution_id
    until(
        lambda: inspect.execution(rt, execution_id).status in ENDED,
        lambda: f"the execution to end: {inspect.state_view(rt, execution_id)}",
    )
    return execution_id
