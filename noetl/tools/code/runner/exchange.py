"""One call of one child, from the worker's side: send, collect output, wait, mind deadline and
limits."""

from __future__ import annotations

import json
import os
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .... import processes
from . import wire
from .control import Lease
from .requests import CodeLimits, PrintedText

#: Seconds between two looks at the processes below a child.
TICK_S = 0.1
#: What an answer may be longer than the result in it (tracebacks, the envelope).
ENVELOPE = 64 * 1024
_CHUNK = 1 << 16
#: Reads after the answer: enough to empty a pipe, and an end where something keeps writing.
_LAST_READS = 32


#: Takes bytes that were printed, as they come; with `None` the stream has ended.
Listen: TypeAlias = Callable[[Literal["stdout", "stderr"], bytes | None], None]


def ignore_output(_stream: str, _data: bytes | None) -> None:
    """Listens to nothing."""


class ChildDied(Exception):
    """The child closed its channel without an answer."""


class DeadlinePassed(Exception):
    """The deadline passed."""


class LimitPassed(Exception):
    """A limit that the worker minds was passed; the message says which."""


@dataclass
class StreamHead:
    """The head of a stream; the rest is counted and dropped, so memory stays flat."""

    limit: int
    size: int = 0
    chunks: list[bytes] = field(default_factory=list)

    def add(self, chunk: bytes) -> None:
        room = self.limit - self.size
        if room > 0:
            self.chunks.append(chunk[:room])
        self.size += len(chunk)

    def text(self) -> PrintedText:
        return PrintedText(
            b"".join(self.chunks).decode("utf-8", "replace"), self.size, self.size > self.limit
        )


@dataclass
class AnswerBytes:
    """The bytes of an answer as they come in."""

    limit: int
    data: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        """Raises LimitPassed where more comes than may be kept."""
        self.data += chunk
        if self._length() > self.limit:
            raise LimitPassed(f"its answer is {self._length():,} bytes, and {self.limit:,} are allowed")

    def _length(self) -> int:
        if len(self.data) < wire.HEADER.size:
            return 0
        (length,) = wire.HEADER.unpack_from(self.data)
        return int(length)

    def complete(self) -> bool:
        return len(self.data) >= wire.HEADER.size and len(self.data) >= wire.HEADER.size + self._length()

    def load(self) -> Mapping[str, Any]:
        with memoryview(self.data) as view:
            loaded: Mapping[str, Any] = json.loads(bytes(view[wire.HEADER.size :]))
        return loaded


class Exchange:
    """Collects `stdout` and `stderr` while it waits; both can be read after `run` raised as well.
    `listen` hears all of it, the rest and the end with `finish`."""

    def __init__(self, lease: Lease, limits: CodeLimits, listen: Listen = ignore_output) -> None:
        self.lease = lease
        self.listen = listen
        self.limits = limits
        self.out = StreamHead(limits.output)
        self.err = StreamHead(limits.output)
        self.answer = AnswerBytes(limits.result + ENVELOPE)
        self._poller = select.poll()
        for descriptor in (lease.channel, lease.out, lease.err):
            self._poller.register(descriptor, select.POLLIN)

    def run(self, message: bytes, deadline_s: float) -> Mapping[str, Any]:
        """The answer. Raises Died, Expired or Exceeded."""
        started = time.monotonic()
        try:
            wire.send(self.lease.channel, message)
        except OSError:
            raise ChildDied from None
        end, tick = started + deadline_s, started + TICK_S
        while not self.answer.complete():
            now = time.monotonic()
            if now >= end:
                raise DeadlinePassed
            if now >= tick:
                self._look()
                tick = now + TICK_S
            for descriptor, _ in self._poller.poll(max(0.0, min(end, tick) - now) * 1000):
                self._read(descriptor)
        return self.answer.load()

    def _look(self) -> None:
        most = self.limits.processes
        if len(processes.descendants(self.lease.watched, most + 1)) > most:
            raise LimitPassed(f"it started more than {most} processes")

    def _read(self, descriptor: int) -> None:
        if descriptor == self.lease.channel:
            self.answer.add(self._channel())
        elif not self._pipe(descriptor):
            # Closed by the code itself; an end of file would be ready for ever.
            self._poller.unregister(descriptor)

    def _channel(self) -> bytes:
        try:
            chunk = os.read(self.lease.channel, _CHUNK)
        except OSError:
            raise ChildDied from None
        if not chunk:
            raise ChildDied
        return chunk

    def _pipe(self, descriptor: int) -> bool:
        """Reads once. False at the end of the stream."""
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return True
        self._add(descriptor, chunk)
        return bool(chunk)

    def _add(self, descriptor: int, chunk: bytes) -> None:
        if not chunk:
            return
        if descriptor == self.lease.out:
            self.out.add(chunk)
            self.listen("stdout", chunk)
        else:
            self.err.add(chunk)
            self.listen("stderr", chunk)

    def finish(self) -> tuple[PrintedText, PrintedText]:
        """What was printed, with what still stands in the pipes."""
        for descriptor in (self.lease.out, self.lease.err):
            for _ in range(_LAST_READS):
                try:
                    chunk = os.read(descriptor, _CHUNK)
                except OSError:
                    break
                if not chunk:
                    break
                self._add(descriptor, chunk)
        if self.out.size:
            self.listen("stdout", None)
        if self.err.size:
            self.listen("stderr", None)
        return self.out.text(), self.err.text()
