"""What the worker asks a child to do, what the child replies, and how both travel: as frames, four
bytes of length, then that many bytes."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeAlias


@dataclass(frozen=True, slots=True)
class CodeLimits:
    """Bounds of one call. `output` and `result` are bytes; `processes` counts those below the
    child."""

    memory_mb: int = 2048
    file_mb: int = 512
    output: int = 64 * 1024
    result: int = 64 * 1024 * 1024
    processes: int = 256


#: The libraries whose frames code may take and give.
Frames: TypeAlias = Literal["pandas", "polars", "arrow"]
#: The source of a task that has it in the playbook is called so in tracebacks.
CODE = "<code>"


@dataclass(frozen=True, slots=True)
class InputFile:
    """An input that the child reads from a file: the JSON of its value, or a table in Parquet."""

    path: Path
    form: Literal["json", "parquet"]


@dataclass(frozen=True, slots=True)
class FrameFile:
    """A frame of a result: a Parquet file, which is there until `keep` returns."""

    path: Path
    rows: int
    columns: int


#: What becomes of a table: the value that stands in its place in the result.
KeepFrame: TypeAlias = Callable[[FrameFile], Any]
#: The path under which a child can read a file.
ShowPath: TypeAlias = Callable[[Path], Path]


@dataclass(frozen=True, slots=True)
class PythonRequest:
    """`inputs` become globals; `context` is what `context` names, where the code names it.

    Those inputs that `files` names are read from there. `frames`: inputs that are tables come as
    such frames. `name` is how tracebacks call the source, `file` its path where it has one. Calls
    of the same `owner` (a playbook's net) may share a child; different owners never do."""

    code: str
    inputs: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] | None = None
    libs: Mapping[str, str] | Sequence[str] = ()
    owner: str = ""
    limits: CodeLimits = CodeLimits()
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, InputFile] = field(default_factory=dict)
    frames: Frames | None = None
    keep: KeepFrame | None = None
    name: str = CODE
    file: str | None = None
    #: Where it starts; None is the child's scratch directory.
    cwd: str | None = None

    def message(self, show: ShowPath) -> dict[str, Any]:
        return {
            "op": "python",
            "code": self.code,
            "name": self.name,
            "file": self.file,
            "inputs": self.inputs,
            "files": {name: [str(show(one.path)), one.form] for name, one in self.files.items()},
            "frames": self.frames,
            "tables": self.keep is not None,
            "context": self.context,
            "libs": self.libs,
            "env": self.env,
            "cwd": self.cwd,
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
    limits: CodeLimits = CodeLimits()
    #: A shell yields no tables.
    keep: None = None

    def message(self, _show: ShowPath) -> dict[str, Any]:
        return {
            "op": "shell",
            "commands": self.commands,
            "env": self.env,
            "cwd": self.cwd,
            "stdin": self.stdin,
            **limits_message(self.limits),
        }


def limits_message(limits: CodeLimits) -> dict[str, Any]:
    """The limits that the child keeps itself."""
    return {
        "memory_mb": limits.memory_mb,
        "file_mb": limits.file_mb,
        "result_limit": limits.result,
    }


@dataclass(frozen=True, slots=True)
class PrintedText:
    """The head of what was printed; `size` is how many bytes all of it was."""

    text: str
    size: int
    truncated: bool


@dataclass(frozen=True, slots=True)
class RunnerReply:
    """How a call ended.

    `ok`: `value` is its result. `error`: the child reports {kind, type, message, line?,
    traceback?}. `died`: the child ended without an answer; `reason` says how. `timeout`: it was
    killed at its deadline. `limit`: it was killed because of what `reason` says."""

    status: Literal["ok", "error", "died", "timeout", "limit"]
    stdout: PrintedText
    stderr: PrintedText
    value: Any = None
    error: Mapping[str, Any] = field(default_factory=dict)
    reason: str = ""


HEADER = struct.Struct("!I")

#: What a child advises after a call: to keep it, to replace it, to kill it with the processes that
#: it left.
KEEP, REPLACE, KILL = range(3)


class ChannelClosed(Exception):
    """The other end is gone."""


def send_frame(descriptor: int, payload: bytes) -> None:
    """Writes one frame. Raises OSError where the other end is gone."""
    view = memoryview(HEADER.pack(len(payload)) + payload)
    while view:
        view = view[os.write(descriptor, view) :]


def receive_frame(descriptor: int) -> bytes:
    """Reads one frame. Raises ChannelClosed at the end of the stream."""
    (length,) = HEADER.unpack(_read_exactly(descriptor, HEADER.size))
    return _read_exactly(descriptor, length)


def _read_exactly(descriptor: int, count: int) -> bytes:
    chunks = []
    while count:
        chunk = os.read(descriptor, min(count, 1 << 20))
        if not chunk:
            raise ChannelClosed
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)
