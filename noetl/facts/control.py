"""Events that come from outside: somebody pauses an execution, cancels it, or patches its ctx; and
what they lead to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from noetl.facts.json import JsonMap


@dataclass(frozen=True, slots=True)
class PauseRequested:
    type: ClassVar[str] = "playbook.pause.requested"
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Paused:
    """Nothing runs any more, and nothing new will start."""

    type: ClassVar[str] = "playbook.paused"


@dataclass(frozen=True, slots=True)
class Resumed:
    type: ClassVar[str] = "playbook.resumed"
    reason: str = ""


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
