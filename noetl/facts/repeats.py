"""Events of tasks that are called again after a success."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

from noetl.facts.json import Json, JsonMap
from noetl.facts.outcome import ErrorInfo


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
