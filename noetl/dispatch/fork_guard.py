"""A lock around work that a fork must not interrupt, such as making a connection."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from typing import Final

#: Seconds that a fork waits for what is being done.
FORK_S: Final = 3.0


class ForkGuard:
    """A context manager that forks wait for; the parent of a prefork pool forks whenever a child
    has died.

    `begin` is called now and in every child, where the lock is a new one: it makes anew whatever
    else a fork may find half done.
    """

    def __init__(self, begin: Callable[[], None]) -> None:
        self._begin = begin
        self._start()
        os.register_at_fork(before=self._acquire, after_in_parent=self._release, after_in_child=self._start)

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def _start(self) -> None:
        self._lock = threading.Lock()
        self._held = False
        self._begin()

    def _acquire(self) -> None:
        self._held = self._lock.acquire(timeout=FORK_S)

    def _release(self) -> None:
        if self._held:
            self._held = False
            self._lock.release()
