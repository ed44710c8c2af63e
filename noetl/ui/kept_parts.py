"""Parts of pages that many browsers ask for at once, because all have heard of one change: each is
made once for all of them."""

from __future__ import annotations

import socket
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Final

#: Parts that are kept at most, and seconds for which one is.
MOST: Final = 200
LONGEST_S: Final = 10.0

_HOST: Final = socket.gethostname()


def say_moment(at: float) -> str:
    """A moment of `time.monotonic`, for who asks for a part that was made later: `host:seconds`.

    The clock is the same for all processes of a machine, and means nothing on another one.
    """
    return f"{_HOST}:{at:.6f}"


def say_now() -> str:
    """This moment."""
    return say_moment(time.monotonic())


def _read(moment: str) -> float | None:
    host, _, text = moment.rpartition(":")
    try:
        return float(text) if host == _HOST else None
    except ValueError:
        return None


@dataclass(slots=True)
class _Part:
    made_at: float = float("-inf")
    text: str = ""
    lock: threading.Lock = field(default_factory=threading.Lock)


class KeptParts:
    """Those of one process, by what they show and to whom. `clock` says seconds of the moments that
    are asked for."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._parts: OrderedDict[Hashable, _Part] = OrderedDict()

    def get(self, key: Hashable, moment: str, make: Callable[[], str], within_s: float | None = None) -> str:
        """A part that was made after `moment`, as `say_now` says it. Where that is of another
        machine, or is none, it is made now. `within_s`: it is not older than so many seconds,
        whatever the moment: what changes without news."""
        since, now = _read(moment), self._clock()
        if within_s is not None:
            since = now - within_s if since is None or since > now else max(since, now - within_s)
        if since is None or not now - LONGEST_S < since <= now:
            return make()
        part = self._find(key)
        with part.lock:
            if part.made_at < since:
                began = self._clock()
                part.text = make()
                part.made_at = began
            return part.text

    def _find(self, key: Hashable) -> _Part:
        with self._lock:
            part = self._parts.setdefault(key, _Part())
            self._parts.move_to_end(key)
            while len(self._parts) > MOST:
                self._parts.popitem(last=False)
            return part
