"""Ports that no two tests are given, whichever processes run them.

To bind port 0, close it and hand the number on gives it to whoever connects next: the kernel takes
the local ends of connections from the same range. Ports are therefore taken from below that range,
and kept by a lock on a file for as long as this process lives. Two runs side by side use the same
files.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Iterator
from itertools import chain
from pathlib import Path

_LOCKS = Path("/tmp/noetl-test-ports")
#: Above what services of a machine listen on, below what kernels give to clients (Linux: 32,768 and
#: more, macOS: 49,152 and more).
_PORTS = range(18_000, 32_000)

#: Open files that nobody closes: what they lock is kept until this process ends.
_kept: list[int] = []


def free_port() -> int:
    """A port of loopback on which nothing listens, for this process alone. Raises OSError where
    there is none."""
    for port in _candidates():
        if _keep(port):
            if _is_free(port):
                return port
            os.close(_kept.pop())
    raise OSError(f"all ports from {_PORTS.start} to {_PORTS.stop - 1} are taken")


def _candidates() -> Iterator[int]:
    """Each process begins somewhere else, so that few look at the same files."""
    begin = _PORTS.start + os.getpid() * 97 % len(_PORTS)
    return chain(range(begin, _PORTS.stop), range(_PORTS.start, begin))


def _keep(port: int) -> bool:
    _LOCKS.mkdir(mode=0o777, exist_ok=True)
    lock = os.open(_LOCKS / str(port), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(lock)
        return False
    _kept.append(lock)
    return True


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
