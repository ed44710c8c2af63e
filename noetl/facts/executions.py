"""Events of an execution as a whole: how it begins and ends, and what clients ask of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import ClassVar, Literal

from noetl.facts.children import Parent
from noetl.facts.json import JsonMap
from noetl.facts.lineage import RetryOf
from noetl.facts.outcome import ErrorInfo
from noetl.facts.steps import Token
from noetl.facts.warnings import Warned


@dataclass(frozen=True, slots=True)
class Requested:
    """The execution was asked for. `overrides` is `--set`, merged over `payload`, over workload."""

    type: ClassVar[str] = "playbook.execution.requested"
    path: str
    playbook_version: int
    digest: str
    payload: JsonMap = field(default_factory=dict)
    overrides: JsonMap = field(default_factory=dict)
    #: Who called it; None where somebody from outside asked for it.
    parent: Parent | None = None
    #: Where relative names of files start: the playbook's directory, then that of the command.
    directories: tuple[str, ...] = ()
    #: What it runs again.
    retry: RetryOf | None = None
    #: Its business key.
    key: str | None = None
    #: What people tell it apart by: those of its playbook, and over them those of its start.
    labels: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Evaluated:
    """The request was looked at. `workload` is that of this run; `warnings` tell of what was
    undefined. `keychain` are its entries that are templates, rendered, by name: names and places of
    secrets, and no secrets."""

    type: ClassVar[str] = "playbook.request.evaluated"
    accepted: bool
    workload: JsonMap = field(default_factory=dict)
    error: ErrorInfo | None = None
    warnings: tuple[Warned, ...] = ()
    keychain: JsonMap = field(default_factory=dict)
    #: What variables of the execution begin with.
    ctx: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WorkflowStarted:
    """The first token stands before the entry step."""

    type: ClassVar[str] = "workflow.started"
    tokens: tuple[Token, ...]


@dataclass(frozen=True, slots=True)
class WorkflowFinished:
    """Nothing is enabled, in flight or timed any more. `result_step` is the step whose result
    counts."""

    type: ClassVar[str] = "workflow.finished"
    status: str
    result_step: str | None = None
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class Processed:
    """The execution ended: `completed`, `partial` or `failed`. Terminal."""

    type: ClassVar[str] = "playbook.processed"
    status: str
    result_step: str | None = None
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class PauseRequested:
    """`at` (UTC, ISO 8601) is when: deadlines wait for as long as the execution is paused."""

    type: ClassVar[str] = "playbook.pause.requested"
    reason: str = ""
    at: str | None = None


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing runs any more, and nothing new will start."""

    type: ClassVar[str] = "playbook.paused"


@dataclass(frozen=True, slots=True)
class Resumed:
    """It goes on, from `at` (UTC, ISO 8601) on."""

    type: ClassVar[str] = "playbook.resumed"
    reason: str = ""
    at: str | None = None


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """`deadline` (UTC, ISO 8601) is when running work is no longer waited for."""

    type: ClassVar[str] = "playbook.cancel.requested"
    deadline: str
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Cancelled:
    """The execution ended because it was cancelled. Terminal."""

    type: ClassVar[str] = "playbook.cancelled"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class CtxPatched:
    """ctx changed: dotted name → value. `cause` is where it was assigned."""

    type: ClassVar[str] = "ctx.patched"
    patch: JsonMap
    cause: Literal["task", "step", "arc", "loop", "client"]


@dataclass(frozen=True, slots=True)
class Forked:
    """Everything before is the log of execution `execution_id` up to its `version`; from here on
    this execution goes its own way. What was on its way there is on its way here anew, and the
    executions that it had called (`children`: id there → id here) are forks as well. One that
    `undoes` the other, which had ended, only undoes what that has done."""

    type: ClassVar[str] = "execution.forked"
    execution_id: str
    version: int
    children: JsonMap = field(default_factory=dict)
    undoes: bool = False
