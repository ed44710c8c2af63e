"""What all parts of a rewriting share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from noetl.dsl.dialects.rules.actions import Tasks
from noetl.dsl.dialects.rules.drafts import Workflow
from noetl.dsl.problems import Path
from noetl.dsl.read.report import ProblemReport


@dataclass(frozen=True, slots=True)
class Gate:
    """A step that waits until nothing of what `branch` leads to can still be running."""

    name: str
    branch: str
    #: The step that sent the branch on its way: the branch ends where it begins again.
    source: str
    path: Path


@dataclass(slots=True)
class RewriteContext:
    """The document, and its workflow as it will be."""

    data: Mapping[str, Any]
    report: ProblemReport
    steps: set[str]
    book: set[str]
    tasks: Tasks
    workflow: Workflow
    #: Whether the executor has rules for all tasks.
    ruled: bool = False
    gates: list[Gate] = field(default_factory=list)
