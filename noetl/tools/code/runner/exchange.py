"""One call of one child, from the worker's side: sends it, collects its output and its answer, and
ends it at its deadline or a limit."""

from __future__ import annotations

import codecs
import os
import select
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

from .... import processes
from ....facts import json
from ....facts.durations import compact
from .control import Lease
from .requests import HEADER, CodeLimits, PrintedText, send_frame

#: Seconds between two looks at the processes below a child.
TICK_S = 0.1
#: What an answer may be longer than the result in it (tracebacks, the envelope).
ENVELOPE = 64 * 1024
_CHUNK = 1 << 16
#: Reads after the answer: enough to empty a pipe, and an end where something keeps writing.
_LAST_READS = 32

PrintStream: TypeAlias = Literal["stdout", "stderr"]
#: Takes bytes that were printed, as they come; with `None` the stream has ended.
Listen: TypeAlias = Callable[[PrintStream, bytes | None], None]


def ignore_output(_stream: str, _data: bytes | None) -> None:
    """Listens to nothing."""


class NoAnswer(Exception):
    """A call has no answer: its child died, or the message says which limit it has passed."""

    def __init__(self, status: Literal["died", "timeout", "limit"], reason: str = "") -> None:
        super().__init__(reason)
        self.status = status


@dataclass
class StreamHead:
    """The head of a stream; the rest is counted and dropped, so memory stays flat."""

    name: PrintStream
    limit: int
    size: int = 0
    head: bytearray = field(default_factory=bytearray)

    def add(self, chunk: bytes) -> None:
        self.head += chunk[: max(self.limit - self.size, 0)]
        self.size += len(chunk)

    def text(self) -> PrintedText:
        is_cut = self.size > self.limit
        # A character that was cut in two is left out.
        text = codecs.getincrementaldecoder("utf-8")("replace").decode(bytes(self.head), final=not is_cut)
        return PrintedText(text, self.size, is_cut)


class Exchange:
    """Collects what is printed while it waits, also where `run` raises. `listen` hears all of it,
    the rest and the end with `finish`. Deadlines are instants of `clock`."""

    def __init__(
        self,
        lease: Lease,
        limits: CodeLimits,
        listen: Listen = ignore_output,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.lease = lease
        self.listen = listen
        self.limits = limits
        self._clock = clock
        self._streams = {
            lease.out: StreamHead("stdout", limits.output),
            lease.err: StreamHead("stderr", limits.output),
        }
        self._answer = bytearray()
        self._poller = select.poll()
        for descriptor in (lease.channel, lease.out, lease.err):
            self._poller.register(descriptor, select.POLLIN)

    def run(self, message: bytes, deadline_s: float) -> Mapping[str, Any]:
        """The answer. Raises NoAnswer."""
        started = self._clock()
        try:
            send_frame(self.lease.channel, message)
        except OSError:
            raise NoAnswer("died") from None
        end, tick = started + deadline_s, started + TICK_S
        while not self._is_answered():
            now = self._clock()
            if now >= end:
                raise NoAnswer("timeout", f"it took longer than {compact(deadline_s)}")
            if now >= tick:
                self._count_processes()
                tick = now + TICK_S
            for descriptor, _ in self._poller.poll(max(0.0, min(end, tick) - now) * 1000):
                self._read(descriptor)
        answer: Mapping[str, Any] = json.loads(self._answer[HEADER.size :])
        return answer

    def _is_answered(self) -> bool:
        """Raises NoAnswer where more comes than may be kept."""
        if len(self._answer) < HEADER.size:
            return False
        length: int = HEADER.unpack_from(self._answer)[0]
        most = self.limits.result + ENVELOPE
        if length > most:
            raise NoAnswer("limit", f"its answer is {length:,} bytes, and {most:,} are allowed")
        return len(self._answer) >= HEADER.size + length

    def _count_processes(self) -> None:
        most = self.limits.processes
        if len(processes.descendants(self.lease.watched, most + 1)) > most:
            raise NoAnswer("limit", f"it started more than {most} processes")

    def _read(self, descriptor: int) -> None:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if descriptor == self.lease.channel:
            if not chunk:
                raise NoAnswer("died")
            self._answer += chunk
        elif chunk:
            self._add(descriptor, chunk)
        else:
            # Closed by the code itself; an end of file would be ready for ever.
            self._poller.unregister(descriptor)

    def _add(self, descriptor: int, chunk: bytes) -> None:
        stream = self._streams[descriptor]
        stream.add(chunk)
        self.listen(stream.name, chunk)

    def finish(self) -> tuple[PrintedText, PrintedText]:
        """What was printed, stdout and stderr, with what still stands in the pipes."""
        for descriptor in self._streams:
            for _ in range(_LAST_READS):
                try:
                    chunk = os.read(descriptor, _CHUNK)
                except OSError:
                    break
                if not chunk:
                    break
                self._add(descriptor, chunk)
        out, err = self._streams.values()
        for stream in (out, err):
            if stream.size:
                self.listen(stream.name, None)
        return out.text(), err.text()
