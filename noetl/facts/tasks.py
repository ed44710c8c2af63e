"""Events of tasks: their ends, what their policies decide, the items of their loops, and repeated
calls."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar, Literal

from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo
from noetl.facts.warnings import Warned


@dataclass(frozen=True, slots=True)
class TaskStarted:
    """A task was still running at a heartbeat. Short tasks are recorded by their end alone."""

    type: ClassVar[str] = "task.started"
    task: str
    started_at: str


@dataclass(frozen=True, slots=True)
class TaskDone:
    """A task's last attempt went well and its pipeline moves on (or ends)."""

    type: ClassVar[str] = "task.done"
    task: str
    result: Json = None
    meta: JsonMap = field(default_factory=dict)
    extras: JsonMap = field(default_factory=dict)
    #: It ran behind the end of the pipeline proper, whose outcome it does not change.
    after: bool = False
    #: Digest of the call: kind, rendered configuration and inputs; and the key of its effect.
    call: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class TaskFailed:
    """A task's last attempt failed. The pipeline goes on unless the failure is `fatal`."""

    type: ClassVar[str] = "task.failed"
    task: str
    error: ErrorInfo
    meta: JsonMap = field(default_factory=dict)
    extras: JsonMap = field(default_factory=dict)
    #: No policy let the pipeline go on: it fails with this error, or (`after`) with an earlier one.
    fatal: bool = False
    #: As in `task.done`.
    after: bool = False
    call: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class AttemptFailed:
    """An attempt failed and another one follows."""

    type: ClassVar[str] = "task.attempt.failed"
    task: str
    error: ErrorInfo
    meta: JsonMap = field(default_factory=dict)
    extras: JsonMap = field(default_factory=dict)
    #: As in `task.done`.
    call: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class TaskKeyKept:
    """In an execution that runs another one again, of which nobody knows whether its call had an
    effect: the next call of the pipeline has the key `key`, or, where that was not recorded, the
    key that it had in the run and the iteration there. It has its own where it is another call
    than `call`; empty: that is not known, and all that it read is equal."""

    type: ClassVar[str] = "task.key.kept"
    task: str
    execution_id: str
    of_run: str
    of_iteration: int | None = None
    call: str = ""
    key: str = ""


@dataclass(frozen=True, slots=True)
class TaskCheckpointed:
    """What the task's tool wants to be called again with, after a wait or a crash. `since` (UTC,
    ISO 8601) is when the attempt was first called: in its first event, where the task has a
    timeout."""

    type: ClassVar[str] = "task.checkpointed"
    task: str
    checkpoint: Json
    since: str | None = None


@dataclass(frozen=True, slots=True)
class TaskAbandoned:
    """The task was cancelled while it waited, and what it had begun elsewhere was ended; `error`
    says what still runs, and why."""

    type: ClassVar[str] = "task.abandoned"
    task: str
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class PolicyEvaluated:
    """Rule number `rule` (from 0) of the task's policy matched and decided `do`, after `delay`
    seconds.

    Written after the end of the task that it judges, and for a retry after success in its place.
    Without a number it was the guard of a task behind the end of its pipeline, which is to `enter`
    or to `skip`.
    """

    type: ClassVar[str] = "policy.task.evaluated"
    task: str
    rule: int | None
    when: str | None
    names: JsonMap
    do: Literal["continue", "retry", "jump", "break", "fail", "enter", "skip"]
    to: str | None = None
    delay: float = 0.0


@dataclass(frozen=True, slots=True)
class VariablesSet:
    """`set` of a rule or a task assigned names that only this pipeline, iteration or step run sees.

    Keys are dotted names, none of them a beginning of another. `writes` are ctx assignments of a
    parallel iteration that wait for the loop's reducers, in order: (name, value).
    """

    type: ClassVar[str] = "task.variables.set"
    task: str
    local: JsonMap = field(default_factory=dict)
    iter: JsonMap = field(default_factory=dict)
    step: JsonMap = field(default_factory=dict)
    writes: tuple[tuple[str, Json], ...] = ()


@dataclass(frozen=True, slots=True)
class TaskLoopStarted:
    """A task begins with its own loop, over `count` items. `items` is the list, or the reference
    that stands for it."""

    type: ClassVar[str] = "task.loop.started"
    task: str
    count: int
    items: Json
    warnings: tuple[Warned, ...] = ()


@dataclass(frozen=True, slots=True)
class TaskItemDone:
    """Item number `item` (from 0) of a task's own loop went well."""

    type: ClassVar[str] = "task.item.done"
    task: str
    item: int
    result: Json = None
    meta: JsonMap = field(default_factory=dict)
    extras: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskItemFailed:
    """Item number `item` (from 0) of a task's own loop failed. `handled`: its policy went on, so
    that it counts as completed and its result is null."""

    type: ClassVar[str] = "task.item.failed"
    task: str
    item: int
    error: ErrorInfo
    meta: JsonMap = field(default_factory=dict)
    extras: JsonMap = field(default_factory=dict)
    handled: bool = False


@dataclass(frozen=True, slots=True)
class TaskCallDone:
    """Call number `call` (from 1) of a task that repeats went well.

    `kept` is what is collected of its result. `request` is in what the request of the next call
    differs from what the task says, by the keys of the tool, and `args`; null: there is no other
    call, and `truncated` says that the answer asks for one. `delay` is how many seconds the next
    call waits."""

    type: ClassVar[str] = "task.call.done"
    task: str
    call: int
    result: Json = None
    kept: Json = None
    request: JsonMap | None = None
    truncated: bool = False
    delay: float = 0.0
    meta: JsonMap = field(default_factory=dict)
    extras: JsonMap = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class TaskCallFailed:
    """Call number `call` (from 1) of a task that repeats failed, and its policy went on: it is the
    last one."""

    type: ClassVar[str] = "task.call.failed"
    task: str
    call: int
    error: ErrorInfo
    meta: JsonMap = field(default_factory=dict)
    extras: JsonMap = field(default_factory=dict)
