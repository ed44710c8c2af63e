"""Frames between worker, runner and children: four bytes of length, then that many bytes."""

from __future__ import annotations

import os
import struct

HEADER = struct.Struct("!I")

#: What a child advises after a call: to keep it, to replace it, to kill it with the processes that it left.
KEEP, REPLACE, KILL = range(3)


class Closed(Exception):
    """The other end is gone."""


def send(descriptor: int, payload: bytes) -> None:
    """Writes one frame. Raises OSError where the other end is gone."""
    view = memoryview(HEADER.pack(len(payload)) + payload)
    while view:
        view = view[os.write(descriptor, view) :]


def receive(descriptor: int) -> bytes:
    """Reads one frame. Raises Closed at the end of the stream."""
    (length,) = HEADER.unpack(_exactly(descriptor, HEADER.size))
    return _exactly(descriptor, length)


def _exactly(descriptor: int, count: int) -> bytes:
    chunks = []
    while count:
        chunk = os.read(descriptor, min(count, 1 << 20))
        if not chunk:
            raise Closed
        chunks.append(chunk)
        count -= len(chunk)
    return b"".join(chunks)
