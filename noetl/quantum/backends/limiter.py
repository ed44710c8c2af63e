"""How many requests a vendor gets: one bucket of tokens for all workers of a machine.

The bucket is a small file under a lock of the kernel, which is given back however a process ends.
No call waits in it: where it is empty, the error says when to try again."""

from __future__ import annotations

import fcntl
import hashlib
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from noetl.errors import ToolError

#: When it was looked at last (monotonic seconds, which all processes of a machine share), and what
#: was in it then.
_STATE: Final = struct.Struct("<dd")


class Throttled(ToolError):
    """There is no request left for now; there is one in `seconds`."""

    def __init__(self, name: str, seconds: float) -> None:
        super().__init__(
            "rate_limit",
            f"{name} has got as many requests from this machine as it may; the next one is in "
            f"{seconds:.1f} s.",
            retryable=True,
            type="Throttled",
        )
        self.seconds = seconds


@dataclass(frozen=True, slots=True)
class Bucket:
    """At most `per_minute` requests a minute, of which a sixth may come at once. `name` is the
    vendor; each of its accounts has its bucket, by `account` (a hash, never the secret)."""

    folder: Path
    name: str
    per_minute: float
    account: str = ""
    clock: Callable[[], float] = time.monotonic

    @property
    def burst(self) -> float:
        """How many requests may come at once."""
        return max(1.0, self.per_minute / 6)

    def take(self, *, follows: bool = False) -> None:
        """Takes one request. Raises Throttled where none is left. One that `follows` another,
        without which that one was in vain, is always granted, and owed: who waited for one request
        would else never get the second."""
        with self._open() as handle:
            now, left = self._state(handle)
            if left < 1.0 and not follows:
                raise Throttled(self.name, (1.0 - left) * 60.0 / self.per_minute)
            os.pwrite(handle, _STATE.pack(now, left - 1.0), 0)

    def rest(self, seconds: float) -> None:
        """Grants no request for so many seconds: the vendor has asked for it."""
        with self._open() as handle:
            now, left = self._state(handle)
            owed = 1.0 - seconds * self.per_minute / 60.0
            os.pwrite(handle, _STATE.pack(now, min(left, owed)), 0)

    def _state(self, handle: int) -> tuple[float, float]:
        """The instant, and what is in the bucket at it."""
        now, said = self.clock(), os.pread(handle, _STATE.size, 0)
        if len(said) != _STATE.size:
            return now, self.burst
        before, left = _STATE.unpack(said)
        if before > now:  # the machine has started again since
            return now, self.burst
        return now, min(self.burst, left + (now - before) * self.per_minute / 60.0)

    @contextmanager
    def _open(self) -> Iterator[int]:
        self.folder.mkdir(parents=True, exist_ok=True)
        digest = hashlib.sha256(f"{self.name}\0{self.account}".encode()).hexdigest()[:32]
        handle = os.open(self.folder / f"{digest}.bucket", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            # Held for microseconds, so there is no need of a deadline.
            fcntl.flock(handle, fcntl.LOCK_EX)
            yield handle
        finally:
            os.close(handle)
