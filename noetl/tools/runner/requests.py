"""What the worker asks a child to do, and what it is told."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal


@dataclass(frozen=True, slots=True)
class Limits:
    """Bounds of one call. `output` and `result` are bytes; `processes` counts those below the child."""

    memory_mb: int = 2048
    file_mb: int = 512
    output: int = 64 * 1024
    result: int = 64 * 1024 * 1024
    processes: int = 256


@dataclass(frozen=True, slots=True)
class PythonRequest:
    """`inputs` become globals; `context` is what `context` names, where the code names it.

    Calls of the same `owner` (a playbook's net) may share a child; different owners never do.
    """

    code: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] | None = None
    libs: Mapping[str, str] | Sequence[str] = ()
    owner: str = ""
    limits: Limits = Limits()

    def message(self) -> dict[str, Any]:
        return {
            "op": "python",
            "code": self.code,
            "inputs": self.inputs,
            "context": self.context,
            "libs": self.libs,
            **limits_message(self.limits),
        }


@dataclass(frozen=True, slots=True)
class ShellRequest:
    """Commands (argument vectors) that run in order until one fails.

    `env` is added to the child's small environment. `cwd` None is the child's scratch directory.
    """

    commands: Sequence[Sequence[str]]
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    stdin: str | None = None
    owner: str = ""
    limits: Limits = Limits()

    def message(self) -> dict[str, Any]:
        return {
            "op": "shell",
            "commands": self.commands,
            "env": self.env,
            "cwd": self.cwd,
            "stdin": self.stdin,
            **limits_message(self.limits),
        }


def limits_message(limits: Limits) -> dict[str, Any]:
    """The limits that the child keeps itself."""
    return {
        "memory_mb": limits.memory_mb,
        "file_mb": limits.file_mb,
        "output_limit": limits.output,
        "result_limit": limits.result,
    }


@dataclass(frozen=True, slots=True)
class Text:
    """The head of what was printed; `size` is how many bytes all of it was."""

    text: str
    size: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class RunnerReply:
    """How a call ended.

    `ok`: `value` is its result. `error`: the child reports {kind, type, message, line?, traceback?}.
    `died`: the child ended without an answer; `reason` says how. `timeout`: it was killed at its
    deadline. `limit`: it was killed because of what `reason` says.
    """

    status: Literal["ok", "error", "died", "timeout", "limit"]
    stdout: Text
    stderr: Text
    value: Any = None
    error: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""
